"""How fast this machine's CPU multiplies matrices: the peak against which utilisation on a CPU is measured.

Whatever else runs can only make a measurement slower, so the best one stands: within a measurement, and among all that
were made on this kind of CPU, which are remembered in the cache.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path

import orjson

from tpudeck.config import Home
from tpudeck.storage import read_json, write_json

__all__ = ["cpu_peak", "measure_matrix_flops"]

_SIZE = 1024


def measure_matrix_flops(*, seconds: float = 0.3) -> float:
    """FLOP/s of float32 matrix products on all cores: the best of as many as fit into `seconds`, three at least."""
    import numpy as np

    left = np.random.default_rng(0).standard_normal((_SIZE, _SIZE), dtype=np.float32)
    best, end, rounds = float("inf"), time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        left @ left
        best = min(best, time.perf_counter() - start)
        rounds += 1
    return 2 * _SIZE**3 / best


def cpu_peak(home: Home, *, seconds: float = 0.3) -> float:
    """The best measurement so far on this kind of CPU, of which one is made now."""
    path, cpu = home.cache / "cpu-peak.json", _cpu()
    remembered: dict[str, float] = {}
    with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError):
        remembered = dict(read_json(path))
    best = max(measure_matrix_flops(seconds=seconds), float(remembered.get(cpu, 0.0)))
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, remembered | {cpu: best})
    return best


def _cpu() -> str:
    """The model of the CPU and how many cores of it this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} x {cores}"
    return f"{platform.machine()} x {cores}"
