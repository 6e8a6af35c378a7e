"""From the outcomes of calls to lines of metrics.

Reading a result makes the program wait for the device. Where the device works on its own (GPU, TPU) a call's results
are therefore read when the next call is under way; on a CPU a call is over when it returns, and they are read at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tpudeck.errors import TrainingDivergedError
from tpudeck.training.step import Outcome

__all__ = ["Meter"]


@dataclass
class _Call:
    first_step: int
    outcome: Outcome
    learning_rate: float
    input_wait_s: float
    device_s: float


@dataclass
class _Interval:
    """What has gathered since the last line."""

    losses: list[float] = field(default_factory=list)
    learning_rate: float = 0.0
    grad_norm: float = 0.0
    input_wait_s: float = 0.0
    device_s: float = 0.0
    elapsed_s: float = 0.0


class Meter:
    """Gathers losses and times, and hands out a line of metrics every so many steps.

    Only the time of training counts: :meth:`resume` starts the clock, :meth:`pause` stops it for an evaluation or a
    checkpoint.
    """

    def __init__(
        self,
        *,
        every_steps: int,
        tokens_per_step: int,
        steps_per_epoch: float,
        late: bool,
        write: Callable[[int, dict[str, float]], None],
    ) -> None:
        self._every_steps = every_steps
        self._tokens_per_step = tokens_per_step
        self._steps_per_epoch = steps_per_epoch
        self._late = late
        self._write = write
        self._waiting: _Call | None = None
        self._interval = _Interval()
        self._since: float | None = None
        """When the clock was started; none while it stands still."""
        self.latest: dict[str, float] = {}
        """The newest line."""

    def add(
        self, first_step: int, outcome: Outcome, *, learning_rate: float, input_wait_s: float, call_s: float
    ) -> int:
        """Take a call's outcome (its steps counted from 0), and wait for a call: of how many steps it was, 0 for none.

        That is this call, or where results are read late the one before. Raises :class:`TrainingDivergedError` for a
        loss that is no number.

        ``call_s`` is how long the call took to return: the device's work, unless that goes on by itself.
        """
        device_s = 0.0 if self._late else call_s
        call, before = _Call(first_step, outcome, learning_rate, input_wait_s, device_s), self._waiting
        self._waiting = call if self._late else None
        ready = before if self._late else call
        return self._read(ready) if ready is not None else 0

    def flush(self) -> None:
        """Read what is still waiting."""
        call, self._waiting = self._waiting, None
        if call is not None:
            self._read(call)

    def pause(self) -> None:
        self.flush()
        if self._since is not None:
            self._interval.elapsed_s += time.perf_counter() - self._since
            self._since = None

    def resume(self) -> None:
        """Let the clock run, at first and after a pause."""
        if self._since is None:
            self._since = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """What has gathered since the last line, for a checkpoint: the next line is about these steps too."""
        self.pause()
        return asdict(self._interval)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` said."""
        self._interval = _Interval(**state)

    def finish(self, step: int) -> None:
        """Write the line of the last, shorter interval."""
        self.pause()
        if self._interval.losses:
            self._emit(step)

    def _read(self, call: _Call) -> int:
        """Take in a call's results; how many steps they are about."""
        start = time.perf_counter()
        losses = np.asarray(call.outcome.loss, np.float64)
        norms = np.asarray(call.outcome.gradient_norm, np.float64)
        self._interval.device_s += call.device_s + time.perf_counter() - start
        finite = np.isfinite(losses) & np.isfinite(norms)
        if not finite.all():
            at = int(np.argmin(finite))
            what, value = ("loss", losses[at]) if not np.isfinite(losses[at]) else ("gradient norm", norms[at])
            step = call.first_step + at + 1
            raise TrainingDivergedError(f"the {what} is {value} at step {step}", step=step)
        self._interval.losses += losses.tolist()
        self._interval.learning_rate = call.learning_rate
        self._interval.grad_norm = float(norms[-1])
        self._interval.input_wait_s += call.input_wait_s
        end = call.first_step + len(losses)
        if self._every_steps and end % self._every_steps == 0:
            self._emit(end)
        return len(losses)

    def _emit(self, step: int) -> None:
        if self._since is not None:
            now = time.perf_counter()
            self._interval.elapsed_s += now - self._since
            self._since = now
        interval, self._interval = self._interval, _Interval()
        steps = len(interval.losses)
        step_s = interval.elapsed_s / steps
        self.latest = {
            "loss": math.fsum(interval.losses) / steps,
            "learning_rate": interval.learning_rate,
            "grad_norm": interval.grad_norm,
            "tokens_per_s": self._tokens_per_step / step_s,
            "step_s": step_s,
            "input_wait_s": interval.input_wait_s / steps,
            "device_s": interval.device_s / steps,
            "host_s": max(0.0, interval.elapsed_s - interval.input_wait_s - interval.device_s) / steps,
            "tokens": step * self._tokens_per_step,
            "epoch": step / self._steps_per_epoch,
        }
        self._write(step, self.latest)
