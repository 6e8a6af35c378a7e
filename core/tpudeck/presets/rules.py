"""What the fields of an experiment must be to each other, and to what is installed.

Each rule says what it reads. So the rules are applied also where some field is wrong by itself: left out are those that
read the one at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tpudeck.errors import Fault, did_you_mean
from tpudeck.presets.architectures import masked_classes
from tpudeck.presets.schema import FAMILIES, Experiment, Train, interval

__all__ = ["broken_rules"]

_Rule: TypeAlias = "Callable[[Experiment], Iterator[Fault]]"
_RULES: list[tuple[frozenset[str], _Rule]] = []
"""Rules that no single field can know, each with the paths it reads."""


def _reads(*paths: str) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _RULES.append((frozenset(paths), rule))
        return rule

    return register


@_reads("model.architecture")
def _architecture_is_known(experiment: Experiment) -> Iterator[Fault]:
    name = experiment.model.architecture
    if name not in FAMILIES and name not in masked_classes():
        rule = f"must be one of {', '.join(FAMILIES)}, or a class TF…ForMaskedLM of the Transformers that is installed"
        yield Fault("model.architecture", rule, repr(name), did_you_mean(name, [*FAMILIES, *sorted(masked_classes())]))


@_reads("model.architecture", "model.objective")
def _objective_fits_the_architecture(experiment: Experiment) -> Iterator[Fault]:
    model = experiment.model
    family = FAMILIES.get(model.architecture)
    if family is not None and model.objective not in (None, family.objective):
        rule = f"{model.architecture} is trained with the {family.objective} objective"
        yield Fault("model.objective", rule, repr(model.objective), "leave it out")


@_reads("model.architecture", "model.embedding_width")
def _only_electra_embeds_at_another_width(experiment: Experiment) -> Iterator[Fault]:
    model = experiment.model
    if model.architecture != "electra" and model.embedding_width not in (None, model.width):
        yield Fault("model.embedding_width", "is for electra", str(model.embedding_width), "leave it out")


@_reads("model.architecture", "model.norm_epsilon")
def _norm_epsilon_can_be_set(experiment: Experiment) -> Iterator[Fault]:
    model = experiment.model
    if model.norm_epsilon is not None and (model.architecture == "distilbert" or model.architecture not in FAMILIES):
        yield Fault("model.norm_epsilon", "is fixed in this class", str(model.norm_epsilon), "leave it out")


@_reads("model.architecture", "model.weights")
def _weights_are_of_a_family(experiment: Experiment) -> Iterator[Fault]:
    model = experiment.model
    if model.weights and model.architecture not in FAMILIES:
        rule = f"is for {', '.join(FAMILIES)}"
        yield Fault("model.weights", rule, model.architecture, "leave it out: other classes start from random weights")


@_reads("shards.source", "tokenizer.source", "model.weights")
def _shards_come_with_a_tokenizer(experiment: Experiment) -> Iterator[Fault]:
    if experiment.shards.source and not experiment.tokenizer_source[0]:
        hint = "name the tokenizer that they were made with"
        yield Fault("tokenizer.source", "must be given where shards.source is", "nothing", hint)


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


@_reads("tokenizer.kind", "tokenizer.source", "tokenizer.vocab_size", "model.architecture", "model.weights")
def _bytes_fit_the_vocabulary(experiment: Experiment) -> Iterator[Fault]:
    tokenizer = experiment.tokenizer
    smallest = 256 + len(experiment.family.specials)
    if tokenizer.kind == "byte_bpe" and not experiment.tokenizer_source[0] and tokenizer.vocab_size < smallest:
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
    if warmup.unit == "steps" and steps is not None and warmup.amount > steps:
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


def broken_rules(experiment: Experiment, wrong: frozenset[str] = frozenset()) -> list[Fault]:
    """What the rules find, but for those that read something at, above or below a `wrong` path."""

    def readable(path: str) -> bool:
        return not any(f"{path}.".startswith(f"{bad}.") or bad.startswith(f"{path}.") for bad in wrong)

    return [fault for paths, rule in _RULES if all(map(readable, paths)) for fault in rule(experiment)]
