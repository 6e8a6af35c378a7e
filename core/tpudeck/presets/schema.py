"""The experiment: everything a run depends on, complete, validated and frozen.

Numbers are in base units and named so: lengths count tokens (specials included), batches count sequences. Where a
person would rather write ``"5 min"`` or ``"1 epoch"``, the field is an :data:`IntervalText`. Every number has an upper
bound, generous but such that whatever is computed from it fits into 64 bits.

A field that may be none is set back to none by the text ``"none"``, since TOML has no null.

What single fields must be is said here; what they must be to each other in :mod:`~tpudeck.presets.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from tpudeck.chips import Chip, accelerator_devices
from tpudeck.errors import InputError
from tpudeck.units import Interval, IntervalUnit, parse_interval

__all__ = [
    "FAMILIES",
    "NONE",
    "NOT_UNICODE",
    "Corpus",
    "Device",
    "Experiment",
    "Family",
    "Model",
    "Samples",
    "Shards",
    "Tokenizer",
    "Train",
    "interval",
]

NOT_UNICODE = "must be Unicode text; a file whose name has other bytes must be renamed"
NONE = "none"
"""What a preset or an override writes to set a value back to none."""


_LONGEST: dict[IntervalUnit, float] = {"steps": 1e10, "epochs": 1e6, "seconds": 1e9, "percent": 100}


def _interval(value: Any) -> str | int:
    rule = "must be a number of steps, or text such as 1 epoch, 10 min or 5 %"
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(rule)
    _within_reason(value, rule)
    return value


def _duration(value: Any) -> str:
    rule = "must be a time with its unit, such as 10 min"
    if not isinstance(value, str):
        raise ValueError(rule)
    time = _within_reason(value, rule)
    if time.unit in {"steps", "epochs"}:
        raise ValueError(f"{rule}; for {time.unit} there is train.{time.unit}")
    if time.unit != "seconds" or time.amount <= 0:
        raise ValueError(rule)
    return value


def _within_reason(value: str | int, rule: str) -> Interval:
    try:
        read = parse_interval(value)
    except InputError as error:
        raise ValueError(rule) from error
    if read.amount > _LONGEST[read.unit]:
        raise ValueError(f"must be at most {Interval(_LONGEST[read.unit], read.unit)}")
    return read


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

    @field_validator("*")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        """Refuse what no file of UTF-8 can hold: a name with other bytes arrives with surrogates in their place."""
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and any("\ud800" <= mark <= "\udfff" for mark in text):
                raise ValueError(NOT_UNICODE)
        return value


class Corpus(_Section):
    """The text."""

    source: str = Field(default="builtin", min_length=1)
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
    max_documents: int | None = Field(default=None, ge=1, le=10**12)
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
    sample_mb: float | None = Field(default=None, gt=0, le=1e9)
    """Train on the first so many megabytes (10^6 bytes) of an even sample of the text; none: on all of it."""
    lowercase: bool = False
    """Lower-case the text."""


class Shards(_Section):
    """The encoded text on disk."""

    source: str = ""
    """Shards that exist already: a folder or `gs://…`; empty: make them from the corpus."""
    sequence_length: int = Field(default=128, ge=8, le=65_536)
    """Tokens per sequence, specials included."""
    layout: Literal["compact", "published"] = "compact"
    """`compact`: one fixed-length `ids` bytes feature; `published`: int64 `input_ids` and `attention_mask`."""
    shard_sequences: int = Field(default=8192, ge=1, le=10**7)
    """Sequences per shard file."""


class Model(_Section):
    """The model, built from a configuration with random weights, or with those of an existing one."""

    architecture: str = "roberta"
    """`roberta`, `bert`, `distilbert`, `electra`, `gpt2`, or the name of a TensorFlow class of Transformers."""
    objective: Literal["masked", "causal"] | None = None
    """Masked or causal language modelling; none: what the architecture is for."""
    layers: int = Field(default=12, ge=1, le=1000)
    """Transformer blocks."""
    width: int = Field(default=768, ge=8, le=65_536)
    """Hidden size."""
    heads: int = Field(default=12, ge=1, le=65_536)
    """Attention heads; they must divide the width."""
    feed_forward: int | None = Field(default=None, ge=8, le=1_000_000)
    """Size of the feed-forward layer; none: four times the width."""
    max_positions: int | None = Field(default=None, ge=8, le=1_000_000)
    """Longest sequence in tokens; none: the sequence length of the shards."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of the values that are dropped in training."""
    initializer_range: float = Field(default=0.02, gt=0, le=1000)
    """Standard deviation of the initial weights; about 1/sqrt(width) learns faster in small models."""
    embedding_width: int | None = Field(default=None, ge=8, le=65_536)
    """ELECTRA: size of a token's embedding; none: the width."""
    norm_epsilon: float | None = Field(default=None, gt=0, lt=1)
    """Of the LayerNorms; none: as in the published models of the family."""
    weights: str = ""
    """Weights to start from: a folder, `gs://…` or `hub:ORG/NAME`, as `export` and `push` write it; empty: random."""
    weights_revision: str = ""
    """Weights on the Hub: a commit, tag or branch."""


