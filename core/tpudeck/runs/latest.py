"""The newest numbers of a run, gathered from what its stages write: pure, without numpy.

The supervisor gathers them as it goes and writes them into ``status.json``, so that a list of ten thousand runs opens
no event file; a reader of one run gathers the same from the files themselves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpudeck.runs.numbers import decode_number, plain

if TYPE_CHECKING:
    from tpudeck.runs.events import Event

__all__ = ["Latest"]


@dataclass(eq=False)
class Latest:
    """What a run said last."""

    stage: str = ""
    """``tokenizer``, ``shards`` or ``train``."""
    phase: str = ""
    """See :class:`~tpudeck.runs.events.PhaseChanged`."""
    promise_s: float | None = None
    """The stage promised a sign of life within so many seconds."""
    done: float | None = None
    total: float | None = None
    unit: str = ""
    """How far the stage is, in its own unit."""
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    eval_loss: float | None = None
    best_eval_loss: float | None = None
    baseline_loss: float | None = None
    tokens_per_s: float | None = None
    step_s: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Latest:
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: decode_number(value) for name, value in data.items() if name in names})

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in plain(vars(self)).items() if value not in {None, ""}}

    def see_event(self, event: Event) -> None:
        """Take in an event of the stage or the supervisor."""
        # A list of runs sees none: making the classes costs it 6 ms.
        from tpudeck.runs.events import AttemptStarted, Evaluated, PhaseChanged, RunLaunched, StageStarted

        match event:
            case RunLaunched():
                self.stage = self.phase = ""
            case AttemptStarted(resume_from_step=step):
                self._begin_again(step)
            case StageStarted(stage=stage):
                self.stage, self.phase, self.promise_s = stage, stage, None
                self.done = self.total = None
                self.unit = ""
            case PhaseChanged(phase=phase, promise_s=promise_s):
                self.phase, self.promise_s = phase, promise_s
            case Evaluated():
                self.eval_loss, self.baseline_loss = event.eval_loss, event.baseline_loss
                if math.isfinite(event.eval_loss):
                    best = self.best_eval_loss
                    self.best_eval_loss = event.eval_loss if best is None else min(best, event.eval_loss)
            case _:
                pass

    def _begin_again(self, step: int) -> None:
        """An attempt goes on from a step: what was said of later ones is superseded, and its speed is still unknown."""
        if self.step is not None and self.step > step:
            self.loss = None
        self.step = step if step or self.step is not None else None
        self.tokens_per_s = self.step_s = None

    def see_metrics(self, row: Mapping[str, Any]) -> None:
        """Take in a line of ``metrics.jsonl``."""
        self.step = row.get("step", self.step)
        self.loss = decode_number(row.get("loss", self.loss))
        self.tokens_per_s = decode_number(row.get("tokens_per_s", self.tokens_per_s))
        self.step_s = decode_number(row.get("step_s", self.step_s))

    def see_progress(self, progress: Mapping[str, Any]) -> None:
        """Take in ``progress.json``; evaluations are events.

        Between two lines of metrics it is newer than the last; of a process that died it can be older.
        """
        self.done, self.total = progress.get("done"), progress.get("total")
        self.unit = str(progress.get("unit", ""))
        if progress.get("task") != "train":
            return
        self.total_steps = int(self.total) if self.total else self.total_steps
        if (progress.get("step") or 0) < (self.step or 0):
            self.done = self.step
            return
        for name in ("step", "loss", "tokens_per_s"):
            if progress.get(name) is not None:
                setattr(self, name, decode_number(progress[name]))

    @property
    def status(self) -> str:
        """The status of a run whose stage speaks: training says nothing before TensorFlow is imported."""
        phase = "starting" if self.phase in {"", "train"} else self.phase
        return phase if phase in {"starting", "compiling"} else "running"

    @property
    def progress(self) -> float | None:
        """Share of the stage that is done, 0 to 1."""
        if not self.total or self.done is None:
            return None
        return min(1.0, max(0.0, self.done / self.total))

    @property
    def remaining_s(self) -> float | None:
        """Time left in training at the last speed."""
        if self.stage != "train" or None in {self.step, self.total_steps, self.step_s}:
            return None
        assert self.step is not None and self.total_steps is not None and self.step_s is not None
        return max(0, self.total_steps - self.step) * self.step_s
