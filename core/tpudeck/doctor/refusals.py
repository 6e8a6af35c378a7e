"""What cannot work is refused before anything starts, with the reason.

Without this it would be found out by an abort inside libtpu, minutes into a run, or not at all: a TensorFlow that has
lost its TPU trains on the CPU and says nothing.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from tpudeck.devices.gpu import compute_capabilities
from tpudeck.devices.inventory import Holder
from tpudeck.doctor.environment import package_faults
from tpudeck.doctor.machine import memory_bytes
from tpudeck.doctor.surroundings import Surroundings
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.plan.size import layer_parameter_count
from tpudeck.units import format_bytes

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["refuse_what_cannot_start", "refuse_what_cannot_work", "refuse_while_held", "tpu_holders"]

_LARGEST_HOST = {"v2": 8, "v3": 8, "v4": 4, "v5e": 8, "v5p": 4, "v6e": 8}
"""Devices of the largest slice that has a single host."""
_TPU_HOST = ("TPU_ACCELERATOR_TYPE", "TPU_WORKER_", "COLAB_TPU")
"""How the variables begin that a host with a TPU sets, also where a container hides the bus."""
_BFLOAT16 = (8, 0)
"""The first compute capability of NVIDIA's that multiplies in bfloat16."""
_RUN = "tpudeck.training"
"""What the command line of a run's training says."""


def refuse_what_cannot_start(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise where this experiment can never run on this machine, or not now."""
    surroundings = here or Surroundings()
    refuse_what_cannot_work(experiment, surroundings)
    refuse_while_held(experiment, surroundings)


def refuse_what_cannot_work(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise :class:`InputError` where this experiment can never run on this machine."""
    surroundings = here or Surroundings()
    _refuse_without_tensorflow()
    if experiment.device.kind == "gpu":
        _refuse_without_gpu(surroundings)
        _refuse_without_bfloat16(experiment, surroundings)
    if not _wants_tpu(experiment, surroundings):
        if experiment.device.kind == "cpu" or not _has_gpu(surroundings):
            _refuse_too_large(experiment, memory_bytes(surroundings)[0], "this machine has")
        return
    for fault in package_faults(surroundings.versions):
        raise InputError(fault.message, hint=fault.fix)
    _refuse_elsewhere(experiment, surroundings)
    _refuse_without_tpu(experiment, surroundings)
    _refuse_several_hosts(experiment)
    for chip in {found.chip for found in surroundings.chips() if found.chip is not None}:
        if not chip.tensorflow:
            raise InputError(f"TensorFlow does not run on {chip.name}", hint="use a v2 to v6e")
        _refuse_too_large(experiment, chip.hbm_bytes_per_device, f"each device of a {chip.name} has")


def refuse_while_held(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise :class:`RetryLaterError` while a process that is no run holds the TPU that this experiment wants.

    Runs wait for each other in the queue.
    """
    surroundings = here or Surroundings()
    if not _wants_tpu(experiment, surroundings):
        return
    for holder in tpu_holders(surroundings):
        if _RUN not in holder.command:
            hint = f"wait for it, or stop it: kill {holder.pid}"
            raise RetryLaterError(f"process {holder.pid} holds the TPU: {holder.command}", hint=hint)


def tpu_holders(here: Surroundings | None = None) -> list[Holder]:
    """The processes that have a TPU chip of this machine open, as far as this user may see them."""
    surroundings = here or Surroundings()
    files = {found.device_file for found in surroundings.chips()}
    return [holder for holder in surroundings.holders()[0] if holder.device_file in files] if files else []


def _wants_tpu(experiment: Experiment, here: Surroundings) -> bool:
    """Whether training will ask TensorFlow for a TPU: a build for TPUs always does, unless told otherwise."""
    kind = experiment.device.kind
    built_for_it = "tensorflow-tpu" in here.versions and here.environ.get("TPU_LOAD_LIBRARY") != "0"
    return kind == "tpu" or (kind == "auto" and built_for_it)


def _refuse_without_tensorflow() -> None:
    for module, package in (("tensorflow", "TensorFlow"), ("tf_keras", "tf-keras")):
        if importlib.util.find_spec(module) is None:
            raise InputError(
                f"training needs {package}, which is not installed",
                hint='pip install "tpudeck[cpu]" or "tpudeck[gpu]"; for a TPU see docs/tpu.md',
            )


def _refuse_without_tpu(experiment: Experiment, here: Surroundings) -> None:
    """Where nothing speaks for a TPU: no chip on the bus, no device file, and no word from the host."""
    told = any(name.startswith(_TPU_HOST) for name in here.environ)
    if here.chips() or told or any((here.root / "dev").glob("accel*")):
        return
    if experiment.device.kind == "auto":
        raise InputError(
            "this machine has no TPU, and the TensorFlow that is installed is built for one",
            hint="set device.kind to cpu, or go to a TPU VM: docs/tpu.md",
        )
    raise InputError(
        "this machine has no TPU, got device.kind = tpu",
        hint="set device.kind to auto, or start tpudeck on a TPU VM: docs/tpu.md",
    )


def _refuse_too_large(experiment: Experiment, memory: int, who_has: str) -> None:
    """Where the layers' weights, gradients and moments alone are more than there is (0: not known)."""
    needed = 4 * 4 * layer_parameter_count(experiment)
    if 0 < memory < needed:
        raise InputError(
            f"the layers need {format_bytes(needed)} for weights, gradients and moments, and {who_has} "
            f"{format_bytes(memory)}",
            hint="take fewer model.layers, or a smaller model.width",
        )


def _refuse_without_gpu(here: Surroundings) -> None:
    """Where nothing speaks for a GPU."""
    hidden = here.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in {"", "-1"}:
        raise InputError(f"CUDA_VISIBLE_DEVICES={hidden} hides every GPU, got device.kind = gpu", hint="unset it")
    if not _has_gpu(here):
        raise InputError(
            "this machine has no GPU, got device.kind = gpu",
            hint="set device.kind to auto or cpu; where there is one, install its driver",
        )


def _refuse_without_bfloat16(experiment: Experiment, here: Surroundings) -> None:
    """Where all that the driver knows of are too old for it."""
    found = compute_capabilities(proc_root=here.root / "proc")
    if experiment.train.precision == "bfloat16" and found and max(found) < _BFLOAT16:
        major, minor = max(found)
        raise InputError(
            f"bfloat16 needs a GPU of compute capability 8.0 or more, got {major}.{minor}",
            hint="use train.precision = float32",
        )


def _has_gpu(here: Surroundings) -> bool:
    """Whether there is a device file of one; a system without ``/proc`` is given the benefit of the doubt."""
    files = ("nvidia[0-9]*", "dxg", "kfd")  # NVIDIA's, Windows' for its Linux, AMD's
    return not (here.root / "proc").is_dir() or any(any((here.root / "dev").glob(name)) for name in files)


def _refuse_elsewhere(experiment: Experiment, here: Surroundings) -> None:
    name = experiment.device.name or here.environ.get("TPU_NAME") or "local"
    if name != "local":
        raise InputError(
            f"a TPU elsewhere ({name}) sees only buckets, and a run keeps shards and checkpoints on this disk",
            hint="use a TPU VM: log in to it, start tpudeck there, and leave device.name at local",
        )


def _refuse_several_hosts(experiment: Experiment) -> None:
    planned = experiment.planned_device
    if planned is not None and planned[1] > _LARGEST_HOST[planned[0].name]:
        raise InputError(
            f"{experiment.device.accelerator} has several hosts, and a run uses one",
            hint="use a slice with a single host, such as v5e-8",
        )
