"""The experiment: everything a run depends on, complete, validated and frozen.

Numbers are in base units and named so: lengths count tokens (specials included), batches count sequences. Where a
person would rather write ``"5 min"`` or ``"1 epoch"``, the field is an :data:`IntervalText`.

A field that may be none is set back to none by the text ``"none"``, since TOML has no null.

One validator serves two readers: :func:`check` returns every fault (a form shows them at their fields), and
:func:`experiment_from` raises them all at once. Rules that span fields are applied also where some other field is
wrong: each says what it reads, and is left out only where one of those is the one at fault.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from tpudeck.chips import Chip, accelerator_devices
from tpudeck.errors import Fault, InputError, PresetError
from tpudeck.units import Interval, parse_interval

__all__ = [
    "FAMILIES",
    "NONE",
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
    "interval",
    "json_schema",
    "takes_text",
]

NONE = "none"
"""What a preset or an override writes to set a value back to none."""


def _interval(value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("an interval is a number of steps, or text such as '1 epoch', '10 min' or '5 %'")
    try:
        parse_interval(value)
    except InputError as error:
        raise ValueError(error.message) from error
    return value


def _duration(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a time with its unit, such as 5 min")
    _interval(value)
    unit = parse_interval(value).unit
    if unit != "seconds":
        raise ValueError(f"must be a time such as 5 min; for {unit} there is train.{unit}")
    return value


def _accelerator(value: str) -> str:
    if value:
        try:
            chip, _ = accelerator_devices(value)
        except InputError as error:
            raise ValueError(error.message) from error
        if not chip.tensorflow:
            raise ValueError(f"must be a TPU that TensorFlow runs on, and {chip.name} is not")
    return value


IntervalText: TypeAlias = Annotated[str | int, BeforeValidator(_interval)]
"""Steps as a number, or text with a unit: ``500``, ``"1 epoch"``, ``"10 min"``, ``"5 %"``."""


@dataclass(frozen=True)
class Family:
    """What differs between model families before TensorFlow is ever imported.

    ``position_offset`` is how many entries of the position table come before the first token (RoBERTa counts from
    ``padding_idx + 1``); ``specials`` are the special tokens in the order of their ids, which puts the padding token
    where the family's position code expects it.
    """

    name: str
    position_offset: int
    specials: tuple[str, ...]
    objective: Literal["masked", "causal"]


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


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read_none(cls, data: Any) -> Any:
        """Turn the text that stands for none into none, where the field's default is none."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {
            key: None if value == NONE and key in fields and fields[key].default is None else value
            for key, value in data.items()
        }


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
    duration: Annotated[str, BeforeValidator(_duration)] | None = None
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
    """Steps, epochs, time or percent between lines of metrics; here and below, 0: only at the end."""
    eval_every: IntervalText = "1 epoch"
    """Between evaluations."""
    checkpoint_every: IntervalText = "10 min"
    """Between checkpoints."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """The newest so many, and the best."""
    steps_per_call: int | None = Field(default=None, ge=1)
    """Steps in one call of the compiled loop; none: about a second of device time."""


class Device(_Section):
    """What to train on."""

    kind: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    accelerator: Annotated[str, AfterValidator(_accelerator)] = ""
    """TPU: what to plan for, such as `v3-8` or `v5e-8`; empty: not said."""
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

    texts: tuple[str, ...] = Field(default=(), strict=False)
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
        return self.model.objective or self.family.objective

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

    @property
    def planned_device(self) -> tuple[Chip, int] | None:
        """The chip of `device.accelerator` and how many devices TensorFlow sees on it; none where it is not said."""
        return accelerator_devices(self.device.accelerator) if self.device.accelerator else None


_Rule: TypeAlias = "Callable[[Experiment], Iterator[Fault]]"
_RULES: list[tuple[frozenset[str], _Rule]] = []
"""Rules that no single field can know, each with the paths it reads."""


def _reads(*paths: str) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _RULES.append((frozenset(paths), rule))
        return rule

    return register


_MASKED_CLASS = re.compile(r"TF\w+ForMaskedLM")


@_reads("model.architecture")
def _architecture_is_known(experiment: Experiment) -> Iterator[Fault]:
    name = experiment.model.architecture
    if name not in FAMILIES and not _MASKED_CLASS.fullmatch(name):
        rule = f"is one of {', '.join(FAMILIES)}, or a TensorFlow class TF…ForMaskedLM of Transformers"
        yield Fault("model.architecture", rule, repr(name), _nearest(name, FAMILIES))


@_reads("model.architecture", "model.objective")
def _objective_fits_the_architecture(experiment: Experiment) -> Iterator[Fault]:
    model = experiment.model
    family = FAMILIES.get(model.architecture)
    if family is not None and model.objective not in (None, family.objective):
        rule = f"{model.architecture} is trained with the {family.objective} objective"
        yield Fault("model.objective", rule, repr(model.objective), "leave it out")


@_reads("model.width", "model.heads")
def _heads_divide_the_width(experiment: Experiment) -> Iterator[Fault]:
    width, heads = experiment.model.width, experiment.model.heads
    if width % heads:
        divisors = [str(n) for n in range(1, min(width, 64) + 1) if width % n == 0]
        rule = f"must divide model.width ({width})"
        yield Fault("model.heads", rule, str(heads), f"one of {', '.join(divisors)}")


@_reads("shards.sequence_length", "model.max_positions")
def _sequences_fit_the_positions(experiment: Experiment) -> Iterator[Fault]:
    length, positions = experiment.shards.sequence_length, experiment.max_positions
    if length > positions:
        rule = f"must be at most model.max_positions ({positions})"
        yield Fault("shards.sequence_length", rule, str(length), "raise model.max_positions or leave it out")


@_reads("tokenizer.kind", "tokenizer.source", "tokenizer.vocab_size", "model.architecture")
def _bytes_fit_the_vocabulary(experiment: Experiment) -> Iterator[Fault]:
    tokenizer = experiment.tokenizer
    smallest = 256 + len(experiment.family.specials)
    if tokenizer.kind == "byte_bpe" and not tokenizer.source and tokenizer.vocab_size < smallest:
        rule = f"must be at least {smallest} for byte_bpe (256 bytes and the special tokens)"
        yield Fault("tokenizer.vocab_size", rule, str(tokenizer.vocab_size))


@_reads("train.steps", "train.epochs", "train.duration")
def _one_length(experiment: Experiment) -> Iterator[Fault]:
    given = _given(experiment.train, "steps", "epochs", "duration")
    if len(given) != 1:
        yield Fault("train", "needs exactly one of steps, epochs and duration", " and ".join(given) or "none of them")


@_reads("train.global_batch_size", "train.replica_batch_size")
def _one_batch_size(experiment: Experiment) -> Iterator[Fault]:
    given = _given(experiment.train, "global_batch_size", "replica_batch_size")
    if len(given) != 1:
        rule = "needs exactly one of global_batch_size and replica_batch_size"
        yield Fault("train", rule, " and ".join(given) or "neither")


def _given(train: Train, *names: str) -> list[str]:
    return [name for name in names if getattr(train, name) is not None]


@_reads("train.global_batch_size", "train.accumulation_steps", "device.replicas", "device.accelerator")
def _batch_divides_evenly(experiment: Experiment) -> Iterator[Fault]:
    train, device = experiment.train, experiment.planned_device
    replicas = experiment.device.replicas or (device[1] if device else 1)
    parts = train.accumulation_steps * replicas
    if train.global_batch_size is not None and train.global_batch_size % parts:
        rule = f"must be a multiple of replicas x accumulation_steps ({replicas} x {train.accumulation_steps})"
        yield Fault("train.global_batch_size", rule, str(train.global_batch_size))


@_reads("train.warmup", "train.steps")
def _warmup_ends(experiment: Experiment) -> Iterator[Fault]:
    warmup, steps = interval(experiment.train.warmup), experiment.train.steps
    too_long = warmup.unit == "percent" and warmup.amount > 100
    if too_long or (warmup.unit == "steps" and steps is not None and warmup.amount > steps):
        yield Fault("train.warmup", "must be at most the whole run", repr(experiment.train.warmup))


@_reads("device.kind", "device.accelerator", "device.name", "device.zone", "device.project", "device.replicas")
def _device_keys_fit_its_kind(experiment: Experiment) -> Iterator[Fault]:
    device = experiment.device
    if device.kind in {"cpu", "gpu"}:
        for key in ("accelerator", "name", "zone", "project"):
            if getattr(device, key):
                yield Fault(f"device.{key}", "is for a TPU", repr(getattr(device, key)), f"the kind is {device.kind}")
    if device.kind in {"gpu", "tpu"} and device.replicas is not None:
        yield Fault(
            "device.replicas", f"is for a CPU; a {device.kind.upper()} uses all there are", str(device.replicas)
        )


@_reads("samples.texts", "model.architecture", "model.objective")
def _samples_have_a_mask(experiment: Experiment) -> Iterator[Fault]:
    for index, text in enumerate(experiment.samples.texts):
        if experiment.objective == "masked" and "<mask>" not in text:
            yield Fault(f"samples.texts.{index}", "needs a <mask> to fill", repr(text))


def _across_fields(experiment: Experiment, wrong: frozenset[str] = frozenset()) -> list[Fault]:
    """What the rules across fields find, but for those that read something at, above or below a `wrong` path."""

    def readable(path: str) -> bool:
        return not any(f"{path}.".startswith(f"{bad}.") or bad.startswith(f"{path}.") for bad in wrong)

    return [fault for paths, rule in _RULES if all(map(readable, paths)) for fault in rule(experiment)]


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


def _fields_at(path: tuple[str | int, ...]) -> dict[str, FieldInfo]:
    """The fields of the section at this path; empty where there is no section."""
    section: Any = Experiment
    for part in path:
        fields = getattr(section, "model_fields", {})
        section = fields[part].annotation if part in fields else None
    return dict(getattr(section, "model_fields", {}))


def takes_text(path: str) -> bool:
    """Whether the field at a dotted path holds plain text, so that ``123`` means the text and not the number."""
    *parents, last = path.split(".")
    field = _fields_at(tuple(parents)).get(last)
    return field is not None and field.annotation is str


def _hint_for_unknown(keys: tuple[str | int, ...]) -> str:
    """The same key in another section; else the nearest key of its own section; else what is known here."""
    *parents, last = keys
    here = _fields_at(tuple(parents))
    elsewhere = [section for section in Experiment.model_fields if last in _fields_at((section,))]
    if elsewhere:
        return f"did you mean {elsewhere[0]}.{last}?"
    return _nearest(str(last), here) or f"known: {', '.join(here)}"


_PLAIN_WORDS = {
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "model_type": "must be a section",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""Pydantic's error types whose own words speak of Python."""


