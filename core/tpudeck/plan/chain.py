"""What follows from an experiment, in numbered order: each quantity with its value and how it came about.

What cannot be known yet (the sequences before the shards are built, the speed before a run) is none, and so is all that
follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpudeck.plan.schedule import global_batch_size, interval_steps, total_steps
from tpudeck.plan.size import flops_per_token, memory_per_replica, padded_vocab_size, parameter_count
from tpudeck.units import IntervalUnit, counted, format_bytes, format_count, format_duration, parse_interval

if TYPE_CHECKING:
    from tpudeck.chips import Chip
    from tpudeck.presets import Experiment

__all__ = ["ASSUMED_UTILISATION", "Plan", "Quantity", "derive"]

ASSUMED_UTILISATION = 0.4
"""Share of a chip's peak that a base-sized model reaches at sequences of 512: 35 to 45 % in good public runs."""


@dataclass(frozen=True)
class Quantity:
    """One link of the chain."""

    name: str
    """A key for programs."""
    label: str
    value: float | None
    """None where it cannot be known yet."""
    unit: str
    how: str
    """What it follows from."""

    @property
    def text(self) -> str:
        """The value as people read it."""
        return "not known yet" if self.value is None else _FORMATS[self.unit](self.value)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "unit": self.unit, "text": self.text, "how": self.how}


