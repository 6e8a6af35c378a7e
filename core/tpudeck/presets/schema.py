"""The experiment: everything a run depends on, complete, validated and frozen.

Numbers are in base units and named so: lengths count tokens (specials included), batches count sequences. Where a
person would rather write ``"5 min"`` or ``"1 epoch"``, the field is an :data:`IntervalText`.

One validator serves two readers: :func:`check` returns every fault (a form shows them at their fields), and
:func:`experiment_from` raises them all at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tpudeck.errors import Fault, InputError, PresetError
from tpudeck.units import Interval, parse_interval

__all__ = [
    "CAUSAL_ARCHITECTURES",
    "FAMILIES",
    "Corpus",
    "Device",
    "Experiment",
    "Family",
    "Model",
    "Samples",
    "Shards",
    "Tokenizer",
    "Train",
    "check",
    "experiment_from",
    "json_schema",
]


def _interval(value: str | int) -> str | int:
    try:
        parse_interval(value)
    except InputError as error:
        raise ValueError(error.message) from error
    return value


IntervalText = Annotated[str | int, AfterValidator(_interval)]
"""Steps as a number, or text with a unit: ``500``, ``"1 epoch"``, ``"10 min"``, ``"5 %"``."""


class Family:
    """What differs between model families before TensorFlow is ever imported.

    ``position_offset`` is how many entries of the position table come before the first token (RoBERTa counts from
    ``padding_idx + 1``); ``specials`` are the special tokens in the order of their ids, which puts the padding token
    where the family's position code expects it.
    """

    def __init__(self, name: str, *, position_offset: int, specials: tuple[str, ...], objective: str) -> None:
        self.name = name
        self.position_offset = position_offset
        self.specials = specials
        self.objective = objective


_ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("roberta", position_offset=2, specials=_ROBERTA_SPECIALS, objective="masked"),
        Family("bert", position_offset=0, specials=_BERT_SPECIALS, objective="masked"),
        Family("distilbert", position_offset=0, specials=_BERT_SPECIALS, objective="masked"),
        Family("electra", position_offset=0, specials=_BERT_SPECIALS, objective="masked"),
        Family("gpt2", position_offset=0, specials=("<|endoftext|>", "<pad>", "<unk>"), objective="causal"),
    )
}
"""The families with a masked-only (or causal) head of our own and tests. Any other name is a TensorFlow class of
Transformers (``TFCamembertForMaskedLM``) and uses that class's full head; it is laid out like RoBERTa."""

CAUSAL_ARCHITECTURES = frozenset(name for name, family in FAMILIES.items() if family.objective == "causal")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Corpus(_Section):
    """The text."""

    source: str = "builtin"
    """`builtin` (the documentation Python carries), a file, folder or glob, `gs://…`, or `hub:ORG/NAME`."""
    config: str = ""
    """Hub data sets: the configuration, such as `wikitext-103-raw-v1`."""
    split: str = "train"
    """Hub data sets: the split to train on."""
    validation_split: str = ""
    """Hub data sets: the split to evaluate on; empty: a part of the text, chosen by content hash."""
    document: Literal["line", "paragraph"] = "line"
    """Files of text: what one document is, a line or the lines up to a blank one."""
    column: str = "text"
    """The column (or JSON key) that holds the text."""
    revision: str = ""
    """Hub data sets: a commit, tag or branch."""
    validation_fraction: float = Field(default=0.05, gt=0, lt=0.5)
    """Share of the documents held out where there is no validation split."""
    max_documents: int | None = Field(default=None, ge=1)
    """Read at most so many documents."""


class Tokenizer(_Section):
    """The tokenizer: trained on the corpus, or an existing one."""

    source: str = ""
    """A folder or `hub:ORG/NAME` of an existing tokenizer; empty: train one."""
    revision: str = ""
    """Hub tokenizers: a commit, tag or branch."""
    kind: Literal["unigram", "bpe", "byte_bpe", "wordpiece"] = "unigram"
    """The algorithm to train."""
    vocab_size: int = Field(default=10_048, ge=16, le=1_000_000)
    """How many tokens to ask for, specials included."""
    sample_mb: float | None = Field(default=None, gt=0)
    """Train on the first so many megabytes (10^6 bytes) of an even sample of the text; none: on all of it."""
    lowercase: bool = False
    """Lower-case the text."""


class Shards(_Section):
    """The encoded text on disk."""

    sequence_length: int = Field(default=128, ge=8, le=65_536)
    """Tokens per sequence, specials included."""
    layout: Literal["compact", "published"] = "compact"
    """`compact`: one fixed-length `ids` bytes feature; `published`: int64 `input_ids` and `attention_mask`."""
    shard_sequences: int = Field(default=8192, ge=1)
    """Sequences per shard file."""


