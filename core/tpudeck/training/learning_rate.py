"""The learning rate of a step: linear warm-up, then a fall to zero, linear (Devlin et al. 2018) or as a cosine
(Loshchilov and Hutter 2017).

It is computed on the host and handed to the step as a number, so the compiled program doesn't depend on how long the
run is.
"""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["learning_rate"]


def learning_rate(
    step: int, *, peak: float, warmup_steps: int, total_steps: int, schedule: Literal["linear", "cosine"]
) -> float:
    """Of a step counted from 0: the first of w warm-up steps gets 1/w of the peak, the last of the run almost none."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    left = max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))
    return peak * (left if schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)
