"""How many steps one call of the loop does.

Between two calls requests are seen: a stop, a checkpoint, the end of the machine. So a call should last about a second,
and end at every step at which something is due.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CALL_S", "Pace"]

CALL_S = 1.0


class Pace:
    """Aims at calls of about a second, by how long they took so far."""

    def __init__(self, *, step_s: float, total_steps: int, due_every: Iterable[int | None], fixed: int | None) -> None:
        self._total_steps = total_steps
        self._due_every = [every for every in due_every if every]
        self._fixed = fixed
        self._most = max(1, round(CALL_S / step_s))

    def steps_from(self, step: int) -> int:
        """Of the call that begins after a step."""
        end = min(step + (self._fixed or self._most), self._total_steps)
        return min([end, *((step // every + 1) * every for every in self._due_every)]) - step

    def took(self, steps: int, elapsed_s: float) -> None:
        """Learn how long a call of so many steps took. One can't grow by more than twice, whatever the clock said."""
        self._most = max(1, min(2 * steps, round(CALL_S * steps / elapsed_s)))
