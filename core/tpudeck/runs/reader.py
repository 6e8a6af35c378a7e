"""One run, read by anybody, any number of times, without ever reading a line twice.

:meth:`RunReader.refresh` takes in what is new and returns an immutable snapshot. Nothing it does can disturb the run.
A huge run is opened tail first: with a time budget the first snapshot shows the newest points, and the following ones
fill in the rest; without one, ``refresh`` returns when everything is read.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpudeck.errors import ArtefactError
from tpudeck.runs import cache
from tpudeck.runs.events import AttemptStarted, EventLine, decode_event
from tpudeck.runs.latest import Latest
from tpudeck.runs.lines import LineFollower, parse_lines
from tpudeck.runs.series import Metrics, MetricTables, count_lines
from tpudeck.runs.status import ENDED
from tpudeck.runs.summary import RunFiles, RunSummary, summarise

__all__ = ["RunReader", "RunSnapshot"]

_TAIL_BYTES = 1 << 20
_HUGE_BYTES = 8 << 20
"""More unread metrics than this are shown tail first."""
_CACHE_FROM_BYTES = 16 << 20
"""Smaller files are read faster than a copy would be worth."""


@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """A run as it was at one moment."""

    summary: RunSummary
    metrics: Metrics
    events: tuple[EventLine, ...]
    """Of the stages and of the supervisor, in their order."""
    complete: bool
    """Whether `metrics` holds all there is, or only the newest of a huge run that is still being read."""
    loaded: float
    """Share of the metrics that was read, 0 to 1."""
    bad_lines: int
    """Lines that were torn or garbage."""


class _Events:
    """The events of both writers, merged, and what follows from them."""

    def __init__(self, folder: Path) -> None:
        self._files = [LineFollower(folder / "events.jsonl"), LineFollower(folder / "supervisor.jsonl")]
        self.tuple: tuple[EventLine, ...] = ()
        self.resumed_at: dict[int, int] = {}
        self.bad = 0

    def refresh(self) -> None:
        new: list[EventLine] = []
        for file in self._files:
            rows, bad = file.rows()
            self.bad += bad
            new += [line for line in map(decode_event, rows) if line is not None]
        if not new:
            return
        for line in new:
            if isinstance(line.event, AttemptStarted):
                self.resumed_at[line.attempt] = line.event.resume_from_step
        # What was handed out keeps its place, so that a front end can go on from where it was.
        new.sort(key=lambda line: (line.attempt, line.time))
        self.tuple = (*self.tuple, *new)


class _MetricsFile:
    """``metrics.jsonl``, parsed as far as it was read."""

    def __init__(self, path: Path, events: _Events) -> None:
        self._events = events
        self._file = LineFollower(path)
        self._tables = MetricTables()
        self._cached_bytes = 0
        self.bad = 0
        self.view = Metrics()
        self.tail: Metrics | None = None
        if (copy := cache.load(path)) is not None:
            self._tables, self._file.offset, self.bad = copy
            self._cached_bytes = self._file.offset
            self.view = self._tables.view()

    @property
    def last_row(self) -> Mapping[str, Any]:
        return self._tables.last_row

    @property
    def loaded(self) -> float:
        return self._file.offset / self._file.size if self._file.size else 1.0

    def refresh(self, budget_s: float | None) -> bool:
        """Read what is new, for about `budget_s`; whether everything is read."""
        restarts, offset = self._file.restarts, self._file.offset
        waiting = self._file.look()
        if self._file.restarts != restarts:
            self._tables, self.bad, self.tail = MetricTables(), 0, None
        if budget_s is not None and waiting > _HUGE_BYTES and self.tail is None:
            self.tail = self._read_tail()
            return False
        deadline = None if budget_s is None else time.monotonic() + budget_s
        with _collector_paused(waiting > _HUGE_BYTES):
            for chunk in self._file.chunks():
                self._take(chunk)
                if deadline is not None and time.monotonic() > deadline and self.loaded < 1:
                    return False
        self.tail = None
        if self._file.offset != offset or self._file.restarts != restarts:
            self.view = self._tables.view()
            self._save_copy()
        return True

    def _take(self, chunk: bytes) -> None:
        rows, bad = parse_lines(chunk, count=count_lines(chunk))
        if rows and rows[-1].get("attempt") != self._tables.attempt:
            # Whoever wrote these lines said before them where its attempt resumed: look for that after them.
            self._events.refresh()
        self.bad += bad + self._tables.extend(rows, self._events.resumed_at)
        if self._file.offset == len(chunk):
            self._tables.expect(self.loaded)

    def _read_tail(self) -> Metrics:
        tail = LineFollower(self._file.path, offset=max(0, self._file.size - _TAIL_BYTES))
        tables = MetricTables()
        begun_in_the_middle = tail.offset > 0
        for chunk in tail.chunks():
            rows, _ = parse_lines(chunk.partition(b"\n")[2] if begun_in_the_middle else chunk)
            tables.extend(rows, self._events.resumed_at)
            begun_in_the_middle = False
        return tables.view()

    def _save_copy(self) -> None:
        if self._file.offset - self._cached_bytes > max(_CACHE_FROM_BYTES, self._cached_bytes // 4):
            cache.save(self._file.path, self._tables, covered_bytes=self._file.offset, bad=self.bad)
            self._cached_bytes = self._file.offset


@contextlib.contextmanager
def _collector_paused(pause: bool) -> Iterator[None]:
    """Millions of small dictionaries come and go here, none in a cycle: the collector would search in vain."""
    paused = pause and gc.isenabled()
    if paused:
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


class RunReader:
    """Reads a run folder again and again, each time only what is new."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        if not (self.folder / "run.json").is_file():
            raise ArtefactError(f"a run folder has a run.json, and {self.folder} has none")
        self._events = _Events(self.folder)
        self._metrics = _MetricsFile(self.folder / "metrics.jsonl", self._events)
        self._files: RunFiles | None = None

    def refresh(self, budget_s: float | None = None) -> RunSnapshot:
        """The run as it is now."""
        complete = self._metrics.refresh(budget_s)
        self._events.refresh()
        self._files = RunFiles.read(self.folder, run=self._files.run if self._files else None)
        return RunSnapshot(
            summary=summarise(self.folder, self._files, self._latest(self._files)),
            metrics=self._metrics.tail or self._metrics.view,
            events=self._events.tuple,
            complete=complete,
            loaded=self._metrics.loaded,
            bad_lines=self._metrics.bad + self._events.bad,
        )

    def _latest(self, files: RunFiles) -> Latest:
        """The newest numbers, from the files themselves: what the supervisor wrote down may be seconds old."""
        written = files.latest()
        latest = Latest(total_steps=written.total_steps)
        row = self._metrics.last_row
        for line in self._events.tuple:
            if row and line.attempt > row["attempt"]:
                latest.see_metrics(row)
                row = {}
            latest.see_event(line.event)
        latest.see_metrics(row)
        latest.done, latest.total, latest.unit = written.done, written.total, written.unit
        if files.progress.get("attempt") == files.status.get("attempt"):
            latest.see_progress(files.progress)
        elif files.status.get("status") in ENDED and written.step is not None:
            latest.step = max(latest.step or 0, written.step)  # steps done since the last line of metrics
        return latest
