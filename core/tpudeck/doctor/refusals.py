"""What cannot work is refused before anything starts, with the reason.

Without this it would be found out by an abort inside libtpu, minutes into a run, or not at all: a TensorFlow that has
lost its TPU trains on the CPU and says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpudeck.doctor.environment import package_faults
from tpudeck.doctor.surroundings import Surroundings
from tpudeck.errors import InputError, RetryLaterError

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["refuse_what_cannot_start", "refuse_what_cannot_work", "refuse_while_held"]

_LARGEST_HOST = {"v2": 8, "v3": 8, "v4": 4, "v5e": 8, "v5p": 4, "v6e": 8}
"""Devices of the largest slice that has a single host."""


def refuse_what_cannot_start(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise where this experiment can never run on this machine, or not now."""
    surroundings = here or Surroundings()
    refuse_what_cannot_work(experiment, surroundings)
    refuse_while_held(experiment, surroundings)


def refuse_what_cannot_work(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise :class:`InputError` where this experiment can never run on this machine."""
    surroundings = here or Surroundings()
    if not _wants_tpu(experiment, surroundings):
        return
    for fault in package_faults(surroundings.versions):
        raise InputError(fault.message, hint=fault.fix)
    _refuse_elsewhere(experiment, surroundings)
    _refuse_several_hosts(experiment)
    for found in surroundings.chips():
        if found.chip is not None and not found.chip.tensorflow:
            raise InputError(f"TensorFlow does not run on {found.chip.name}", hint="use a v2 to v6e")


def refuse_while_held(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise :class:`RetryLaterError` while another process holds the TPU that this experiment wants."""
    surroundings = here or Surroundings()
    files = {found.device_file for found in surroundings.chips()}
    if not files or not _wants_tpu(experiment, surroundings):
        return
    for holder in surroundings.holders()[0]:
        if holder.device_file in files:
            hint = f"wait for it, or stop it: kill {holder.pid}"
            raise RetryLaterError(f"process {holder.pid} holds the TPU: {holder.command}", hint=hint)


def _wants_tpu(experiment: Experiment, here: Surroundings) -> bool:
    kind = experiment.device.kind
    return kind == "tpu" or (kind == "auto" and "tensorflow-tpu" in here.versions and bool(here.chips()))


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
