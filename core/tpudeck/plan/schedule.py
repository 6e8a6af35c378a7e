"""From an experiment and the sequences there are to whole steps: the arithmetic that training obeys.

The training stage calls :func:`schedule` once, writes the result into ``plan.json``, and every later attempt obeys that
file. Sequences form one endless stream of epochs in which a batch may straddle two of them, so an epoch is a fractional
number of steps and nothing is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpudeck.errors import CorpusError, Fault, PresetError
from tpudeck.units import parse_duration, parse_interval

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = [
    "Schedule",
    "check_sequences",
    "global_batch_size",
    "interval_steps",
    "needs_step_time",
    "schedule",
    "total_steps",
]


@dataclass(frozen=True)
class Schedule:
    """The lengths of a run in steps."""

    global_batch: int
    """Sequences per optimizer step."""
    steps_per_epoch: float
    total_steps: int
    warmup_steps: int
    log_every_steps: int
    """Zero, here and below: only at the end."""
    eval_every_steps: int
    checkpoint_every_steps: int | None
    """None where checkpoints go by the clock."""
    checkpoint_every_s: float | None


def global_batch_size(experiment: Experiment, *, replicas: int) -> int:
    """Sequences per optimizer step over all replicas and microsteps.

    Raises :class:`PresetError` where a given global batch cannot be divided evenly.
    """
    train = experiment.train
    parts = replicas * train.accumulation_steps
    if train.replica_batch_size is not None:
        return train.replica_batch_size * parts
    assert train.global_batch_size is not None, "a validated experiment has one batch size"
    if train.global_batch_size % parts:
        lower = train.global_batch_size // parts * parts
        near = " or ".join(str(size) for size in (lower, lower + parts) if size)
        rule = f"must be a multiple of replicas x accumulation_steps ({replicas} x {train.accumulation_steps})"
        raise PresetError(
            [Fault("train.global_batch_size", rule, str(train.global_batch_size), near)], source=experiment.name
        )
    return train.global_batch_size


def check_sequences(*, training: int, validation: int, global_batch: int) -> None:
    """Refuse a corpus that cannot fill one training batch, or has nothing to evaluate on."""
    if training < global_batch:
        raise CorpusError(
            f"training needs at least one global batch of {global_batch:,} sequences, got {training:,}",
            hint="give more text, a smaller train.global_batch_size, or a shorter shards.sequence_length",
        )
    if validation < 1:
        raise CorpusError(
            "evaluation needs at least one sequence, got none",
            hint="give more text, a larger corpus.validation_fraction, or a shorter shards.sequence_length",
        )


def total_steps(experiment: Experiment, *, steps_per_epoch: float, step_s: float | None = None) -> int:
    """Optimizer steps in all, at least one; `step_s` is needed where the experiment gives a duration."""
    train = experiment.train
    if train.steps is not None:
        return train.steps
    if train.epochs is not None:
        return max(1, math.floor(train.epochs * steps_per_epoch + 0.5))
    assert train.duration is not None, "a validated experiment has one length"
    if step_s is None:
        raise ValueError("a duration in seconds needs the duration of a step")
    return max(1, math.floor(parse_duration(train.duration) / step_s))


def interval_steps(value: str | int, *, total_steps: int, steps_per_epoch: float, step_s: float | None = None) -> int:
    """An interval field of an experiment (``500``, ``"1 epoch"``, ``"5 %"``) in whole steps; zero stays zero."""
    return parse_interval(value).to_steps(total_steps=total_steps, steps_per_epoch=steps_per_epoch, step_s=step_s)


def needs_step_time(experiment: Experiment) -> bool:
    """Whether :func:`schedule` needs `step_s`, so that the speed has to be measured before the run has a length.

    Checkpoints go by the clock where they are given in time, and need none.
    """
    train = experiment.train
    intervals = (train.warmup, train.log_every, train.eval_every)
    return train.duration is not None or any(parse_interval(value).unit == "seconds" for value in intervals)


def schedule(experiment: Experiment, *, sequences: int, replicas: int, step_s: float | None = None) -> Schedule:
    """The lengths of a run over `sequences` training sequences on `replicas` devices.

    `step_s` is the measured duration of a step in seconds; see :func:`needs_step_time`.
    """
    train = experiment.train
    batch = global_batch_size(experiment, replicas=replicas)
    per_epoch = sequences / batch
    total = total_steps(experiment, steps_per_epoch=per_epoch, step_s=step_s)

    def steps(value: str | int) -> int:
        return interval_steps(value, total_steps=total, steps_per_epoch=per_epoch, step_s=step_s)

    checkpoint = parse_interval(train.checkpoint_every)
    by_clock = checkpoint.unit == "seconds"
    return Schedule(
        global_batch=batch,
        steps_per_epoch=per_epoch,
        total_steps=total,
        warmup_steps=min(steps(train.warmup), total),
        log_every_steps=steps(train.log_every),
        eval_every_steps=steps(train.eval_every),
        checkpoint_every_steps=None if by_clock else steps(train.checkpoint_every),
        checkpoint_every_s=checkpoint.amount if by_clock else None,
    )
