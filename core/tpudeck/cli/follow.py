"""Following a run at a terminal: live, in plain lines, or as JSON lines; until it ends, or until the person leaves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Protocol

from tpudeck.cli.output import emit_line, narrate
from tpudeck.runs.events import (
    AlertRaised,
    AttemptStarted,
    CheckpointRejected,
    CheckpointSaved,
    Evaluated,
    Event,
    Noticed,
    Profiled,
    StageFinished,
    StageStarted,
    StatusChanged,
)
from tpudeck.runs.lines import LineFollower
from tpudeck.runs.reader import RunReader, RunSnapshot
from tpudeck.runs.status import ENDED
from tpudeck.runs.summary import RunSummary
from tpudeck.units import format_bytes, format_duration, format_rate

__all__ = ["Interrupts", "JsonView", "PlainView", "View", "describe", "follow", "position"]

_POLL_S = 0.25


class View(Protocol):
    """Shows snapshots of a run as they come."""

    def show(self, snapshot: RunSnapshot) -> None: ...

    def close(self) -> None: ...


class Interrupts:
    """Ctrl-C as a question that is asked between two looks, never an exception in the middle of something."""

    def __init__(self) -> None:
        self._come = 0
        self._answered = 0

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._come += 1

    def take(self) -> bool:
        """Whether there was one more than was taken before."""
        if self._come == self._answered:
            return False
        self._answered += 1
        return True


def follow(folder: Path, view: View, interrupts: Interrupts, *, on_interrupt: Callable[[], bool]) -> RunSnapshot | None:
    """Show a run until it ends; its last snapshot, or none where the person left.

    `on_interrupt` is asked at every Ctrl-C whether to stay until the end.
    """
    reader = RunReader(folder)
    try:
        while True:
            while interrupts.take():
                if not on_interrupt():
                    return None
            snapshot = reader.refresh()
            if not snapshot.summary.live:
                snapshot = reader.refresh()  # what was written before the end was
                view.show(snapshot)
                return snapshot
            view.show(snapshot)
            time.sleep(_POLL_S)
    finally:
        view.close()


def describe(event: Event) -> str:
    """An event as a line for a person; empty where it is not worth one."""
    match event:
        case StageStarted():
            return f"{event.stage} …"
        case StageFinished():
            found = " (found ready)" if event.cached else ""
            return f"{event.stage} done{found}{_result(event)}"
        case AttemptStarted(resume_from_step=step) if step:
            changed = f"; changed since: {', '.join(event.environment_changed)}" if event.environment_changed else ""
            return f"resumed from step {step:,}{changed}"
        case Evaluated():
            best = ", the best so far" if event.best else ""
            return (
                f"evaluated at step {event.step:,}: loss {event.eval_loss:.4f} "
                f"(token frequencies alone: {event.baseline_loss:.4f}), accuracy {event.accuracy:.1%}{best}"
            )
        case CheckpointSaved():
            return f"checkpoint at step {event.step:,} ({format_bytes(event.size_bytes)})"
        case Profiled():
            return f"profiled {event.steps:,} steps from step {event.first_step:,}: {event.error or event.path}"
        case CheckpointRejected():
            return f"checkpoint at step {event.step:,} is not used: {event.reason}"
        case AlertRaised(alert=alert) if alert not in ENDED:  # how it ended is said at the end
            return f"{event.level}: {event.message}"
        case Noticed():
            return event.message
        case StatusChanged(status=status, reason=reason) if status in {"queued", "stalled", "stopping"}:
            return f"{status}: {reason}" if reason else status
        case _:
            return ""


def _result(event: StageFinished) -> str:
    """What a stage made, in a few words."""
    result = event.result
    if event.stage == "tokenizer" and "vocab_size" in result:
        return f": {result['vocab_size']:,} tokens"
    if event.stage == "shards" and isinstance(result.get("train"), dict):
        sequences = result["train"].get("sequences")
        return f": {sequences:,} sequences" if sequences is not None else ""
    return ""


def position(summary: RunSummary) -> str:
    """Where a run is, in one line; empty where it is nowhere yet, or is on the way to where it was."""
    if summary.status in {"starting", "compiling"}:
        return ""
    parts = []
    if summary.stage == "train":
        if summary.step is not None:
            total = f"/{summary.total_steps:,}" if summary.total_steps else ""
            parts.append(f"step {summary.step:,}{total}")
        if summary.loss is not None:
            parts.append(f"loss {summary.loss:.4f}")
        if summary.tokens_per_s is not None:
            parts.append(format_rate(summary.tokens_per_s, "tokens"))
        if summary.remaining_s:
            parts.append(f"{format_duration(summary.remaining_s)} left")
    elif summary.progress is not None:
        parts.append(f"{summary.stage} {summary.progress:.0%}")
    return ", ".join(parts)


class PlainView:
    """Lines on standard error: every event, and where the run is every few seconds."""

    def __init__(self, *, every_s: float = 5.0, from_event: int = 0) -> None:
        self._told = from_event
        self._every_s = every_s
        self._due = 0.0
        self._position = ""

    def show(self, snapshot: RunSnapshot) -> None:
        for line in snapshot.events[self._told :]:
            if text := describe(line.event):
                narrate(text)
        self._told = len(snapshot.events)
        now = time.monotonic()
        here = position(snapshot.summary)
        if here and here != self._position and (now >= self._due or not snapshot.summary.live):
            narrate(here)
            self._position, self._due = here, now + self._every_s

    def close(self) -> None:
        pass


class JsonView:
    """Every line that the run writes, as JSON on standard output; logged steps are ``step_logged`` events."""

    def __init__(self, folder: Path, *, from_start: bool = True) -> None:
        self._events = [LineFollower(folder / name) for name in ("supervisor.jsonl", "events.jsonl")]
        self._metrics = LineFollower(folder / "metrics.jsonl")
        if not from_start:
            for file in (*self._events, self._metrics):
                file.offset = max(0, file.look())

    def show(self, snapshot: RunSnapshot) -> None:
        lines = [row for file in self._events for row in file.rows()[0]]
        lines += [{"v": 1, "event": "step_logged"} | row for row in self._metrics.rows()[0]]
        for line in sorted(lines, key=lambda line: float(line.get("time", 0.0))):
            emit_line(line)

    def close(self) -> None:
        pass