class Train(_Section):
    """How it is trained. Give one of `steps`, `epochs`, `duration`, and one batch size."""

    steps: int | None = Field(default=None, ge=1, le=10**10)
    """Optimizer steps in all."""
    epochs: float | None = Field(default=None, gt=0, le=1e6)
    """Passes over the shards."""
    duration: Annotated[str, BeforeValidator(_duration)] | None = None
    """Time to train for, such as `5 min`; turned into steps once, when the speed is known."""
    global_batch_size: int | None = Field(default=None, ge=1, le=10**7)
    """Sequences per optimizer step, over all replicas and accumulated microsteps."""
    replica_batch_size: int | None = Field(default=None, ge=1, le=10**7)
    """Sequences per replica and microstep; the global batch follows from the device."""
    accumulation_steps: int = Field(default=1, ge=1, le=10**6)
    """Microsteps whose gradients are added up before the optimizer steps."""
    learning_rate: float = Field(default=1e-4, gt=0, le=1e30)
    """The highest one, reached after warm-up."""
    schedule: Literal["linear", "cosine"] = "linear"
    """How the learning rate falls to zero after warm-up."""
    warmup: IntervalText = "5 %"
    """Steps, epochs, time or percent in which the learning rate rises from zero."""
    weight_decay: float = Field(default=1e-3, ge=0, le=1e30)
    """Decoupled; not on LayerNorm and biases."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """AdamW: decay of the mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """AdamW: decay of the mean of squared gradients."""
    epsilon: float = Field(default=1e-8, gt=0, le=1)
    """AdamW: added to the root of the second mean."""
    clip_norm: float | None = Field(default=None, gt=0, le=1e30)
    """Largest global gradient norm; none: no clipping."""
    mask_probability: float = Field(default=0.15, gt=0, lt=1)
    """Share of the positions that are predicted."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products and activations; weights, softmax and loss stay in float32."""
    xla: bool | None = None
    """Compile with XLA on CPU and GPU; none: where it helps. A TPU always compiles."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of weights, order, masks and dropout."""
    log_every: IntervalText = 50
    """Steps, epochs, time or percent between lines of metrics; here and below, 0: only at the end."""
    eval_every: IntervalText = "1 epoch"
    """Between evaluations."""
    checkpoint_every: IntervalText = "10 min"
    """Between checkpoints."""
    keep_checkpoints: int = Field(default=3, ge=1, le=10**6)
    """The newest so many, and the best."""
    steps_per_call: int | None = Field(default=None, ge=1, le=10**6)
    """Steps in one call of the compiled loop; none: about a second of device time."""


class Device(_Section):
    """What to train on."""

    kind: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    """`auto`: a TPU where TensorFlow is built for one, else a GPU, else the CPU."""
    accelerator: Annotated[str, AfterValidator(_accelerator)] = ""
    """TPU: what to plan for, such as `v3-8` or `v5e-8`; empty: not said."""
    name: str = ""
    """TPU: `local` on a TPU VM, a node's name, or `grpc://host:port`."""
    zone: str = ""
    """TPU by a node's name: its zone."""
    project: str = ""
    """TPU by a node's name: its Google Cloud project."""
    replicas: int | None = Field(default=None, ge=1, le=1024)
    """CPU: so many virtual replicas (to try what several devices do); none: one. GPU and TPU: all there are."""
    threads: int | None = Field(default=None, ge=1, le=4096)
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
    def embedding_width(self) -> int:
        return self.model.embedding_width or self.model.width

    @property
    def tokenizer_source(self) -> tuple[str, str]:
        """Where an existing tokenizer is, and its revision: weights bring their own. Empty: one is trained."""
        if self.tokenizer.source or not self.model.weights:
            return self.tokenizer.source, self.tokenizer.revision
        return self.model.weights, self.model.weights_revision

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


def interval(value: str | int) -> Interval:
    """A validated interval field as an :class:`~tpudeck.units.Interval`."""
    return parse_interval(value)
