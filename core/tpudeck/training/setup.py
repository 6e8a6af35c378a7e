"""Everything a run needs before its first step: devices, batches, model, compiled loop, and a plan."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.errors import ArtefactError
from tpudeck.plan import Schedule, check_sequences, global_batch_size, needs_step_time, schedule
from tpudeck.storage import read_json, write_json
from tpudeck.training.batches import Batches
from tpudeck.training.configuration import vocabulary_of
from tpudeck.training.evaluate import Evaluator, Surprise, surprise
from tpudeck.training.loop import StepLoop
from tpudeck.training.model import build_model
from tpudeck.training.optimizer import AdamW
from tpudeck.training.step import TrainStep, batch_specs

if TYPE_CHECKING:
    from tpudeck.training.inputs import Inputs
    from tpudeck.training.model import LanguageModel
    from tpudeck.training.strategy import Machine

__all__ = ["Training", "open_batches", "read_or_make_plan", "set_up"]

_MEASURED_S = 3.0
"""For how long the speed is measured where a run's length is given in time."""


@dataclass(frozen=True)
class Training:
    """A model ready to be trained."""

    machine: Machine
    batches: Batches
    model: LanguageModel
    optimizer: AdamW
    loop: StepLoop
    evaluator: Evaluator
    step_s: float
    """How long a step took when nothing was learned yet."""


def open_batches(inputs: Inputs, machine: Machine) -> Batches:
    """The batches of the run; a :class:`~tpudeck.errors.CorpusError` where there are too few sequences."""
    training, validation = inputs.shards.split("train"), inputs.shards.split("validation")
    batch = global_batch_size(inputs.experiment, replicas=machine.replicas)
    check_sequences(training=len(training), validation=len(validation), global_batch=batch)
    return Batches(
        inputs.experiment, inputs.tokenizer, training, validation, global_batch=batch, replicas=machine.replicas
    )


def set_up(inputs: Inputs, machine: Machine, batches: Batches) -> Training:
    """Build and compile. Compiling means doing a step at learning rate 0, which changes no weight; the moments that it
    leaves are forgotten."""
    experiment = inputs.experiment
    with machine.strategy.scope():
        model = build_model(experiment, vocabulary_of(inputs.tokenizer))
        optimizer = AdamW(model.weights, experiment.train)
    step = TrainStep(experiment, model, optimizer, replicas=machine.replicas)
    loop = StepLoop(machine, step, batch_specs(experiment, replicas=machine.replicas))
    idle_step = _idle_step(loop, batches)
    idle_step()
    step_s = _median_s(idle_step, at_least_s=_MEASURED_S if needs_step_time(experiment) else 0.0)
    optimizer.reset()
    return Training(machine, batches, model, optimizer, loop, Evaluator(machine, model, _surprise(inputs)), step_s)


def _surprise(inputs: Inputs) -> Surprise:
    """Masks spare the special tokens; a causal model has to predict those that end a document."""
    never = inputs.tokenizer.special_ids if inputs.experiment.objective == "masked" else ()
    return surprise(inputs.shards.token_counts, never_predicted=never)


def _idle_step(loop: StepLoop, batches: Batches) -> Callable[[], None]:
    """The first step at learning rate 0."""
    batch, rate = batches.training(0, 1), np.zeros(1, np.float32)

    def step() -> None:
        np.asarray(loop(batch, 0, rate).loss)

    return step


def _median_s(action: Callable[[], None], *, at_least_s: float) -> float:
    times: list[float] = []
    while not times or sum(times) < at_least_s:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def read_or_make_plan(path: Path, inputs: Inputs, machine: Machine, *, step_s: float) -> Schedule:
    """The lengths of the run: written once, and obeyed by every later attempt.

    Raises :class:`ArtefactError` where what was planned with is no longer what there is.
    """
    sequences = len(inputs.shards.split("train"))
    now: dict[str, Any] = {
        "global_batch": global_batch_size(inputs.experiment, replicas=machine.replicas),
        "sequences": sequences,
        "vocab_size": inputs.tokenizer.vocab_size,
        "tokenizer_hash": inputs.tokenizer.hash,
    }
    if inputs.weights is not None:
        now["weights"] = inputs.weights.record()
    if not path.exists():
        measured = step_s if needs_step_time(inputs.experiment) else None
        made = schedule(inputs.experiment, sequences=sequences, replicas=machine.replicas, step_s=measured)
        write_json(path, dataclasses.asdict(made) | now)
    plan: dict[str, Any] = read_json(path)
    for key, value in now.items():
        if plan.get(key) != value:
            raise ArtefactError(
                f"this run was planned with {key.replace('_', ' ')} {plan.get(key)}, and here it is {value}",
                hint="resume it where it began, or start a new run",
            )
    return Schedule(**{item.name: plan[item.name] for item in dataclasses.fields(Schedule)})
