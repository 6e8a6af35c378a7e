"""How fast this machine's CPU multiplies matrices: the peak against which utilisation on a CPU is measured."""

from __future__ import annotations

import time

__all__ = ["cpu_matrix_flops"]

_SIZE = 1024


def cpu_matrix_flops(*, seconds: float = 0.3) -> float:
    """FLOP/s of float32 matrix products on all cores: the best of as many as fit into `seconds`, three at least.

    The best, because everything else on the machine can only make one slower.
    """
    import numpy as np

    left = np.random.default_rng(0).standard_normal((_SIZE, _SIZE), dtype=np.float32)
    best, end, rounds = float("inf"), time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        left @ left
        best = min(best, time.perf_counter() - start)
        rounds += 1
    return 2 * _SIZE**3 / best
