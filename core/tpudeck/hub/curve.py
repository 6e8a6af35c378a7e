"""The loss of a run as a small SVG that a web page shows beside the model: the training loss and its evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Curve", "draw"]

_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 32
_MOST_POINTS = 400

_PAGE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#ffffff"/>
{body}
</svg>
"""


@dataclass(frozen=True)
class Curve:
    """One line: values by step, both in order."""

    name: str
    steps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    colour: str

    def finite(self) -> Curve:
        keep = np.isfinite(self.values)
        return Curve(self.name, self.steps[keep], self.values[keep], self.colour)

    def thinned(self) -> Curve:
        """The smallest and the largest value of every bucket of steps: spikes stay."""
        if len(self.values) <= _MOST_POINTS:
            return self
        parts = np.array_split(np.arange(len(self.values)), _MOST_POINTS // 2)
        ends = [(part[self.values[part].argmin()], part[self.values[part].argmax()]) for part in parts]
        chosen = np.unique(np.array(ends).ravel())
        return Curve(self.name, self.steps[chosen], self.values[chosen], self.colour)


def draw(curves: Sequence[Curve]) -> str:
    """The curves over a common grid; values that are not finite are left out."""
    shown = [curve.finite() for curve in curves]
    shown = [curve.thinned() for curve in shown if len(curve.values)]
    if not shown:
        return _PAGE.format(width=_WIDTH, height=_HEIGHT, body="")
    low = min(float(curve.values.min()) for curve in shown)
    high = max(float(curve.values.max()) for curve in shown)
    high = high if high > low else low + 1.0
    last = max(1, max(int(curve.steps[-1]) for curve in shown))

    def x(step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / last

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    body = []
    for value in np.linspace(low, high, 5):
        body.append(f'<path d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}" stroke="#e0e0e0"/>')
        body.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">{value:.2f}</text>')
    for step in np.linspace(0, last, 5):
        body.append(f'<text x="{x(step):.1f}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#555">{step:,.0f}</text>')
    for index, curve in enumerate(shown):
        points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in zip(curve.steps, curve.values, strict=True))
        body.append(f'<polyline points="{points}" fill="none" stroke="{curve.colour}" stroke-width="1.5"/>')
        top = _TOP + 12 + 16 * index
        body.append(f'<text x="{_WIDTH - 24}" y="{top}" text-anchor="end" fill="{curve.colour}">{curve.name}</text>')
    return _PAGE.format(width=_WIDTH, height=_HEIGHT, body="\n".join(body))
