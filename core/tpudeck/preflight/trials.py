"""Try a batch size, or find the largest that fits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck import jobs
from tpudeck.chips import Chip, chip_named
from tpudeck.errors import InputError, WorkError
from tpudeck.plan import global_batch_size
from tpudeck.preflight.compiler import ENVIRONMENT
from tpudeck.preflight.report import report
from tpudeck.presets import save_experiment
from tpudeck.storage import write_json

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.presets import Experiment

__all__ = ["EXCLUDES", "largest_fitting", "preflight"]

EXCLUDES = "one replica's step: the sums over replicas and the loop of steps are not in it"
LOWERING_ENVIRONMENT = {
    "TPU_LOAD_LIBRARY": "0",
    "TF_USE_LEGACY_KERAS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "CUDA_VISIBLE_DEVICES": "",
}
"""TensorFlow is to build a program, and to touch no device."""
_MULTIPLE = 8
"""Sequences on a TPU come in eights."""
_LARGEST = 4096


def preflight(job: Job) -> dict[str, Any]:
    """``request``: `chip`; `replica_batch_size` where it isn't the experiment's; `largest` to search for the largest.

    The result is the report of the trial asked for, with `excludes`; after a search also `largest_replica_batch_size`,
    `best_replica_batch_size` (by the bound on tokens per second), and every trial.
    """
    request = job.request()
    chip = _chip(request["chip"])
    experiment = job.experiment()
    batch = request.get("replica_batch_size") or _replica_batch(experiment)
    trials: dict[int, dict[str, Any]] = {}

    def fits(size: int) -> bool:
        if size not in trials:
            job.check_stop()
            job.progress(len(trials), None, "compilations", force=True, replica_batch_size=size)
            trials[size] = _trial(job, experiment, chip, size)
        return bool(trials[size]["fits"])

    fits(batch)
    result = trials[batch] | {"excludes": EXCLUDES}
    if request.get("largest"):
        largest = largest_fitting(fits, start=batch)
        fitting = [trial for trial in trials.values() if trial["fits"]]
        best = max(fitting, key=lambda trial: trial["bound"]["tokens_per_s"], default=None)
        result |= {
            "largest_replica_batch_size": largest,
            "best_replica_batch_size": best["replica_batch_size"] if best else None,
            "trials": [trials[size] for size in sorted(trials)],
        }
    return result


def _chip(name: str) -> Chip:
    chip = chip_named(name)
    if not chip.tensorflow:
        raise InputError(f"TensorFlow does not run on {chip.name}", hint="choose one of v2 to v6e")
    return chip


def _replica_batch(experiment: Experiment) -> int:
    """Sequences of one replica and microstep, on the devices that the experiment plans for."""
    planned = experiment.planned_device
    replicas = planned[1] if planned else experiment.device.replicas or 1
    return global_batch_size(experiment, replicas=replicas) // (replicas * experiment.train.accumulation_steps)


def largest_fitting(fits: Callable[[int], bool], *, start: int) -> int:
    """The largest multiple of eight that fits, by doubling and bisection; 0 where not even eight do.

    Doubling ends at a few thousand: what is larger is no longer a question of memory.
    """
    low, high = 0, max(_MULTIPLE, start // _MULTIPLE * _MULTIPLE)
    while fits(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return low
    while high - low > _MULTIPLE:
        middle = (low + high) // 2 // _MULTIPLE * _MULTIPLE
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _trial(job: Job, experiment: Experiment, chip: Chip, batch: int) -> dict[str, Any]:
    """Lower and compile one batch size."""
    folder = job.folder / f"batch-{batch}"
    lowered = _child(job, "lower", folder / "lower", _one_replica(experiment, batch), {}, LOWERING_ENVIRONMENT)
    request = {"hlo": lowered["hlo"], "chip": chip.name}
    compiled = _child(job, "compile", folder / "compile", experiment, request, ENVIRONMENT)
    return report(experiment, chip, batch, compiled)


def _one_replica(experiment: Experiment, batch: int) -> Experiment:
    """The same experiment with so many sequences on its one replica."""
    sizes = {"global_batch_size": None, "replica_batch_size": batch}
    return experiment.model_copy(update={"train": experiment.train.model_copy(update=sizes)})


def _child(
    job: Job, task: str, folder: Path, experiment: Experiment, request: dict[str, Any], environ: dict[str, str]
) -> dict[str, Any]:
    """Do a task in a child of its own; kill it when we are asked to stop, since a compiler cannot be asked."""
    folder.mkdir(parents=True, exist_ok=True)
    save_experiment(experiment, folder / "experiment.toml")
    write_json(folder / "request.json", request)
    child = jobs.start(task, folder, environ=environ)
    try:
        while child.running():
            job.check_stop()
            time.sleep(0.05)
        return child.result()
    except WorkError as error:
        raise WorkError(error.message, hint=error.hint or _last_lines(folder / "console.log")) from error
    finally:
        if child.running():
            child.process.kill()
            child.process.wait()


def _last_lines(log: Path) -> str:
    """The end of a child's output, for a failure that left nothing else."""
    return " / ".join(log.read_text(errors="replace").splitlines()[-3:]) if log.exists() else ""
