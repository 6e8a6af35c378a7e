"""Axes of charts: which values they span, where their ticks are, and how a number is written there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Scale", "format_tick", "format_value", "nice_scale", "ticks", "time_ticks"]


_LEAST = 1e-290
"""Below it numbers lose their digits."""


@dataclass(frozen=True)
class Scale:
    """The y axis: the values at its lower and upper end, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def fraction(self, value: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Values → 0 at the lower end, 1 at the upper."""
        with np.errstate(invalid="ignore", divide="ignore"):
            y = np.asarray(value, dtype=np.float64)
            if self.log:
                low, high = math.log10(self.low), math.log10(self.high)
                return np.asarray((np.log10(y) - low) / (high - low))
            return np.asarray((y / 2 - self.low / 2) / (self.high / 2 - self.low / 2))


def _nice_step(span: float, parts: float) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten that cuts `span` into at most about `parts`."""
    rough = span / parts
    unit = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-300 else 1e-300
    return next(unit * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * factor >= rough * (1 - 1e-9))


def nice_scale(low: float, high: float, *, log: bool = False) -> Scale:
    """An axis around the values of [low, high], rounded outwards so that it moves seldom while they change."""
    if log:
        if not low > 0:
            low, high = 1.0, 10.0
        bottom, top = math.log10(low), math.log10(high)
        step = _nice_step(max(top - bottom, 1e-9), 8)
        bottom, top = math.floor(bottom / step + 1e-9) * step, math.ceil(top / step - 1e-9) * step
        if top - bottom < 1e-6:
            bottom, top = math.log10(low) - 0.5, math.log10(low) + 0.5
        return Scale(10.0 ** max(bottom, -307.0), 10.0 ** min(top, 308.0), log=True)
    largest = max(abs(low), abs(high))
    if high / 2 - low / 2 <= max(largest * 1e-12, _LEAST):
        pad = largest * 0.1 if largest > _LEAST else 1.0
        return Scale(low - pad, high + pad)
    span = min(high - low, 1e308)
    step = _nice_step(span, 12)
    return Scale(
        max(math.floor(low / step + 1e-9) * step, -1e308),
        min(math.ceil(high / step - 1e-9) * step, 1e308),
    )


def ticks(scale: Scale, count: int) -> list[float]:
    """About `count` round values inside an axis, but two at least: one alone says nothing of the scale."""
    if count < 1:
        return []
    if scale.log:
        return _log_ticks(scale, count)
    found = _linear_ticks(scale, count)
    return found if len(found) > 1 else _linear_ticks(scale, 2 * count)


def _linear_ticks(scale: Scale, count: int) -> list[float]:
    half_span = scale.high / 2 - scale.low / 2
    step = 2 * _nice_step(half_span, count)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [index * step for index in range(first, min(last, first + 4 * count) + 1)]


def _log_ticks(scale: Scale, count: int) -> list[float]:
    low, high = math.log10(scale.low), math.log10(scale.high)
    decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(decades) >= 2:
        stride = -(-len(decades) // max(count, 1))
        return [10.0**decade for decade in decades if decade % stride == 0]
    return [value for value in ticks(Scale(scale.low, scale.high), count) if value > 0]


_ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def time_ticks(low_s: float, high_s: float, count: int) -> list[float]:
    """At most about `count` round times: seconds, minutes, hours or days."""
    span = high_s - low_s
    step = next((step for step in _ROUND_S if span / step <= count), 86400 * max(1, math.ceil(span / 86400 / count)))
    return [float(index * step) for index in range(math.ceil(low_s / step), math.floor(high_s / step) + 1)]


def format_tick(value: float, step: float = 0.0) -> str:
    """A number for an axis, in at most eight characters; `step` says how fine the axis is."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size < abs(step) * 1e-6 or size == 0:
        return "0"
    if size >= 1e4 or size < 1e-3:
        for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if limit <= size < 1e15:
                return f"{value / limit:.4g}{suffix}"
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    if not step:
        return f"{value:.4g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    decimals += f"{step:.2e}"[2] not in "0" and decimals > 0
    return f"{value:.{min(decimals, 6)}f}"


def format_value(value: float) -> str:
    """A measured number in at most eight characters."""
    if value != value:
        return "NaN"
    if abs(value) >= 1e5 or (value and abs(value) < 1e-3):
        return format_tick(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
