"""The tasks of this package. What can be checked without TensorFlow is checked before its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpudeck.runs.events import PhaseChanged
from tpudeck.training.inputs import read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpudeck.jobs import Job

__all__ = ["TASKS"]

_STARTING_PROMISE_S = 300.0


def train(job: Job) -> dict[str, Any]:
    """Train the run in this folder."""
    job.writer.event(PhaseChanged(phase="starting", promise_s=_STARTING_PROMISE_S))
    inputs = read_inputs(job.folder, job.experiment())
    from tpudeck.training import trainer

    return trainer.run(job, inputs)


TASKS: dict[str, Callable[[Job], Mapping[str, Any]]] = {"train": train}
