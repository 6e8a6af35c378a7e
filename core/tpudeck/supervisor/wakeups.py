"""Sleeping until a child ends, somebody asks for an end, or time is up."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType, TracebackType

__all__ = ["Wakeups"]


class Wakeups:
    """Signals as wake-ups of one loop: SIGCHLD, SIGTERM and SIGINT; SIGHUP means nothing here."""

    def __init__(self) -> None:
        self.terminated = False
        """Whether SIGTERM or SIGINT has come."""

    def __enter__(self) -> Wakeups:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._ignore)
        signal.signal(signal.SIGHUP, self._ignore)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, self._terminate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def _ignore(self, _number: int, _frame: FrameType | None) -> None:
        """A handler, so that the signal wakes the loop, and so that children start with the default."""

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self.terminated = True

    def wake(self) -> None:
        """End the sleep, from a thread."""
        os.write(self._write, b"\0")

    def wait(self, timeout_s: float) -> None:
        """Sleep until a signal comes, at most so long."""
        select.select([self._read], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass
