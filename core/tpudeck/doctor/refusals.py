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

__all__ = ["refuse_what_cannot_start"]

_LARGEST_HOST = {"v2": 8, "v3": 8, "v4": 4, "v5e": 8, "v5p": 4, "v6e": 8}
"""Devices of the largest slice that has a single host."""


def refuse_what_cannot_start(experiment: Experiment, here: Surroundings | None = None) -> None:
    """Raise where this experiment cannot run on this machine.

    :class:`InputError` where it never can, :class:`RetryLaterError` where another process holds the TPU.
    """
    surroundings = here or Surroundings()
    if not _wants_tpu(experiment, surroundings):
        return
    for fault in package_faults(surroundings.versions):
        raise InputError(fault.message, hint=fault.fix)
    _refuse_nodes(experiment, surroundings)
    _refuse_pods(experiment)
    _refuse_chips(surroundings)


def _wants_tpu(experiment: Experiment, here: Surroundings) -> bool:
    kind = experiment.device.kind
    return kind == "tpu" or (kind == "auto" and "tensorflow-tpu" in here.versions and bool(here.chips()))


def _name(experiment: Experiment, here: Surroundings) -> str:
    return experiment.device.name or here.environ.get("TPU_NAME") or "local"


def _refuse_nodes(experiment: Experiment, here: Surroundings) -> None:
    name = _name(experiment, here)
    if name != "local":
        raise InputError(
            f"a TPU elsewhere ({name}) sees only buckets, and a run keeps shards and checkpoints on this disk",
            hint="use a TPU VM: log in to it, start tpudeck there, and leave device.name at local",
        )


def _refuse_pods(experiment: Experiment) -> None:
    planned = experiment.planned_device
    if planned is not None and planned[1] > _LARGEST_HOST[planned[0].name]:
        raise InputError(
            f"{experiment.device.accelerator} has several hosts, and a run uses one",
            hint="use a slice with a single host, such as v5e-8",
        )


def _refuse_chips(here: Surroundings) -> None:
    chips = here.chips()
    for found in chips:
        if found.chip is not None and not found.chip.tensorflow:
            raise InputError(f"TensorFlow does not run on {found.chip.name}", hint="use a v2 to v6e")
    files = {found.device_file for found in chips}
    holders, _ = here.holders()
    held = next((holder for holder in holders if holder.device_file in files), None)
    if held is not None:
        raise RetryLaterError(
            f"process {held.pid} holds the TPU: {held.command}", hint=f"wait for it, or stop it: kill {held.pid}"
        )
