"""How fast this machine's CPU multiplies matrices: the peak against which utilisation on a CPU is measured.

One core is measured, and multiplied by the cores that this process may use. A product on one core takes less than a
millisecond, so that some go undisturbed however busy the machine is, even with training; a product on all cores waits
for the slowest of them, and on a busy machine that shows a small part of the peak. It is done by a child, since the
library reads how many threads it may use when it is loaded. The best of all measurements made on this kind of CPU
stands, and is remembered in the cache.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import orjson

from tpudeck.config import Home
from tpudeck.errors import WorkError
from tpudeck.storage import read_json, write_json

__all__ = ["cpu_peak"]

_SIZE = 256
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS"), "1"
)
"""For each of the libraries that NumPy may be built with."""


def cpu_peak(home: Home, *, seconds: float = 0.3) -> float:
    """FLOP/s of float32 matrix products on all cores: the best measurement so far, of which one is made now."""
    path, cpu = home.cache / "cpu-peak.json", _cpu()
    remembered: dict[str, float] = {}
    with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError):
        remembered = dict(read_json(path))
    best = max(_core_peak(seconds) * _cores(), float(remembered.get(cpu, 0.0)))
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, remembered | {cpu: best})
    return best


def _core_peak(seconds: float) -> float:
    """FLOP/s of one core, measured by a child."""
    command = [sys.executable, "-m", __name__, f"{seconds:g}"]
    try:
        told = subprocess.run(command, env=dict(os.environ) | _ONE_THREAD, capture_output=True, check=True, timeout=60)
        return float(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise WorkError(f"the speed of this CPU could not be measured: {error}") from error


def _measure(seconds: float) -> float:
    """FLOP/s of the fastest of as many products as fit into `seconds`, three at least."""
    import numpy as np

    left = np.random.default_rng(0).standard_normal((_SIZE, _SIZE), dtype=np.float32)
    best, end, rounds = float("inf"), time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        left @ left
        best = min(best, time.perf_counter() - start)
        rounds += 1
    return 2 * _SIZE**3 / best


def _cores() -> float:
    """Cores that this process may use, as far as they have arithmetic of their own: not two threads of one core."""
    import psutil

    from tpudeck.parallel import cores

    allowed = cores()
    return min(allowed, psutil.cpu_count(logical=False) or allowed, _quota())


def _quota() -> float:
    """Cores' worth of time that the control group grants; infinite where it sets no limit."""
    try:
        granted, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return int(granted) / int(period)
    except (OSError, ValueError):
        return float("inf")


def _cpu() -> str:
    """The model of the CPU and how many cores of it this process may use."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} x {_cores():g}"
    return f"{platform.machine()} x {_cores():g}"


if __name__ == "__main__":
    print(_measure(float(sys.argv[1])))
