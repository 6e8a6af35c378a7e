"""Which process, exactly: a process id is used again, so it counts only with start time, boot and host."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["ProcessIdentity", "boot_id", "host_name"]


@functools.cache
def host_name() -> str:
    return os.uname().nodename


@functools.cache
def boot_id() -> str:
    """Changes whenever the machine starts; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_time(pid: int) -> float | None:
    """When the process began, in the system's own unit; none where there is no such process (a zombie is none)."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else float(fields[19])
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that no other can be mistaken for."""

    pid: int
    started: float
    boot_id: str
    host: str

    @classmethod
    def of(cls, pid: int | None = None) -> ProcessIdentity:
        """This process, or one that lives on this machine."""
        pid = pid or os.getpid()
        return cls(pid, _start_time(pid) or 0.0, boot_id(), host_name())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProcessIdentity:
        return cls(int(data["pid"]), float(data["started"]), str(data["boot_id"]), str(data["host"]))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def on_this_host(self) -> bool:
        return self.host == host_name()

    @property
    def of_this_boot(self) -> bool:
        return self.boot_id == boot_id()

    @property
    def alive(self) -> bool:
        """Whether exactly this process still runs here."""
        return self.on_this_host and self.of_this_boot and _start_time(self.pid) == self.started
