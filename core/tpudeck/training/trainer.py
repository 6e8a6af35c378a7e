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

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck import pretrained
from tpudeck.errors import InterruptedRunError, RetryLaterError, TrainingDivergedError, in_one_line
from tpudeck.presets import FAMILIES
from tpudeck.runs.events import (
    AlertRaised,
    Compiled,
    Evaluated,
    Noticed,
    PhaseChanged,
    SamplesFilled,
)
from tpudeck.training.batches import Ahead
from tpudeck.training.fill import fill_sample
from tpudeck.training.initial import start_from
from tpudeck.training.keeper import Keeper, Standing
from tpudeck.training.learning_rate import learning_rate
from tpudeck.training.meter import Meter
from tpudeck.training.pace import Pace
from tpudeck.training.profiling import Call, Profiler
from tpudeck.training.setup import Training, open_batches, read_or_make_plan, set_up
from tpudeck.training.strategy import connect
from tpudeck.units import format_duration

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.plan import Schedule
    from tpudeck.presets import Experiment
    from tpudeck.training.inputs import Inputs

__all__ = ["run"]

_STARTING_PROMISE_S = 300.0
_CONNECTING_S = 300.0
"""A TPU that is there answers within a minute."""
_COMPILING_PROMISE_S = {"cpu": 300.0, "gpu": 900.0, "tpu": 1800.0}
_CHECKPOINTING_PROMISE_S = 600.0
_LEAST_PROMISE_S = 30.0


def _no_answer(experiment: Experiment) -> RetryLaterError:
    device = experiment.device
    return RetryLaterError(
        f"the device {device.name or device.kind} did not answer within {format_duration(_CONNECTING_S)}",
        hint="`tpudeck doctor` looks at what may hold it; `tpudeck runs resume` tries again",
    )


def run(job: Job, inputs: Inputs) -> dict[str, Any]:
    """Train from the start or the newest checkpoint to the end; the numbers of the run."""
    with job.nothing_to_save(deadline_s=_CONNECTING_S, late=_no_answer(inputs.experiment)):
        machine = connect(inputs.experiment)
    batches = open_batches(inputs, machine)
    job.writer.event(PhaseChanged(phase="compiling", promise_s=_COMPILING_PROMISE_S[machine.kind]))
    for remark in _remarks(inputs.experiment):
        job.writer.event(Noticed(message=remark))
    with job.nothing_to_save():
        training = set_up(inputs, machine, batches)
    schedule = read_or_make_plan(job.folder / "plan.json", inputs, machine, step_s=training.step_s)
    return Trainer(job, inputs, training, schedule).run()


def _remarks(experiment: Experiment) -> Iterator[str]:
    """What works, but not as well as it could."""
    if (name := experiment.model.architecture) not in FAMILIES:
        yield f"{name} projects every position onto the vocabulary, not only predicted ones"
    if experiment.objective == "causal" and not experiment.tokenizer.source and experiment.tokenizer.kind != "byte_bpe":
        yield f"{experiment.tokenizer.kind} loses spaces where a text is continued; tokenizer.kind = byte_bpe does not"


class Trainer:
    """One attempt."""

    def __init__(self, job: Job, inputs: Inputs, training: Training, schedule: Schedule) -> None:
        self._job = job
        self._inputs = inputs
        self._experiment = inputs.experiment
        self._training = training
        self._schedule = schedule
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
        self._standing = Standing()
        self._meter = Meter(
            every_steps=schedule.log_every_steps,
            tokens_per_step=schedule.global_batch * inputs.experiment.shards.sequence_length,
            steps_per_epoch=schedule.steps_per_epoch,
            late=training.machine.kind != "cpu",
            write=lambda step, values: job.writer.metrics(step, **values),
        )
        self._keeper = Keeper(job, inputs, training, schedule, self._meter, self._standing)

    def run(self) -> dict[str, Any]:
        resumed = self._keeper.restore()
        try:
            if not resumed and self._experiment.model.weights:
                self._start_from_weights()
            self._train()
            self._take_stock(at_end=True)
        except TrainingDivergedError as error:
            self._standing.step = error.step or self._step
            self._job.writer.event(AlertRaised(alert="nan", message=error.message, level="error", step=self._step))
            self._progress(force=True)
            raise TrainingDivergedError(error.message, hint=self._keeper.way_out(), step=error.step) from error
        return self._result()

    def _start_from_weights(self) -> None:
        """Take existing weights over, see how good they are, and keep them: nothing later asks for their source."""
        weights = self._inputs.weights or pretrained.find(self._experiment)
        started = start_from(weights, self._training.model)
        self._job.writer.event(Noticed(message=f"starts from {weights.name}: {started.in_words()}"))
        self._take_stock(at_end=True)

    @property
    def _step(self) -> int:
        return self._standing.step

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
        called = time.perf_counter()
        outcome = self._training.loop(batches, first, rates)
        call_s = time.perf_counter() - called
        self._standing.step = first + count
        waited_for = self._meter.add(first, outcome, learning_rate=float(rates[-1]), input_wait_s=wait_s, call_s=call_s)
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
        if at_end or self._keeper.due:
            self._save()
        if evaluated:
            self._fill_samples()

    def _between_evaluation_batches(self) -> None:
        self._progress()
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._job.stopping:
            self._save()
            kept = "its checkpoint is kept" if self._keeper.saved else "the checkpoint before is kept"
            raise InterruptedRunError(
                f"training was asked to stop after step {self._step} of {self._schedule.total_steps}",
                hint=f"{kept}: resume goes on from there",
            )

    def _evaluate(self) -> bool:
        """Score the model on the whole validation set; false where this step has been scored already."""
        if self._standing.scored_step == self._step:
            return False
        self._meter.pause()
        compiled = self._training.evaluator.compilations
        self._phase("evaluating", _LEAST_PROMISE_S if compiled else _COMPILING_PROMISE_S[self._training.machine.kind])
        score = self._training.evaluator(self._training.batches.evaluation(), between=self._between_evaluation_batches)
        best = self._standing.scored(score)
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
        """Keep the state of this step, unless it has been kept already."""
        if not self._keeper.saved:
            self._meter.pause()
            self._phase("checkpointing", _CHECKPOINTING_PROMISE_S)
            self._keeper.save()
        self._keeper.settle()

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
        latest, score = self._meter.latest, self._standing.score
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

    def _result(self) -> dict[str, Any]:
        score = self._standing.score
        assert score is not None, "evaluated at the end"
        return {
            "steps": self._step,
            "tokens": self._step * self._schedule.global_batch * self._experiment.shards.sequence_length,
            "loss": self._meter.latest.get("loss"),
            "eval_loss": score.loss,
            "perplexity": score.perplexity,
            "accuracy": score.accuracy,
            "baseline_loss": score.baseline_loss,
            "best_eval_loss": self._standing.best_loss,
            "best_step": self._standing.best_step,
            "device": self._training.machine.name,
        }