class Model(_Section):
    """The model, built from a configuration with random weights."""

    architecture: str = "roberta"
    """`roberta`, `bert`, `distilbert`, `electra`, `gpt2`, or the name of a TensorFlow class of Transformers."""
    objective: Literal["masked", "causal"] | None = None
    """Masked or causal language modelling; none: what the architecture is for."""
    layers: int = Field(default=12, ge=1, le=1000)
    width: int = Field(default=768, ge=8)
    """Hidden size."""
    heads: int = Field(default=12, ge=1)
    feed_forward: int | None = Field(default=None, ge=8)
    """Size of the feed-forward layer; none: four times the width."""
    max_positions: int | None = Field(default=None, ge=8)
    """Longest sequence in tokens; none: the sequence length of the shards."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    initializer_range: float = Field(default=0.02, gt=0)
    """Standard deviation of the initial weights; about 1/sqrt(width) learns faster in small models."""


class Train(_Section):
    """How it is trained. Give one of `steps`, `epochs`, `duration`, and one batch size."""

    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps in all."""
    epochs: float | None = Field(default=None, gt=0)
    """Passes over the shards."""
    duration: str | None = None
    """Time to train for, such as `5 min`; turned into steps once, when the speed is known."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per optimizer step, over all replicas and accumulated microsteps."""
    replica_batch_size: int | None = Field(default=None, ge=1)
    """Sequences per replica and microstep; the global batch follows from the device."""
    accumulation_steps: int = Field(default=1, ge=1)
    """Microsteps whose gradients are added up before the optimizer steps."""
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Literal["linear", "cosine"] = "linear"
    """How the learning rate falls to zero after warm-up."""
    warmup: IntervalText = "5 %"
    weight_decay: float = Field(default=1e-3, ge=0)
    """Decoupled; not on LayerNorm and biases."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest global gradient norm; none: no clipping."""
    mask_probability: float = Field(default=0.15, gt=0, lt=1)
    """Share of the positions that are predicted."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products and activations; weights, softmax and loss stay in float32."""
    xla: bool | None = None
    """Compile with XLA on CPU and GPU; none: where it helps. A TPU always compiles."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    log_every: IntervalText = 50
    eval_every: IntervalText = "1 epoch"
    checkpoint_every: IntervalText = "10 min"
    keep_checkpoints: int = Field(default=3, ge=1)
    """The newest so many, and the best."""
    steps_per_call: int | None = Field(default=None, ge=1)
    """Steps in one call of the compiled loop; none: about a second of device time."""


class Device(_Section):
    """What to train on."""

    kind: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    name: str = ""
    """TPU: `local` on a TPU VM, a node's name, or `grpc://host:port`."""
    zone: str = ""
    project: str = ""
    replicas: int | None = Field(default=None, ge=1)
    """CPU: so many virtual replicas (to try what several devices do); none: one. GPU and TPU: all there are."""
    threads: int | None = Field(default=None, ge=1)
    """CPU: threads for arithmetic; none: all."""


class Samples(_Section):
    """A few texts that show what the model has learned, filled at every evaluation."""

    texts: tuple[str, ...] = ()
    """With `<mask>` where the model should fill in; prompts for a causal model."""


