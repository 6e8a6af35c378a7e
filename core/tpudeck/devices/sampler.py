"""One look at the machine and all its accelerators."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tpudeck.devices.gpu import read_gpus
from tpudeck.devices.host import read_host
from tpudeck.devices.inventory import InstalledChip, find_chips, find_holders
from tpudeck.devices.readings import READINGS, Core, Sample
from tpudeck.devices.runtime import metric_ports, read_runtime
from tpudeck.devices.tensorcore import TensorCoreProbe

__all__ = ["Sampler", "sample"]


class Sampler:
    """Looks again and again, and keeps what is worth keeping between looks."""

    def __init__(
        self,
        *,
        ports: Sequence[int] | None = None,
        sys_root: Path = Path("/sys"),
        proc_root: Path = Path("/proc"),
        probe: TensorCoreProbe | None = None,
    ) -> None:
        self._ports = list(ports) if ports is not None else metric_ports()
        self._asked_for_ports = ports is not None or "TPU_RUNTIME_METRICS_PORTS" in os.environ
        self._proc_root = proc_root
        self._chips = find_chips(sys_root=sys_root)
        self._probe = probe or TensorCoreProbe()

    def sample(self, *, over_s: float | None = None) -> Sample:
        """One look; CPU use is since the one before, or over the next `over_s` seconds."""
        gpus, gpu_notes = read_gpus(proc_root=self._proc_root)
        tpus, tpu_notes = self._tpus()
        notes = (*tpu_notes, *gpu_notes) if gpus or tpus or gpu_notes or tpu_notes else ("no TPU and no GPU was found",)
        return Sample(time.time(), read_host(over_s=over_s), (*tpus, *gpus), notes)

    def close(self) -> None:
        self._probe.close()

    def _tpus(self) -> tuple[list[Core], list[str]]:
        if not self._chips and not self._asked_for_ports:
            return [], []
        name = next((found.chip.name for found in self._chips if found.chip), "")
        cores, notes = read_runtime(self._ports, name=name)
        cores = _with_silent_devices(cores, self._chips, notes)
        if self._chips:
            notes = [*_holder_notes(self._chips, self._proc_root), *notes]
        return _with_tensorcore(cores, self._probe), notes


def sample() -> Sample:
    """One look at this machine, in this process: it may take seconds where a driver hangs."""
    sampler = Sampler()
    try:
        return sampler.sample(over_s=0.2)
    finally:
        sampler.close()


def _with_silent_devices(cores: list[Core], chips: Sequence[InstalledChip], notes: Sequence[str]) -> list[Core]:
    """The devices that are told of, and those of the chips on the bus of which nothing is told."""
    expected = sum(found.chip.devices_per_chip if found.chip else 1 for found in chips)
    known = {core.index for core in cores}
    free = [index for index in range(expected) if index not in known][: max(0, expected - len(cores))]
    why = "; ".join(note.removeprefix("TPU: ") for note in notes) or "the runtime does not tell of it"
    name = next((found.chip.name for found in chips if found.chip), "")
    silent = [Core(index, "tpu", name, missing=dict.fromkeys(READINGS, why)) for index in free]
    return sorted([*cores, *silent], key=lambda core: core.index)


def _with_tensorcore(cores: list[Core], probe: TensorCoreProbe) -> list[Core]:
    """TensorCore utilisation goes by position: the agent gives a list without names."""
    if not cores:
        return []
    values, why = probe.read()
    if len(values) != len(cores):
        reason = why or f"the host's agent reports {len(values)} values for {len(cores)} devices"
        return [replace(core, missing={**core.missing, "tensorcore_percent": reason}) for core in cores]
    return [
        replace(core, tensorcore_percent=value, missing=_without(core.missing, "tensorcore_percent"))
        for core, value in zip(cores, values, strict=True)
    ]


def _without(missing: Mapping[str, str], reading: str) -> dict[str, str]:
    return {key: why for key, why in missing.items() if key != reading}


def _holder_notes(chips: Sequence[InstalledChip], proc_root: Path) -> list[str]:
    """Who holds which chips, in words."""
    holders, hidden = find_holders(proc_root=proc_root)
    files = {found.device_file for found in chips}
    by_process: dict[tuple[int, str], list[str]] = {}
    for holder in holders:
        if holder.device_file in files:
            by_process.setdefault((holder.pid, holder.command), []).append(holder.device_file)
    notes = [f"TPU: pid {pid} holds {', '.join(held)}: {command}" for (pid, command), held in by_process.items()]
    if not notes and hidden:
        notes.append(f"TPU: no holder was found, but {hidden} processes of other users could not be looked into")
    return notes
