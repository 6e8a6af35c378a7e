"""What a run says about itself, one line of JSON per event in ``events.jsonl``.

A line is ``{"v": 1, "time": seconds since the epoch, "attempt": n, "event": kind, …fields}``. Readers skip kinds they
don't know, so an older console can watch a newer run. Numbers that are not finite are the strings ``"NaN"``,
``"Infinity"`` and ``"-Infinity"``, because JSON has none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tpudeck.runs.numbers import decode_number, encode_number, plain

__all__ = [
    "EVENTS",
    "FORMAT_VERSION",
    "AlertRaised",
    "AttemptStarted",
    "CheckpointRejected",
    "CheckpointSaved",
    "Compiled",
    "Evaluated",
    "Event",
    "EventLine",
    "Noticed",
    "PhaseChanged",
    "Profiled",
    "RunLaunched",
    "SamplesFilled",
    "StageExited",
    "StageFinished",
    "StageStarted",
    "StatusChanged",
    "decode_event",
    "decode_number",
    "encode_event",
    "encode_number",
    "plain",
]

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class AttemptStarted:
    """Training begins, anew or from a checkpoint; what an earlier attempt logged after that step is superseded."""

    kind: ClassVar[str] = "attempt_started"
    resume_from_step: int
    environment_changed: tuple[str, ...] = ()
    """What differs from the attempt before (package, thread count, …): the run goes on, but not to the last bit."""


@dataclass(frozen=True, kw_only=True)
class StageStarted:
    kind: ClassVar[str] = "stage_started"
    stage: str


@dataclass(frozen=True, kw_only=True)
class StageFinished:
    kind: ClassVar[str] = "stage_finished"
    stage: str
    cached: bool = False
    """Whether what it makes was found ready."""
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PhaseChanged:
    """What the process is doing now, and when to expect the next sign of life."""

    kind: ClassVar[str] = "phase_changed"
    phase: str
    """``tokenizer``, ``shards``, ``starting``, ``compiling``, ``training``, ``evaluating``, ``checkpointing``,
    ``exporting``."""
    promise_s: float
    """Silence for longer than this is a stall."""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A program was built; more than one of a kind in an attempt is a mistake, and takes minutes on a TPU."""

    kind: ClassVar[str] = "compiled"
    program: str
    """``training`` or ``evaluation``."""
    count: int
    """How often that has been built in this attempt."""
    step: int


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """One pass over the validation set with fixed masks."""

    kind: ClassVar[str] = "evaluated"
    step: int
    eval_loss: float
    """Mean cross-entropy over the predicted positions, in nats."""
    perplexity: float
    accuracy: float
    """Share of the predicted positions whose token was found."""
    baseline_loss: float
    """The same loss for a model that knows only the token frequencies of the training set."""
    targets: int
    """How many positions were predicted."""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved:
    kind: ClassVar[str] = "checkpoint_saved"
    step: int
    path: str
    """Relative to the run folder."""
    size_bytes: int
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointRejected:
    """A checkpoint that is damaged or not finite; the one before is used."""

    kind: ClassVar[str] = "checkpoint_rejected"
    step: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class SamplesFilled:
    """What the model answers to the experiment's sample texts."""

    kind: ClassVar[str] = "samples_filled"
    step: int
    samples: tuple[Mapping[str, Any], ...]
    """Each ``{"text": …, "filled": …, "answers": [[{"token": …, "probability": …}, …] per mask]}``."""


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """Steps were recorded by TensorFlow's profiler, or could not be."""

    kind: ClassVar[str] = "profiled"
    first_step: int
    steps: int
    path: str
    """Relative to the run folder."""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class AlertRaised:
    kind: ClassVar[str] = "alert_raised"
    alert: str
    """``nan``, ``divergence``, ``stall``, ``throughput_drop``, ``input_bound``, ``disk``, ``recompile``, …"""
    message: str
    level: str = "warning"
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunLaunched:
    """A supervisor took the run: the first line of every attempt in ``supervisor.jsonl``."""

    kind: ClassVar[str] = "run_launched"
    pid: int
    host: str
    boot_id: str


@dataclass(frozen=True, kw_only=True)
class StatusChanged:
    """What the supervisor says the run is now."""

    kind: ClassVar[str] = "status_changed"
    status: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, kw_only=True)
class StageExited:
    """The process of a stage ended, in whatever way."""

    kind: ClassVar[str] = "stage_exited"
    stage: str
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """Something worth a line: a count, a decision, a warning from the data."""

    kind: ClassVar[str] = "noticed"
    message: str
    level: str = "info"


Event: TypeAlias = (
    AttemptStarted
    | StageStarted
    | StageFinished
    | PhaseChanged
    | Compiled
    | Evaluated
    | CheckpointSaved
    | CheckpointRejected
    | SamplesFilled
    | Profiled
    | AlertRaised
    | RunLaunched
    | StatusChanged
    | StageExited
    | Noticed
)

EVENTS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        AttemptStarted,
        StageStarted,
        StageFinished,
        PhaseChanged,
        Compiled,
        Evaluated,
        CheckpointSaved,
        CheckpointRejected,
        SamplesFilled,
        Profiled,
        AlertRaised,
        RunLaunched,
        StatusChanged,
        StageExited,
        Noticed,
    )
}


@dataclass(frozen=True)
class EventLine:
    """An event with when it was said, and in which attempt."""

    time: float
    attempt: int
    event: Event


def encode_event(event: Event, *, time: float, attempt: int) -> dict[str, Any]:
    """An event as one line of ``events.jsonl``."""
    fields = {item.name: plain(getattr(event, item.name)) for item in dataclasses.fields(event)}
    return {"v": FORMAT_VERSION, "time": time, "attempt": attempt, "event": event.kind} | fields


def decode_event(line: Mapping[str, Any]) -> EventLine | None:
    """A line of ``events.jsonl``; none where the kind is unknown or fields are missing."""
    cls = EVENTS.get(str(line.get("event")))
    if cls is None:
        return None
    names = {item.name for item in dataclasses.fields(cls)}
    fields = {name: decode_number(value) for name, value in line.items() if name in names}
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    try:
        return EventLine(float(line["time"]), int(line["attempt"]), cls(**fields))
    except (KeyError, TypeError, ValueError):
        return None