def _faults(error: ValidationError) -> list[Fault]:
    faults: dict[str, Fault] = {}
    for item in error.errors(include_url=False):
        keys = _keys(item["loc"])
        path = ".".join(map(str, keys))
        if item["type"] == "extra_forbidden":
            fault = Fault(path, "is not a known key", "", _hint_for_unknown(keys))
        else:
            said = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            rule = _PLAIN_WORDS.get(item["type"], said)
            fault = Fault(path, rule, "" if ", got " in rule else repr(item["input"])[:80])
        faults.setdefault(path, fault)
    return list(faults.values())


def _keys(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where a fault is, as keys of the file: up to the first part that only names the member of a union."""
    depth = 0
    while depth < len(location) and (depth == 0 or _fields_at(location[:depth]) or isinstance(location[depth], int)):
        depth += 1
    return location[:depth]


def _without(data: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    """Nested data without the value at this path; where a list holds it, without the list."""
    key, *below = path
    rest = {name: value for name, value in data.items() if name != key}
    if below and isinstance(data.get(key), Mapping):
        rest[key] = _without(data[key], below)
    return rest


def check(data: Mapping[str, Any]) -> tuple[Experiment | None, list[Fault]]:
    """Validate plain data: the experiment where it is whole, and every fault where it is not."""
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        faults = _faults(error)
        wrong = frozenset(fault.path for fault in faults)
        return None, faults + _across_the_rest(data, wrong)
    faults = _across_fields(experiment)
    return (None if faults else experiment), faults


def _across_the_rest(data: Mapping[str, Any], wrong: frozenset[str]) -> list[Fault]:
    """The rules across fields, applied to what is left when the values at fault are taken out."""
    for path in wrong:
        data = _without(data, path.split("."))
    try:
        return _across_fields(Experiment.model_validate(data), wrong)
    except ValidationError:  # a quoted key with a dot in it cannot be taken out by its path
        return []


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
    """The JSON schema of a preset file, for editors: every section may be partial, and `extends` names another preset.

    It describes what TOML can hold, so none is the text ``"none"``.
    """
    schema: dict[str, Any] = _none_as_text(Experiment.model_json_schema())
    extends = {"type": "string", "description": "The preset this one starts from."}
    schema["properties"] = {"extends": extends} | schema["properties"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "tpudeck preset"}


def _none_as_text(node: Any) -> Any:
    if isinstance(node, list):
        return [_none_as_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node == {"type": "null"}:
        return {"const": NONE}
    return {key: _none_as_text(value) for key, value in node.items() if not (key == "default" and value is None)}