class Experiment(_Section):
    """Everything a run depends on."""

    name: str = Field(default="unnamed", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Letters, digits, dot, dash and underscore."""
    summary: str = ""
    """What it is for, in a line."""
    needs: str = ""
    """What it needs: machine, memory, disk."""
    takes: str = ""
    """Roughly how long it takes, and on what."""
    corpus: Corpus = Corpus()
    tokenizer: Tokenizer = Tokenizer()
    shards: Shards = Shards()
    model: Model = Model()
    train: Train = Train()
    device: Device = Device()
    samples: Samples = Samples()

    @property
    def objective(self) -> Literal["masked", "causal"]:
        """What the model predicts."""
        if self.model.objective is not None:
            return self.model.objective
        return "causal" if self.model.architecture in CAUSAL_ARCHITECTURES else "masked"

    @property
    def family(self) -> Family:
        """The layout of specials and positions; classes named in full are laid out like RoBERTa."""
        return FAMILIES.get(self.model.architecture, FAMILIES["roberta"])

    @property
    def feed_forward(self) -> int:
        return self.model.feed_forward or 4 * self.model.width

    @property
    def max_positions(self) -> int:
        return self.model.max_positions or self.shards.sequence_length

    @property
    def masked_per_sequence(self) -> int:
        """Predicted positions in one sequence: at least one, the same for every sequence, so that shapes are static."""
        if self.objective == "causal":
            return self.shards.sequence_length - 1
        return max(1, round(self.train.mask_probability * self.shards.sequence_length))


def _across_fields(experiment: Experiment) -> Iterator[Fault]:
    """Rules that no single field can know."""
    model, train = experiment.model, experiment.train
    if model.width % model.heads:
        divisors = [str(n) for n in range(1, min(model.width, 64) + 1) if model.width % n == 0]
        yield Fault("model.heads", f"must divide model.width ({model.width})", str(model.heads),
                    f"one of {', '.join(divisors)}")  # fmt: skip
    if experiment.shards.sequence_length > experiment.max_positions:
        yield Fault(
            "shards.sequence_length",
            f"must be at most model.max_positions ({experiment.max_positions})",
            str(experiment.shards.sequence_length),
            "raise model.max_positions or leave it out",
        )
    lengths = {name: getattr(train, name) for name in ("steps", "epochs", "duration")}
    given = [name for name, value in lengths.items() if value is not None]
    if len(given) != 1:
        got = " and ".join(f"train.{name}" for name in given) or "none of them"
        yield Fault("train", "needs exactly one of steps, epochs and duration", got)
    if train.duration is not None:
        yield from _duration_faults(train.duration)
    sizes = [name for name in ("global_batch_size", "replica_batch_size") if getattr(train, name) is not None]
    if len(sizes) != 1:
        got = " and ".join(f"train.{name}" for name in sizes) or "neither"
        yield Fault("train", "needs exactly one of global_batch_size and replica_batch_size", got)
    if train.global_batch_size is not None:
        parts = train.accumulation_steps * (experiment.device.replicas or 1)
        if train.global_batch_size % parts:
            yield Fault("train.global_batch_size", f"must be a multiple of replicas x accumulation_steps ({parts})",
                        str(train.global_batch_size))  # fmt: skip
    expected = FAMILIES[model.architecture].objective if model.architecture in FAMILIES else None
    if model.objective is not None and expected is not None and model.objective != expected:
        yield Fault("model.objective", f"{model.architecture} is trained with the {expected} objective",
                    model.objective, "leave it out")  # fmt: skip
    if expected is None and not (model.architecture.startswith("TF") and "For" in model.architecture):
        yield Fault(
            "model.architecture",
            f"is one of {', '.join(FAMILIES)} or a TensorFlow class such as TFCamembertForMaskedLM",
            repr(model.architecture),
            _nearest(model.architecture, list(FAMILIES)),
        )


def _duration_faults(duration: str) -> Iterator[Fault]:
    try:
        unit = parse_interval(duration).unit
    except InputError as error:
        yield Fault("train.duration", error.message)
        return
    if unit != "seconds":
        yield Fault("train.duration", "is a time such as 5 min", repr(duration), f"for that, use train.{unit}")


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


def _keys_at(path: tuple[str | int, ...]) -> list[str]:
    """The keys of the section at this path of the schema."""
    model: Any = Experiment
    for part in path:
        field = model.model_fields.get(str(part))
        if field is None:
            return []
        model = field.annotation
    return list(getattr(model, "model_fields", {}))


def _faults(error: ValidationError) -> list[Fault]:
    faults: dict[str, Fault] = {}
    for item in error.errors(include_url=False):
        # A union reports once per member: the last parts of the path name the member, not a key.
        keys = [part for part in item["loc"] if not (isinstance(part, str) and ("[" in part or part in {"str", "int"}))]
        path = ".".join(str(part) for part in keys)
        if item["type"] == "extra_forbidden":
            known = _keys_at(tuple(keys[:-1]))
            fault = Fault(
                path, "is not a known key", "", _nearest(str(keys[-1]), known) or f"known: {', '.join(known)}"
            )
        else:
            rule = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            got = "" if ", got " in rule else repr(item["input"])[:80]
            fault = Fault(path, rule, got)
        faults.setdefault(path, fault)
    return list(faults.values())


def check(data: Mapping[str, Any]) -> tuple[Experiment | None, list[Fault]]:
    """Validate plain data: the experiment where it is whole, and every fault where it is not."""
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        return None, _faults(error)
    faults = list(_across_fields(experiment))
    return (None if faults else experiment), faults


def experiment_from(data: Mapping[str, Any], *, source: str = "") -> Experiment:
    """Validate plain data; raises :class:`PresetError` with every fault."""
    experiment, faults = check(data)
    if experiment is None:
        raise PresetError(faults, source=source)
    return experiment


def interval(value: str | int) -> Interval:
    """A validated interval field as an :class:`~tpudeck.units.Interval`."""
    return parse_interval(value)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a preset file, for editors; `extends` is resolved before validation."""
    schema = Experiment.model_json_schema()
    schema["properties"] = {"extends": {"type": "string", "description": "The preset this one starts from."}} | schema[
        "properties"
    ]
    return schema
