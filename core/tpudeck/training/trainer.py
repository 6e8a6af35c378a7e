"""The training stage: what happens when.

::

    starting        read and check the inputs, take the devices
    compiling       build the model, do a step that changes nothing (more of them where the run's length is a time)
                    write plan.json, or obey the one there is; load the newest checkpoint that is whole, or the weights
                    to start from, which are evaluated and kept as step 0
    training        call the loop, for about a second each time; between calls:
        metrics                 every train.log_every
        evaluating              every train.eval_every and at the end
        checkpointing           every train.checkpoint_every, at a new best, on request, at the end
        samples                 after an evaluation; nothing is lost with them, so they come last
        stop                    on request or signal, after a checkpoint
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck import pretrained
from tpudeck.errors import ArtefactError, InterruptedRunError, TrainingDivergedError, disk_is_full, in_one_line
from tpudeck.presets import FAMILIES
from tpudeck.runs.events import (
    AlertRaised,
    AttemptStarted,
    CheckpointRejected,
    CheckpointSaved,
    Compiled,
    Evaluated,
    Noticed,
    PhaseChanged,
    SamplesFilled,
)
from tpudeck.training.batches import Ahead
from tpudeck.training.checkpoints import CheckpointWriter, assign
from tpudeck.training.environment import differences, environment
from tpudeck.training.evaluate import Score
from tpudeck.training.fill import fill_sample
from tpudeck.training.initial import start_from
from tpudeck.training.learning_rate import learning_rate
from tpudeck.training.meter import Meter
from tpudeck.training.pace import Pace
from tpudeck.training.profiling import Call, Profiler
from tpudeck.training.setup import Training, open_batches, read_or_make_plan, set_up
from tpudeck.training.strategy import connect

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.plan import Schedule
    from tpudeck.presets import Experiment
    from tpudeck.runs.checkpoints import Checkpoint
    from tpudeck.training.inputs import Inputs

__all__ = ["run"]

_STARTING_PROMISE_S = 300.0
_COMPILING_PROMISE_S = {"cpu": 300.0, "gpu": 900.0, "tpu": 1800.0}
_CHECKPOINTING_PROMISE_S = 600.0
_LEAST_PROMISE_S = 30.0


def run(job: Job, inputs: Inputs) -> dict[str, Any]:
    """Train from the start or the newest checkpoint to the end; the numbers of the run."""
    machine = connect(inputs.experiment)
    batches = open_batches(inputs, machine)
    job.writer.event(PhaseChanged(phase="compiling", promise_s=_COMPILING_PROMISE_S[machine.kind]))
    for remark in _remarks(inputs.experiment):
        job.writer.event(Noticed(message=remark))
    training = set_up(inputs, machine, batches)
    schedule = read_or_make_plan(job.folder / "plan.json", inputs, machine, step_s=training.step_s)
    return Trainer(job, inputs, training, schedule).run()


def _remarks(experiment: Experiment) -> Iterator[str]:
    """What works, but not as well as it could."""
    if (name := experiment.model.architecture) not in FAMILIES:
        yield f"{name} projects every position onto the vocabulary, not only predicted ones"
    if experiment.objective == "causal" and not experiment.tokenizer.source and experiment.tokenizer.kind != "byte_bpe":
        yield f"{experiment.tokenizer.kind} loses spaces where a text is continued; tokenizer.kind = byte_bpe does not"


@dataclass
class _Best:
    """The lowest evaluation loss so far."""

    step: int | None = None
    loss: float = math.inf


class Trainer:
    """One attempt."""

    def __init__(self, job: Job, inputs: Inputs, training: Training, schedule: Schedule) -> None:
        self._job = job
        self._inputs = inputs
        self._experiment = inputs.experiment
        self._training = training
        self._schedule = schedule
        self._checkpoints = CheckpointWriter(job.folder / "checkpoints", keep=inputs.experiment.train.keep_checkpoints)
        self._environment = environment(training.machine)
        self._pace = Pace(
            step_s=training.step_s,
            total_steps=schedule.total_steps,
            due_every=(schedule.log_every_steps, schedule.eval_every_steps, schedule.checkpoint_every_steps),
            fixed=inputs.experiment.train.steps_per_call,
        )
        self._phase_now = ""
        self._compilations = {"training": 0, "evaluation": 0}
        self._noticed: set[str] = set()
        self._profiler = Profiler(job)
        self._step = 0
        self._best = _Best()
        self._scores: dict[int, Score] = {}
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()
        self._meter = Meter(
            every_steps=schedule.log_every_steps,
            tokens_per_step=schedule.global_batch * inputs.experiment.shards.sequence_length,
            steps_per_epoch=schedule.steps_per_epoch,
            late=training.machine.kind != "cpu",
            write=lambda step, values: job.writer.metrics(step, **values),
        )

    def run(self) -> dict[str, Any]:
        resumed = self._restore()
        try:
            if not resumed and self._experiment.model.weights:
                self._start_from_weights()
            self._train()
            self._take_stock(at_end=True)
        except TrainingDivergedError as error:
            self._step = error.step or self._step
            self._job.writer.event(AlertRaised(alert="nan", message=error.message, level="error", step=self._step))
            self._progress(force=True)
            raise TrainingDivergedError(error.message, hint=self._way_out(), step=error.step) from error
        return self._result()

    def _way_out(self) -> str:
        """What to do about a loss that is no number."""
        lower = f"--set train.learning_rate={self._experiment.train.learning_rate / 3:.2g}"
        fork = f"tpudeck runs fork {self._job.folder.name}"
        kept = next(iter(self._checkpoints), None)
        if kept is None:
            return f"{fork} {lower} begins anew with a lower learning rate"
        return f"{fork} --checkpoint last {lower} goes on from step {kept.step:,} with a lower learning rate"

    def _restore(self) -> bool:
        """Go on from the newest checkpoint that is whole; false where there is none."""
        writer = self._job.writer
        found = self._checkpoints.newest(
            lambda step, reason: writer.event(CheckpointRejected(step=step, reason=reason))
        )
        if found is not None:
            self._require_own_tokenizer(found)
            assign(self._training.model.weights, found.weights(), source=found.folder)
            assign(self._training.optimizer.state, found.optimizer(), source=found.folder)
            self._step = self._saved_step = found.step
            if found.best_eval_loss is not None:
                self._best = _Best(found.best_step, found.best_eval_loss)
            if found.unlogged:
                self._meter.restore(found.unlogged)
            if found.score is not None:
                self._scores[found.step] = Score(**found.score)
        changed = differences(found.environment, self._environment) if found else ()
        writer.event(AttemptStarted(resume_from_step=self._step, environment_changed=changed))
        return found is not None

    def _start_from_weights(self) -> None:
        """Take existing weights over, see how good they are, and keep them: nothing later asks for their source."""
        weights = self._inputs.weights or pretrained.find(self._experiment)
        started = start_from(weights, self._training.model)
        self._job.writer.event(Noticed(message=f"starts from {weights.name}: {started.in_words()}"))
        self._take_stock(at_end=True)

    def _require_own_tokenizer(self, checkpoint: Checkpoint) -> None:
        """The same numbers mean other words to another tokenizer."""
        ours, theirs = self._inputs.tokenizer.hash, checkpoint.tokenizer_hash
        if theirs not in {"", ours}:
            raise ArtefactError(
                f"{checkpoint.folder} was trained with the tokenizer {theirs[:12]}, and this run has {ours[:12]}",
                hint="put that tokenizer back, or start a new run",
            )

    # ---- training

    def _train(self) -> None:
        if self._step:
            self._between_calls()
        ahead = Ahead(self._training.batches)
        self._begin_training()
        try:
            count = self._steps_from(self._step)
            while self._step < self._schedule.total_steps:
                self._call(ahead, count, after := self._steps_from(self._step + count))
                self._between_calls()
                count = min(after, self._profiler.steps_left(self._step))
            self._meter.finish(self._step)
        finally:
            ahead.close()
            self._profiler.end()

    def _steps_from(self, step: int) -> int:
        return min(self._pace.steps_from(step), self._profiler.steps_left(step))

    def _call(self, ahead: Ahead, count: int, after: int) -> None:
        first, start, start_ns = self._step, time.perf_counter(), time.time_ns()
        batches = ahead.take(first, count)
        wait_s = time.perf_counter() - start
        ahead.prepare(first + count, after)
        rates = self._learning_rates(first, count)
        outcome = self._training.loop(batches, first, rates)
        self._step = first + count
        waited_for = self._meter.add(first, outcome, learning_rate=float(rates[-1]), input_wait_s=wait_s)
        if waited_for:
            self._pace.took(waited_for, time.perf_counter() - start)
        self._progress()
        self._profiler.add(Call(start_ns, time.time_ns(), steps=count, input_wait_ns=round(wait_s * 1e9)))

    def _learning_rates(self, first: int, count: int) -> npt.NDArray[np.float32]:
        train, schedule = self._experiment.train, self._schedule
        rates = [
            learning_rate(
                step,
                peak=train.learning_rate,
                warmup_steps=schedule.warmup_steps,
                total_steps=schedule.total_steps,
                schedule=train.schedule,
            )
            for step in range(first, first + count)
        ]
        return np.array(rates, np.float32)

    # ---- between calls

    def _between_calls(self) -> None:
        if self._profiler.complete:
            self._meter.flush()
            self._profiler.end()
        self._take_stock()
        self._begin_training()
        if self._step < self._schedule.total_steps:
            self._stop_if_asked()
            self._profiler.begin_if_asked(self._step, last_step=self._schedule.total_steps)

    def _take_stock(self, *, at_end: bool = False) -> None:
        """Evaluate, keep and show what is due; what could go wrong without harm comes after what must not be lost."""
        every = self._schedule.eval_every_steps
        evaluated = (at_end or bool(every and self._step % every == 0)) and self._evaluate()
        self._count_compilations()
        if at_end or self._checkpoint_is_due():
            self._save()
        if evaluated:
            self._fill_samples()

    def _between_evaluation_batches(self) -> None:
        self._progress()
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._job.stopping:
            self._save()
            raise InterruptedRunError(
                f"training was asked to stop after step {self._step} of {self._schedule.total_steps}",
                hint="its checkpoint is kept: resume goes on from there",
            )

    def _checkpoint_is_due(self) -> bool:
        steps, seconds = self._schedule.checkpoint_every_steps, self._schedule.checkpoint_every_s
        by_steps = steps and self._step % steps == 0
        by_clock = seconds and time.monotonic() - self._saved_time >= seconds
        return bool(by_steps or by_clock or self._best.step == self._step or self._request.exists())

    @property
    def _request(self) -> Path:
        return self._job.folder / "requests" / "checkpoint.json"

    def _evaluate(self) -> bool:
        """Score the model on the whole validation set; false where this step has been scored already."""
        if self._step in self._scores:
            return False
        self._meter.pause()
        compiled = self._training.evaluator.compilations
        self._phase("evaluating", _LEAST_PROMISE_S if compiled else _COMPILING_PROMISE_S[self._training.machine.kind])
        score = self._training.evaluator(self._training.batches.evaluation(), between=self._between_evaluation_batches)
        best = score.loss < self._best.loss
        if best:
            self._best = _Best(self._step, score.loss)
        self._scores[self._step] = score
        self._job.writer.event(
            Evaluated(
                step=self._step,
                eval_loss=score.loss,
                perplexity=score.perplexity,
                accuracy=score.accuracy,
                baseline_loss=score.baseline_loss,
                targets=score.targets,
                best=best,
            )
        )
        self._progress()
        return True

    def _fill_samples(self) -> None:
        """Show what the model has learned. A text that cannot be filled is told once, and is no reason to stop."""
        samples = []
        for text in self._experiment.samples.texts:
            try:
                samples.append(fill_sample(self._training.model, self._inputs.tokenizer, text))
            except Exception as error:  # noqa: BLE001 (whatever it is, the run is worth more than a sample)
                self._notice(f"the sample {text!r} is left out: {in_one_line(error)}")
        if samples:
            self._job.writer.event(SamplesFilled(step=self._step, samples=tuple(samples)))

    def _notice(self, message: str) -> None:
        """Say something once."""
        if message not in self._noticed:
            self._noticed.add(message)
            self._job.writer.event(Noticed(message=message, level="warning"))

    def _save(self) -> None:
        """Keep the state of this step, unless it has been kept already. A full disk is no reason to stop before the
        end: the next checkpoint tries again."""
        if self._saved_step != self._step:
            self._meter.pause()
            self._phase("checkpointing", _CHECKPOINTING_PROMISE_S)
            try:
                self._write_checkpoint()
            except OSError as error:
                if not disk_is_full(error) or self._step == self._schedule.total_steps:
                    raise
                message = f"the disk is full: no checkpoint at step {self._step}"
                self._job.writer.event(AlertRaised(alert="disk", message=message, level="error", step=self._step))
        self._saved_time = time.monotonic()
        self._request.unlink(missing_ok=True)

    def _write_checkpoint(self) -> None:
        score = self._scores.get(self._step)
        saved = self._checkpoints.save(
            self._training.model.weights,
            self._training.optimizer.state,
            step=self._step,
            tokenizer_hash=self._inputs.tokenizer.hash,
            score=asdict(score) if score else None,
            best_step=self._best.step,
            best_eval_loss=self._best.loss if self._best.step is not None else None,
            unlogged=self._meter.state(),
            environment=self._environment,
        )
        self._saved_step = self._step
        self._job.writer.event(
            CheckpointSaved(
                step=self._step,
                path=str(saved.folder.relative_to(self._job.folder)),
                size_bytes=saved.size_bytes,
                best=self._best.step == self._step,
            )
        )
        self._job.writer.sync()

    # ---- what the outside sees

    def _phase(self, phase: str, promise_s: float) -> None:
        if phase != self._phase_now:
            self._phase_now = phase
            self._job.writer.event(PhaseChanged(phase=phase, promise_s=promise_s))

    def _count_compilations(self) -> None:
        """Tell of programs that were built since the last look; of one that had been built before, as trouble."""
        training = self._training
        for program, count in (
            ("training", training.loop.compilations),
            ("evaluation", training.evaluator.compilations),
        ):
            if count == self._compilations[program]:
                continue
            self._compilations[program] = count
            self._job.writer.event(Compiled(program=program, count=count, step=self._step))
            if count > 1:
                message = f"the {program} program was compiled again, {count} times in all: a shape is not static"
                self._job.writer.event(AlertRaised(alert="recompile", message=message, step=self._step))

    def _begin_training(self) -> None:
        """Training begins or goes on, and with it the clock of the metrics."""
        self._phase("training", max(_LEAST_PROMISE_S, 30 * self._training.step_s))
        self._meter.resume()

    def _progress(self, *, force: bool = False) -> None:
        latest, score = self._meter.latest, self._latest_score
        self._job.progress(
            self._step,
            self._schedule.total_steps,
            "steps",
            force=force or self._step == self._schedule.total_steps,
            step=self._step,
            loss=latest.get("loss"),
            eval_loss=score.loss if score else None,
            tokens_per_s=latest.get("tokens_per_s"),
        )

    @property
    def _latest_score(self) -> Score | None:
        return self._scores[max(self._scores)] if self._scores else None

    def _result(self) -> dict[str, Any]:
        score = self._latest_score
        assert score is not None, "evaluated at the end"
        return {
            "steps": self._step,
            "tokens": self._step * self._schedule.global_batch * self._experiment.shards.sequence_length,
            "loss": self._meter.latest.get("loss"),
            "eval_loss": score.loss,
            "perplexity": score.perplexity,
            "accuracy": score.accuracy,
            "baseline_loss": score.baseline_loss,
            "best_eval_loss": self._best.loss,
            "best_step": self._best.step,
            "device": self._training.machine.name,
        }
