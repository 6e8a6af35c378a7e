"""The writing side of a run folder: whole lines, appended by one process.

A line is one ``os.write`` to a file opened with ``O_APPEND``, so readers see it whole but for rare torn tails, which
they tolerate; a writer that opens a file again ends a torn tail with a newline first. A full disk does not raise: lines
wait in memory, the newest few thousand of them, and are written when there is room again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import orjson

from tpudeck.errors import disk_is_full
from tpudeck.runs.events import Event, encode_event
from tpudeck.runs.numbers import plain
from tpudeck.storage import write_json

__all__ = ["LineWriter", "RunWriter"]

_MOST_WAITING = 10_000


class LineWriter:
    """Appends JSON lines to one file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self.disk_full = False
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            self._waiting.append(b"\n")

    def append(self, value: object) -> None:
        """Write one line; where the disk is full it waits for the next call."""
        self._waiting.append(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
        try:
            while self._waiting:
                written = os.write(self._descriptor, self._waiting[0])
                if written < len(self._waiting[0]):
                    # The rest follows on a line of its own, which readers skip as a bad line.
                    self._waiting[0] = b"\n" + self._waiting[0]
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._waiting.popleft()
            self.disk_full = False
        except OSError as error:
            if not disk_is_full(error):
                raise
            self.disk_full = True

    def sync(self) -> None:
        """Force what was written to the disk (at checkpoints; it costs milliseconds)."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class RunWriter:
    """What a stage writes into its folder: ``events.jsonl``, ``metrics.jsonl`` and ``progress.json``.

    There is one per folder at any time; ``stage.lock`` sees to that.
    """

    def __init__(self, folder: Path, *, attempt: int = 0) -> None:
        self.folder = folder
        self.attempt = attempt
        self._events = LineWriter(folder / "events.jsonl")
        self._metrics: LineWriter | None = None
        self._progress_due = 0.0

    def event(self, event: Event) -> None:
        self._events.append(encode_event(event, time=time.time(), attempt=self.attempt))

    def metrics(self, step: int, **values: float) -> None:
        """One logged step. Keys are the metric names of ``docs/run-folder.md``."""
        if self._metrics is None:
            self._metrics = LineWriter(self.folder / "metrics.jsonl")
        self._metrics.append({"step": step, "time": time.time(), "attempt": self.attempt} | plain(values))

    def progress(self, *, force: bool = False, **values: Any) -> None:
        """Replace ``progress.json``, at most four times a second unless forced.

        It is a convenience: a disk without room or a folder that has become unwritable must not end the work.
        """
        now = time.monotonic()
        if not force and now < self._progress_due:
            return
        self._progress_due = now + 0.25
        with contextlib.suppress(OSError):
            write_json(self.folder / "progress.json", {"time": time.time(), "attempt": self.attempt} | plain(values))

    @property
    def disk_full(self) -> bool:
        return self._events.disk_full or (self._metrics is not None and self._metrics.disk_full)

    def sync(self) -> None:
        self._events.sync()
        if self._metrics is not None:
            self._metrics.sync()

    def close(self) -> None:
        self._events.close()
        if self._metrics is not None:
            self._metrics.close()
