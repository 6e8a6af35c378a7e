"""What of a training is kept in checkpoints, when, and how an attempt goes on from there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.errors import ArtefactError, disk_is_full
from tpudeck.runs.events import AlertRaised, AttemptStarted, CheckpointRejected, CheckpointSaved
from tpudeck.training.checkpoints import CheckpointWriter, assign
from tpudeck.training.environment import differences, environment
from tpudeck.training.evaluate import Score

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.plan import Schedule
    from tpudeck.runs.checkpoints import Checkpoint
    from tpudeck.training.inputs import Inputs
    from tpudeck.training.meter import Meter
    from tpudeck.training.setup import Training

__all__ = ["Keeper", "Standing"]


@dataclass
class Standing:
    """Where a training is, and how good the model was when it was last evaluated."""

    step: int = 0
    """Steps done."""
    score: Score | None = None
    """Of the latest evaluation."""
    scored_step: int | None = None
    best_step: int | None = None
    """The step with the lowest evaluation loss so far."""
    best_loss: float = math.inf

    def scored(self, score: Score) -> bool:
        """Take in an evaluation of this step; whether it is the best so far."""
        self.score, self.scored_step = score, self.step
        if score.loss < self.best_loss:
            self.best_step, self.best_loss = self.step, score.loss
        return self.best_step == self.step


class Keeper:
    """Saves a training and brings it back."""

    def __init__(
        self, job: Job, inputs: Inputs, training: Training, schedule: Schedule, meter: Meter, standing: Standing
    ) -> None:
        self._job = job
        self._experiment = inputs.experiment
        self._tokenizer_hash = inputs.tokenizer.hash
        self._training = training
        self._schedule = schedule
        self._meter = meter
        self._standing = standing
        self._checkpoints = CheckpointWriter(job.folder / "checkpoints", keep=inputs.experiment.train.keep_checkpoints)
        self._environment = environment(training.machine)
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()

    def restore(self) -> bool:
        """Go on from the newest checkpoint that is whole; false where there is none."""
        writer = self._job.writer
        found = self._checkpoints.newest(
            lambda step, reason: writer.event(CheckpointRejected(step=step, reason=reason))
        )
        if found is not None:
            self._take(found)
        changed = differences(found.environment, self._environment) if found else ()
        writer.event(AttemptStarted(resume_from_step=self._standing.step, environment_changed=changed))
        return found is not None

    def _take(self, checkpoint: Checkpoint) -> None:
        standing = self._standing
        self._require_own_tokenizer(checkpoint)
        assign(self._training.model.weights, checkpoint.weights(), source=checkpoint.folder)
        assign(self._training.optimizer.state, checkpoint.optimizer(), source=checkpoint.folder)
        standing.step = self._saved_step = checkpoint.step
        if checkpoint.best_eval_loss is not None:
            standing.best_step, standing.best_loss = checkpoint.best_step, checkpoint.best_eval_loss
        if checkpoint.score is not None:
            standing.score, standing.scored_step = Score(**checkpoint.score), checkpoint.step
        if checkpoint.unlogged:
            self._meter.restore(checkpoint.unlogged)

    def _require_own_tokenizer(self, checkpoint: Checkpoint) -> None:
        """The same numbers mean other words to another tokenizer."""
        ours, theirs = self._tokenizer_hash, checkpoint.tokenizer_hash
        if theirs not in {"", ours}:
            raise ArtefactError(
                f"{checkpoint.folder} was trained with the tokenizer {theirs[:12]}, and this run has {ours[:12]}",
                hint="put that tokenizer back, or start a new run",
            )

    @property
    def saved(self) -> bool:
        """Whether what there is now is kept."""
        return self._saved_step == self._standing.step

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint, by steps, by the clock, for a new best, or because somebody asks."""
        step = self._standing.step
        steps, seconds = self._schedule.checkpoint_every_steps, self._schedule.checkpoint_every_s
        by_steps = steps and step % steps == 0
        by_clock = seconds and time.monotonic() - self._saved_time >= seconds
        return bool(by_steps or by_clock or self._standing.best_step == step or self._request.exists())

    @property
    def _request(self) -> Path:
        return self._job.folder / "requests" / "checkpoint.json"

    def save(self) -> None:
        """Keep what there is now. A full disk is no reason to stop before the end: the next checkpoint tries again."""
        step = self._standing.step
        try:
            self._write()
        except OSError as error:
            if not disk_is_full(error) or step == self._schedule.total_steps:
                raise
            message = f"the disk is full: no checkpoint at step {step}"
            self._job.writer.event(AlertRaised(alert="disk", message=message, level="error", step=step))

    def settle(self) -> None:
        """Nothing is due any more, and nothing is asked."""
        self._saved_time = time.monotonic()
        self._request.unlink(missing_ok=True)

    def _write(self) -> None:
        standing = self._standing
        written = self._checkpoints.save(
            self._training.model.weights, self._training.optimizer.state, **self._manifest()
        )
        self._saved_step = standing.step
        self._job.writer.event(
            CheckpointSaved(
                step=standing.step,
                path=str(written.folder.relative_to(self._job.folder)),
                size_bytes=written.size_bytes,
                best=standing.best_step == standing.step,
            )
        )
        self._job.writer.sync()

    def _manifest(self) -> Mapping[str, Any]:
        standing = self._standing
        scored = standing.score if standing.scored_step == standing.step else None
        return {
            "step": standing.step,
            "tokenizer_hash": self._tokenizer_hash,
            "score": asdict(scored) if scored else None,
            "best_step": standing.best_step,
            "best_eval_loss": None if standing.best_step is None else standing.best_loss,
            "unlogged": self._meter.state(),
            "environment": self._environment,
        }

    def way_out(self) -> str:
        """What to do about a loss that is no number."""
        lower = f"--set train.learning_rate={self._experiment.train.learning_rate / 3:.2g}"
        fork = f"tpudeck runs fork {self._job.folder.name}"
        kept = next(iter(self._checkpoints), None)
        if kept is None:
            return f"{fork} {lower} begins anew with a lower learning rate"
        return f"{fork} --checkpoint last {lower} goes on from step {kept.step:,} with a lower learning rate"
