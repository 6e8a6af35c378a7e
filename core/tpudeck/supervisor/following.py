"""What the supervisor knows of its stage: only what the stage writes into the folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tpudeck.runs.events import Event, StageStarted, decode_event
from tpudeck.runs.latest import Latest
from tpudeck.runs.lines import LineFollower, parse_lines
from tpudeck.storage import read_json

__all__ = ["Following"]

_TAIL_BYTES = 64 << 10
UNTOLD_PROMISE_S = 300.0
"""Silence that is allowed to a stage that has promised nothing: long enough to import TensorFlow on a slow disk."""


class Following:
    """Follows ``events.jsonl``, ``metrics.jsonl`` and ``progress.json``, and knows when there was last anything new."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self.latest = Latest()
        self.events: list[Event] = []
        """Of this attempt, new since the last look."""
        self.rows: list[Mapping[str, Any]] = []
        """Lines of metrics of this attempt, new since the last look."""
        self.changed = True
        self._attempt = attempt
        self._events = LineFollower(folder / "events.jsonl")
        self._metrics = LineFollower(folder / "metrics.jsonl")
        self._progress_file = folder / "progress.json"
        self._progress_seen = 0
        self._sign_of_life = time.monotonic()
        # Of a long run only the end is of interest; the first line of it may be half a line, and is skipped as such.
        self._metrics.offset = max(0, self._metrics.look() - _TAIL_BYTES)
        self.look()

    def begin_stage(self, started: StageStarted) -> None:
        """From here on everything is said by the next stage."""
        self.latest.see_event(started)
        self._sign_of_life = time.monotonic()
        self._progress_seen = 0

    def look(self) -> None:
        """Take in what is new."""
        read_before = self._events.offset + self._metrics.offset
        self._look_at_events()
        self._look_at_metrics()
        self.changed = self._events.offset + self._metrics.offset != read_before
        if self._look_at_progress():
            self.changed = True
        if self.changed:
            self._sign_of_life = time.monotonic()

    def _look_at_events(self) -> None:
        lines = [line for line in map(decode_event, self._events.rows()[0]) if line is not None]
        for line in lines:
            self.latest.see_event(line.event)
        self.events = [line.event for line in lines if line.attempt == self._attempt]

    def _look_at_metrics(self) -> None:
        self.rows = []
        for chunk in self._metrics.chunks():
            for row in parse_lines(chunk)[0]:
                self.latest.see_metrics(row)
                if row.get("attempt") == self._attempt:
                    self.rows.append(row)

    def _look_at_progress(self) -> bool:
        try:
            seen = self._progress_file.stat().st_mtime_ns
            if seen == self._progress_seen:
                return False
            progress = read_json(self._progress_file)
        except (FileNotFoundError, orjson.JSONDecodeError):
            return False
        self._progress_seen = seen
        if progress.get("attempt") == self._attempt:
            self.latest.see_progress(progress)
        return True

    @property
    def silent_s(self) -> float:
        """How long the stage has said nothing; time while the machine slept does not count."""
        return time.monotonic() - self._sign_of_life

    @property
    def promise_s(self) -> float:
        """How long it may say nothing now."""
        return self.latest.promise_s or UNTOLD_PROMISE_S