def _format_flops(count: float) -> str:
    """6.02e8 → ``"602 MFLOP"``."""
    power = min(max(int(math.log10(count)) // 3, 0), 6) if count >= 1 else 0
    return f"{count / 1000**power:.3g} {('', 'k', 'M', 'G', 'T', 'P', 'E')[power]}FLOP"


_FORMATS: dict[str, Callable[[float], str]] = {
    "sequences": lambda value: f"{value:,.0f} sequences",
    "steps": lambda value: f"{value:,.0f} steps" if value == int(value) else f"{value:,.1f} steps",
    "tokens": lambda value: f"{format_count(value)} tokens",
    "tokens/s": lambda value: f"{format_count(value)} tokens/s",
    "parameters": lambda value: f"{format_count(value)} parameters",
    "FLOP": _format_flops,
    "bytes": format_bytes,
    "s": format_duration,
}


@dataclass(frozen=True)
class Plan:
    """The chain, in order."""

    quantities: tuple[Quantity, ...]

    def value(self, name: str) -> float | None:
        """The value of one quantity; none where it cannot be known yet."""
        return next(quantity.value for quantity in self.quantities if quantity.name == name)

    def lines(self) -> list[str]:
        """The chain as a terminal prints it."""
        return [
            f"{number:>2}. {quantity.label}: {quantity.text}  ({quantity.how})"
            for number, quantity in enumerate(self.quantities, start=1)
        ]


@dataclass(frozen=True)
class _Given:
    """What the chain starts from."""

    experiment: Experiment
    sequences: int | None
    vocab_size: int
    replicas: int
    chip: Chip | None
    tokens_per_s: float | None
    """Measured, else assumed, else none."""
    speed: str
    """Where the speed comes from."""

    @property
    def global_batch(self) -> int:
        return global_batch_size(self.experiment, replicas=self.replicas)

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.experiment.shards.sequence_length

    @property
    def steps_per_epoch(self) -> float | None:
        return None if self.sequences is None else self.sequences / self.global_batch

    @property
    def step_s(self) -> float | None:
        return None if self.tokens_per_s is None else self.tokens_per_step / self.tokens_per_s

    @property
    def total_steps(self) -> int | None:
        train = self.experiment.train
        if not self._known("epochs" if train.epochs else "seconds" if train.duration else "steps"):
            return None
        return total_steps(self.experiment, steps_per_epoch=self.steps_per_epoch or math.nan, step_s=self.step_s)

    @property
    def warmup_steps(self) -> int | None:
        total, warmup = self.total_steps, self.experiment.train.warmup
        if total is None or not self._known(parse_interval(warmup).unit):
            return None
        per_epoch = self.steps_per_epoch or math.nan
        return min(interval_steps(warmup, total_steps=total, steps_per_epoch=per_epoch, step_s=self.step_s), total)

    def _known(self, unit: IntervalUnit) -> bool:
        """Whether a length in this unit can be turned into steps yet."""
        if unit == "epochs":
            return self.sequences is not None
        return unit != "seconds" or self.step_s is not None


def derive(
    experiment: Experiment,
    *,
    sequences_train: int | None = None,
    vocab_size: int | None = None,
    replicas: int | None = None,
    chip: Chip | None = None,
    tokens_per_s: float | None = None,
    utilisation: float = ASSUMED_UTILISATION,
) -> Plan:
    """Sequences → tokens → batch → steps → parameters → arithmetic → memory → time.

    `replicas` and `chip` default to what the experiment plans for, `vocab_size` to what it asks for. The time comes
    from `tokens_per_s` where a speed was measured, else from the chip's peak at an assumed `utilisation`.
    """
    planned = experiment.planned_device
    chip = chip or (planned[0] if planned else None)
    replicas = replicas or experiment.device.replicas or (planned[1] if planned else 1)
    vocab_size = vocab_size or experiment.tokenizer.vocab_size
    speed = "measured" if tokens_per_s else "known when it has been measured, or a chip is named"
    if tokens_per_s is None and chip is not None:
        peak = replicas * chip.peak_bf16_flops_per_device
        tokens_per_s = utilisation * peak / flops_per_token(experiment, vocab_size=vocab_size)
        speed = f"{utilisation:.0%} of the peak of {replicas} {chip.name} devices, assumed"
    given = _Given(experiment, sequences_train, vocab_size, replicas, chip, tokens_per_s, speed)
    return Plan((*_steps(given), *_model(given), *_time(given)))


def _steps(given: _Given) -> list[Quantity]:
    train, length = given.experiment.train, given.experiment.shards.sequence_length
    tokens = None if given.sequences is None else given.sequences * length
    each = given.global_batch // (given.replicas * train.accumulation_steps)
    parts = " x ".join(
        counted(count, thing)
        for count, thing in ((given.replicas, "replica"), (train.accumulation_steps, "microstep"), (each, "sequence"))
    )
    total = given.total_steps
    seen = None if total is None else total * given.tokens_per_step
    asked = next(f"{name} = {value}" for name in ("steps", "epochs", "duration") if (value := getattr(train, name)))
    return [
        Quantity("sequences", "training sequences", given.sequences, "sequences", "counted in the shards"),
        Quantity("corpus_tokens", "tokens in the corpus", tokens, "tokens", f"sequences x {length}"),
        Quantity("global_batch", "global batch", given.global_batch, "sequences", parts),
        Quantity("tokens_per_step", "tokens per step", given.tokens_per_step, "tokens", f"global batch x {length}"),
        Quantity("steps_per_epoch", "steps per epoch", given.steps_per_epoch, "steps", "sequences / global batch"),
        Quantity("total_steps", "steps in all", total, "steps", f"train.{asked}"),
        Quantity("warmup_steps", "warm-up", given.warmup_steps, "steps", f"train.warmup = {train.warmup}"),
        Quantity("tokens_seen", "tokens seen", seen, "tokens", "steps in all x tokens per step"),
    ]


def _model(given: _Given) -> list[Quantity]:
    experiment, model = given.experiment, given.experiment.model
    count = parameter_count(experiment, vocab_size=given.vocab_size)
    flops = flops_per_token(experiment, vocab_size=given.vocab_size)
    batch = given.global_batch // (given.replicas * experiment.train.accumulation_steps)
    memory = memory_per_replica(experiment, vocab_size=given.vocab_size, replica_batch=batch)
    room = f" of {format_bytes(given.chip.hbm_bytes_per_device)} on a {given.chip.name} device" if given.chip else ""
    shape = f"{counted(model.layers, 'layer')} x {model.width}, vocabulary {padded_vocab_size(given.vocab_size):,}"
    return [
        Quantity("parameters", "parameters", count, "parameters", shape),
        Quantity("flops_per_token", "arithmetic per token", flops, "FLOP", "forward and backward, matrix products"),
        Quantity("flops_per_step", "arithmetic per step", flops * given.tokens_per_step, "FLOP", "x tokens per step"),
        Quantity("state_bytes", "weights, gradients, optimizer", memory.state_bytes, "bytes", "16 bytes a parameter"),
        Quantity("activations_bytes", "activations", memory.activations_bytes, "bytes",
                 f"upper estimate for {batch} sequences in {experiment.train.precision}"),
        Quantity("memory_bytes", "memory per replica", memory.total_bytes, "bytes", f"upper estimate{room}"),
    ]  # fmt: skip


def _time(given: _Given) -> list[Quantity]:
    total, step_s = given.total_steps, given.step_s
    whole = None if total is None or step_s is None else total * step_s
    return [
        Quantity("tokens_per_s", "speed", given.tokens_per_s, "tokens/s", given.speed),
        Quantity("step_s", "time per step", step_s, "s", "tokens per step / speed"),
        Quantity("time_s", "time in all", whole, "s", "training steps only: no compilation, no evaluation"),
    ]
