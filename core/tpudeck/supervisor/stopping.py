"""Asking a stage to end: first kindly, then with SIGTERM, then with SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tpudeck.units import format_duration

__all__ = ["Grace", "Stopping", "kill_group"]


@dataclass(frozen=True)
class Grace:
    """How long a stage may take to end, in seconds."""

    checkpoint_s: float = 300.0
    """From the request until SIGTERM: time for the step, and for the checkpoint of a large model."""
    term_s: float = 10.0
    """From SIGTERM until SIGKILL."""
    now_s: float = 2.0
    """The same, for somebody who wants an end at once."""


def kill_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a stage and whatever it started; none of them left is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class Stopping:
    """The end of one stage, from the moment that somebody asks for it."""

    def __init__(self, pid: int, *, ask: Callable[[], None], grace: Grace) -> None:
        self._pid = pid
        self._ask = ask
        self._grace = grace
        self._began: float | None = None
        self._term_at = self._kill_at = 0.0

    @property
    def began(self) -> bool:
        return self._began is not None

    @property
    def evidence(self) -> str:
        left_s = max(0.0, self._term_at - time.monotonic())
        return f"saving a checkpoint, for at most {format_duration(round(left_s))}" if left_s else "told to end at once"

    def request(self, *, now: bool) -> None:
        """Ask for an end, or for it at once; again and again is no different from once."""
        moment = time.monotonic()
        if self._began is None:
            self._began = moment
            self._term_at = moment + self._grace.checkpoint_s
            self._kill_at = self._term_at + self._grace.term_s
            self._ask()
        if now and self._term_at > moment:
            self._term_at, self._kill_at = moment, moment + self._grace.now_s
        self._press(moment)

    def _press(self, moment: float) -> None:
        if moment >= self._kill_at:
            kill_group(self._pid, signal.SIGKILL)
        elif moment >= self._term_at:
            kill_group(self._pid, signal.SIGTERM)
