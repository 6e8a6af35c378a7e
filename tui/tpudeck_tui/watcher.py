"""The one thread that reads runs: files in, frozen snapshots out.

It reads only what is new, says only what changed, and waits until the console has taken in the last round before it
reads the next: a link that stalls for a minute leaves one message in the queue, not hundreds. numpy is imported here,
after the first frame, when a run is first followed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck.runs.index import RunIndex
from tpudeck.runs.log import tail
from tpudeck.runs.summary import RunSummary
from tpudeck_tui.messages import RunRead, RunsListed, RunVanished

if TYPE_CHECKING:
    from tpudeck.runs.reader import RunReader, RunSnapshot

__all__ = ["Watcher"]

_BUDGET_S = 0.25
"""A huge run shows its tail after about that long, and fills in the rest round by round."""
_SHARE = 0.1
"""At most that share of the time goes into listing runs, however many there are."""
_LOG_LINES = 500


class Watcher:
    """Watches a home, and the runs that somebody looks at."""

    def __init__(self, home: Home, post: Callable[[Message], object], *, refresh_s: float) -> None:
        self.refresh_s = refresh_s
        self._post = post
        self._index = RunIndex(home)
        self._runs: tuple[RunSummary, ...] | None = None
        self._list_due = 0.0
        self._followed: dict[Path, _Followed] = {}
        self._wanted: frozenset[Path] = frozenset()
        self._taken = threading.Event()
        self._taken.set()
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread ends after its present round; it holds nothing that must be given back."""
        self._stopped = True
        self._taken.set()
        self._wake.set()

    def follow(self, folders: Iterable[Path]) -> None:
        """From now on read these runs, and no others, in full."""
        self._wanted = frozenset(folders)
        self.look_now()

    def look_now(self) -> None:
        """Don't wait for the next round: something was just changed."""
        self._list_due = 0.0
        self._wake.set()

    def taken(self) -> None:
        """The console has taken in what was posted."""
        self._taken.set()

    def _watch(self) -> None:
        while not self._stopped:
            self._taken.wait()
            for message in self._round():
                self._taken.clear()
                self._post(message)
            pause_s = 0.0 if any(not run.complete for run in self._followed.values()) else self.refresh_s
            self._wake.wait(pause_s)
            self._wake.clear()

    def _round(self) -> Iterable[Message]:
        if (runs := self._list()) is not None:
            yield RunsListed(runs)
        self._followed = {folder: self._followed.get(folder) or _Followed(folder) for folder in self._wanted}
        for followed in self._followed.values():
            if (message := followed.look()) is not None:
                yield message

    def _list(self) -> tuple[RunSummary, ...] | None:
        """The runs, where they differ from the last time."""
        started = time.monotonic()
        if started < self._list_due:
            return None
        runs = tuple(self._index.refresh())
        now = time.monotonic()
        self._list_due = now + max(self.refresh_s, (now - started) / _SHARE)
        if runs == self._runs:
            return None
        self._runs = runs
        return runs


class _Followed:
    """One run that is read in full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader: RunReader | None = None
        self._last: tuple[object, ...] = ()
        self._gone = False
        self.complete = True

    def look(self) -> Message | None:
        from tpudeck.runs.reader import RunReader

        try:
            if self._reader is None or not (self.folder / "run.json").is_file():
                self._reader = RunReader(self.folder)
            snapshot = self._reader.refresh(_BUDGET_S)
        except (TpudeckError, OSError) as error:
            self._reader, self._last, self.complete = None, (), True
            if self._gone:
                return None
            self._gone = True
            return RunVanished(self.folder, str(error))
        self._gone = False
        self.complete = snapshot.complete
        log = tuple(tail(self.folder, _LOG_LINES))
        if (state := _state_of(snapshot, log)) == self._last:
            return None
        self._last = state
        return RunRead(self.folder, snapshot, log)


def _state_of(snapshot: RunSnapshot, log: tuple[str, ...]) -> tuple[object, ...]:
    """What has to differ for a snapshot to be news. Metrics are the same object for as long as nothing was added."""
    return snapshot.summary, id(snapshot.metrics), len(snapshot.events), snapshot.complete, snapshot.loaded, log
