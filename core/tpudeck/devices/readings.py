"""What one look at a machine says: a value, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["READINGS", "Core", "Host", "Sample"]

READINGS = ("duty_cycle_percent", "tensorcore_percent", "hbm_used_bytes", "hbm_total_bytes")
"""What is read from every accelerator device."""


@dataclass(frozen=True)
class Core:
    """One accelerator device, as a framework counts them (a v2 or v3 chip has two).

    Duty cycle and TensorCore utilisation are different things. The first is the share of time in which any program ran,
    and is easily 100 %; the second is how busy the matrix units were meanwhile.
    """

    index: int
    kind: str
    """``tpu`` or ``gpu``."""
    name: str
    """``v5e``, ``NVIDIA A100-SXM4-40GB``; empty where it isn't known."""
    duty_cycle_percent: float | None = None
    tensorcore_percent: float | None = None
    hbm_used_bytes: int | None = None
    hbm_total_bytes: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Reading → why it is none."""


@dataclass(frozen=True)
class Host:
    """CPU and memory of the machine."""

    cpu_percent: float
    """Over all cores, 0 to 100, since the look before."""
    cpu_count: int
    load_1m: float
    memory_used_bytes: int
    memory_total_bytes: int


@dataclass(frozen=True)
class Sample:
    """One look."""

    time: float
    """Seconds since the epoch."""
    host: Host | None
    cores: tuple[Core, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found out on the way: no chips, who holds them, which service does not answer."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a line of ``system.jsonl``."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sample:
        """The way back from :meth:`to_dict`."""
        host = data.get("host")
        return cls(
            time=float(data["time"]),
            host=Host(**host) if host else None,
            cores=tuple(Core(**core) for core in data.get("cores", ())),
            notes=tuple(data.get("notes", ())),
        )
