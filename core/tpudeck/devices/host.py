"""CPU and memory of this machine."""

from __future__ import annotations

import os

import psutil

from tpudeck.devices.readings import Host

__all__ = ["read_host"]


def read_host(*, over_s: float | None = None) -> Host:
    """CPU and memory now; CPU since the last call of this process, or over the next `over_s` seconds."""
    memory = psutil.virtual_memory()
    return Host(
        cpu_percent=psutil.cpu_percent(interval=over_s),
        cpu_count=os.cpu_count() or 1,
        load_1m=os.getloadavg()[0],
        memory_used_bytes=memory.total - memory.available,
        memory_total_bytes=memory.total,
    )
