"""Profiling some steps of a run that goes on: asked for by ``requests/profile.json``, written to ``profile/step-…/``.

What TensorFlow's profiler saw lies there as TensorBoard and XProf read it, beside ``calls.json``: when each call of the
loop began and ended, how many steps it did, and how long it waited for its batches. Steps are computed as ever, so the
run is the same to the last bit; :mod:`tpudeck.training.trace` makes the table, in a process of its own.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tpudeck.errors import in_one_line
from tpudeck.runs.events import Profiled
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    from tpudeck.jobs import Job

__all__ = ["CALLS", "Call", "Profiler"]

CALLS = "calls.json"


@dataclass(frozen=True)
class Call:
    """A call of the loop, in nanoseconds since the epoch, as the trace counts them."""

    start_ns: int
    end_ns: int
    steps: int
    input_wait_ns: int
    """From the start on."""


@dataclass
class _Recording:
    folder: Path
    first_step: int
    steps: int
    calls: list[Call] = field(default_factory=list)


class Profiler:
    """Begins when it is asked to, ends some steps later. Trouble with it is told, and is no trouble of the run."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._request = job.folder / "requests" / "profile.json"
        self._recording: _Recording | None = None

    def begin_if_asked(self, step: int, *, last_step: int) -> None:
        """Record what comes after a step."""
        if self._recording is not None or not self._request.exists():
            return
        recording = _Recording(self._job.folder / "profile" / f"step-{step:08d}", step, 0)
        try:
            recording.steps = min(int(read_json(self._request)["steps"]), last_step - step)
            shutil.rmtree(recording.folder, ignore_errors=True)
            tf.profiler.experimental.start(str(recording.folder))
            self._recording = recording
        except Exception as error:  # noqa: BLE001 (whatever it is, the run is worth more)
            self._say(recording, error)
        self._request.unlink(missing_ok=True)

    def steps_left(self, step: int) -> int:
        """How many steps a call after a step may do."""
        recording = self._recording
        return max(1, recording.first_step + recording.steps - step) if recording else sys.maxsize

    def add(self, call: Call) -> None:
        """Take in a call that has been done."""
        if self._recording is not None:
            self._recording.calls.append(call)

    @property
    def complete(self) -> bool:
        """Whether all steps that were asked for have been recorded."""
        recording = self._recording
        return recording is not None and sum(call.steps for call in recording.calls) >= recording.steps

    def end(self) -> None:
        """Write down what was recorded; the device must be done with it."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        try:
            tf.profiler.experimental.stop()
            calls = [asdict(call) for call in recording.calls]
            write_json(recording.folder / CALLS, {"first_step": recording.first_step + 1, "calls": calls})
            self._say(recording)
        except Exception as error:  # noqa: BLE001
            self._say(recording, error)

    def _say(self, recording: _Recording, error: Exception | None = None) -> None:
        said: dict[str, Any] = {"error": in_one_line(error)} if error else {}
        self._job.writer.event(
            Profiled(
                first_step=recording.first_step + 1,
                steps=sum(call.steps for call in recording.calls),
                path=str(recording.folder.relative_to(self._job.folder)),
                **said,
            )
        )
