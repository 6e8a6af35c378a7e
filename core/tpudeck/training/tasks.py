"""The tasks of this package. What can be checked without TensorFlow is checked before its import."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.presets import load_experiment
from tpudeck.runs.checkpoints import Checkpoints
from tpudeck.runs.events import PhaseChanged
from tpudeck.training.checkpoints import assign
from tpudeck.training.inputs import read_inputs, read_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpudeck.jobs import Job
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck.training.model import LanguageModel

__all__ = ["TASKS"]

_STARTING_PROMISE_S = 300.0


def train(job: Job) -> dict[str, Any]:
    """Train the run in this folder."""
    job.writer.event(PhaseChanged(phase="starting", promise_s=_STARTING_PROMISE_S))
    inputs = read_inputs(job.folder, job.experiment())
    from tpudeck.training import trainer

    return trainer.run(job, inputs)


def export(job: Job) -> dict[str, Any]:
    """Write a run's checkpoint as a folder that Transformers opens.

    The request names the ``run``, the folder ``out``, and the ``checkpoint``: best, last or a step.
    """
    request = job.request()
    job.writer.event(PhaseChanged(phase="exporting", promise_s=_STARTING_PROMISE_S))
    loaded = _load(job)
    from tpudeck.training.export import export_model

    folder = Path(request["out"])
    size_bytes = export_model(loaded.model, loaded.tokenizer, folder)
    return {"folder": str(folder), "step": loaded.step, "size_bytes": size_bytes}


def fill_mask(job: Job) -> dict[str, Any]:
    """Fill the masks in the request's ``texts`` with the ``most`` likeliest tokens."""
    request, loaded = job.request(), _load(job)
    from tpudeck.training.fill import fill_masks

    samples = [fill_masks(loaded.model, loaded.tokenizer, text, most=request["most"]) for text in request["texts"]]
    return {"step": loaded.step, "samples": samples}


def generate(job: Job) -> dict[str, Any]:
    """Go on with the request's ``texts``."""
    request, loaded = job.request(), _load(job)
    from tpudeck.training.fill import generate as go_on

    settings = {key: request[key] for key in ("tokens", "temperature", "seed")}
    samples = [go_on(loaded.model, loaded.tokenizer, text, **settings) for text in request["texts"]]
    return {"step": loaded.step, "samples": samples}


def profile(job: Job) -> dict[str, Any]:
    """Read what the profiler wrote into the request's ``folder``."""
    os.environ["TPU_LOAD_LIBRARY"] = "0"
    from tpudeck.training.trace import where_time_went

    return where_time_went(Path(job.request()["folder"]))


@dataclass(frozen=True)
class _Loaded:
    model: LanguageModel
    tokenizer: LoadedTokenizer
    step: int


def _load(job: Job) -> _Loaded:
    """The model of the request's run as one of its checkpoints has it, on the CPU: the run may still be training."""
    request = job.request()
    run = Path(request["run"])
    experiment = load_experiment(run / "experiment.toml")
    tokenizer = read_tokenizer(run)
    checkpoint = Checkpoints(run / "checkpoints").find(str(request.get("checkpoint", "best")))
    os.environ["TPU_LOAD_LIBRARY"] = "0"
    import tensorflow as tf

    from tpudeck.training.configuration import vocabulary_of
    from tpudeck.training.model import build_model
    from tpudeck.training.noise import quieted

    quieted(tf.config.list_physical_devices)
    tf.config.set_visible_devices([], "GPU")
    model = build_model(experiment, vocabulary_of(tokenizer))
    assign(model.weights, checkpoint.weights(), source=checkpoint.folder)
    return _Loaded(model, tokenizer, checkpoint.step)


TASKS: dict[str, Callable[[Job], Mapping[str, Any]]] = {
    "train": train,
    "export": export,
    "fill-mask": fill_mask,
    "generate": generate,
    "profile": profile,
}
