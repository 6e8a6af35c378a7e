"""When a run is in trouble, by what it logs. Pure: lines in, alerts out.

===================  ===============================================================================================
``nan``              a loss that is not finite
``divergence``       the median of recent losses is a nat, and a fifth, above the lowest it has been
``throughput_drop``  tokens/s fall under 60 % of what they were
``input_bound``      steps spend more than 30 % of their time waiting for batches
``stall``            no word within the time the stage has promised
``disk``             under 1 GiB free, or under two checkpoints
===================  ===============================================================================================

An alert is raised when its condition begins, and again only when that had ended in between.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from tpudeck.runs.events import AlertRaised, CheckpointSaved, Event
from tpudeck.runs.numbers import decode_number
from tpudeck.units import format_bytes, format_rate

__all__ = ["Watchdog"]

_WARM_LINES = 10
"""Lines before a comparison with earlier ones means anything."""
_MEDIAN_LINES = 7
"""A spike of three lines is none of it."""
_WORSE_NATS = 1.0
_WORSE_SHARE = 0.2
_SLOWER_SHARE = 0.6
_RECENT_LINES = 5
_EARLIER_LINES = 50
_INPUT_SHARE = 0.3
_LEAST_FREE_BYTES = 1 << 30


class Watchdog:
    """Watches one attempt of a run."""

    def __init__(self) -> None:
        self._standing: set[str] = set()
        self._losses: deque[float] = deque(maxlen=_MEDIAN_LINES)
        self._lowest = math.inf
        self._rates: deque[float] = deque(maxlen=_RECENT_LINES + _EARLIER_LINES)
        self._rate_lines = 0
        self._waits: deque[float] = deque(maxlen=_WARM_LINES)
        self._checkpoint_bytes = 0

    def see_event(self, event: Event) -> None:
        """Take in what the stage says; trouble that it reports itself needs no second alert."""
        if isinstance(event, AlertRaised):
            self._standing.add(event.alert)
        elif isinstance(event, CheckpointSaved):
            self._checkpoint_bytes = event.size_bytes

    def see_metrics(self, row: Mapping[str, Any]) -> Iterator[AlertRaised]:
        """Take in one line of metrics."""
        step = int(row["step"])
        yield from self._loss(row, step)
        yield from self._throughput(row, step)
        yield from self._input(row, step)

    def see_silence(self, silent: bool, evidence: str) -> Iterator[AlertRaised]:
        yield from self._when("stall", silent, evidence)

    def see_disk(self, free_bytes: int) -> Iterator[AlertRaised]:
        least = max(_LEAST_FREE_BYTES, 2 * self._checkpoint_bytes)
        yield from self._when("disk", free_bytes < least, f"only {format_bytes(free_bytes)} of the disk are free")

    def _when(
        self, alert: str, condition: bool, message: str, *, step: int | None = None, level: str = "warning"
    ) -> Iterator[AlertRaised]:
        """The alert, where its condition has just begun."""
        if not condition:
            self._standing.discard(alert)
        elif alert not in self._standing:
            self._standing.add(alert)
            yield AlertRaised(alert=alert, message=message, level=level, step=step)

    def _loss(self, row: Mapping[str, Any], step: int) -> Iterator[AlertRaised]:
        loss = decode_number(row.get("loss"))
        if not isinstance(loss, (int, float)):
            return
        finite = math.isfinite(loss)
        yield from self._when("nan", not finite, f"the loss of step {step:,} is {loss}", step=step, level="error")
        if not finite:
            return
        self._losses.append(loss)
        if len(self._losses) < _MEDIAN_LINES:
            return
        now = median(self._losses)
        self._lowest = min(self._lowest, now)
        limit = self._lowest + max(_WORSE_NATS, _WORSE_SHARE * abs(self._lowest))
        message = f"the loss is about {now:.3f}, and was down to {self._lowest:.3f}"
        yield from self._when("divergence", now > limit, message, step=step)

    def _throughput(self, row: Mapping[str, Any], step: int) -> Iterator[AlertRaised]:
        rate = decode_number(row.get("tokens_per_s"))
        if not isinstance(rate, (int, float)) or not math.isfinite(rate):
            return
        self._rates.append(rate)
        self._rate_lines += 1
        if len(self._rates) < _RECENT_LINES + _WARM_LINES or self._rate_lines % _RECENT_LINES:
            return  # medians are worth their time once per set of recent lines
        rates = list(self._rates)
        now, before = median(rates[-_RECENT_LINES:]), median(rates[:-_RECENT_LINES])
        message = f"{format_rate(now, 'tokens')}, after {format_rate(before, 'tokens')} before"
        yield from self._when("throughput_drop", now < _SLOWER_SHARE * before, message, step=step)

    def _input(self, row: Mapping[str, Any], step: int) -> Iterator[AlertRaised]:
        wait_s, step_s = decode_number(row.get("input_wait_s")), decode_number(row.get("step_s"))
        if not isinstance(wait_s, (int, float)) or not isinstance(step_s, (int, float)) or not step_s > 0:
            return
        self._waits.append(wait_s / step_s)
        share = sum(self._waits) / len(self._waits)
        bound = len(self._waits) == _WARM_LINES and share > _INPUT_SHARE
        yield from self._when("input_bound", bound, f"steps wait {share:.0%} of their time for batches", step=step)
