"""The one thread that reads runs: files in, frozen snapshots out.

It reads only what is new, says only what changed, and waits until the console has taken in the last round before it
reads the next: a link that stalls for a minute leaves one message in the queue, not hundreds. numpy is imported here,
after the first frame, when a run is first followed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck.runs.index import RunIndex
from tpudeck.runs.lines import LineFollower
from tpudeck.runs.log import tail
from tpudeck.runs.summary import RunSummary
from tpudeck_tui.messages import LookFailed, RunRead, RunsListed, RunVanished, Seen

if TYPE_CHECKING:
    from tpudeck.devices import Sample
    from tpudeck.runs.reader import RunReader

__all__ = ["Watcher"]

_BUDGET_S = 0.25
"""A huge run shows its tail after about that long, and fills in the rest round by round."""
_SHARE = 0.1
"""At most that share of the time goes into listing runs, however many there are."""
_LOG_LINES = 500
_SAMPLES = 8640
_AFTER_FAILURE_S = 5.0
_FASTEST_S = 0.05
"""However short a time between looks is asked for."""


class Watcher:
    """Watches a home, and the runs that somebody looks at."""

    def __init__(self, home: Home, post: Callable[[Message], object], *, refresh_s: float) -> None:
        self.refresh_s = max(_FASTEST_S, refresh_s)
        self._post = post
        self._index = RunIndex(home)
        self._runs: tuple[RunSummary, ...] | None = None
        self._list_due = 0.0
        self._followed: dict[Path, _Followed] = {}
        self._wanted: frozenset[Path] = frozenset()
        self._asked = False
        """Somebody new is looking, who has seen nothing yet."""
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
        self._wanted, self._asked = frozenset(folders), True
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
            pause_s = self.refresh_s
            try:
                for message in self._round():
                    self._taken.clear()
                    self._post(message)
                if any(not run.complete for run in self._followed.values()):
                    pause_s = 0.0
            except Exception as error:  # noqa: BLE001 (a thread that dies in silence would freeze the display)
                self._post(LookFailed(f"{type(error).__name__}: {error}"))
                pause_s = _AFTER_FAILURE_S
            self._wake.wait(pause_s)
            self._wake.clear()

    def _round(self) -> Iterable[Message]:
        if (runs := self._list()) is not None:
            yield RunsListed(runs)
        self._followed = {folder: self._followed.get(folder) or _Followed(folder) for folder in self._wanted}
        asked, self._asked = self._asked, False
        for followed in self._followed.values():
            if (message := followed.look(anew=asked)) is not None:
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
        self._log = _LogTail(folder)
        self._system = _SystemLines(folder)
        self._last: Seen | None = None
        self._gone = False
        self.complete = True

    def look(self, *, anew: bool) -> Message | None:
        """What there is to say; with `anew` also where it was said before."""
        from tpudeck.runs.reader import RunReader

        try:
            if self._reader is None or not (self.folder / "run.json").is_file():
                self._reader = RunReader(self.folder)
            snapshot = self._reader.refresh(_BUDGET_S)
        except (TpudeckError, OSError) as error:
            self._reader, self._last, self.complete = None, None, True
            if self._gone and not anew:
                return None
            self._gone = True
            return RunVanished(self.folder, str(error))
        self._gone = False
        self.complete = snapshot.complete
        seen = Seen(snapshot, self._log.read(), self._system.read())
        if not anew and self._last is not None and not _differ(seen, self._last):
            return None
        self._last = seen
        return RunRead(self.folder, seen)


def _differ(now: Seen, before: Seen) -> bool:
    """Whether there is news. What nothing was added to is the same object as before."""
    one, two = now.snapshot, before.snapshot
    return (
        one.metrics is not two.metrics
        or one.events is not two.events
        or now.log is not before.log
        or now.system is not before.system
        or (one.summary, one.complete, one.loaded) != (two.summary, two.complete, two.loaded)
    )


class _LogTail:
    """The last lines of the console output; read again only when the file has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = -1
        self._lines: tuple[str, ...] = ()

    def read(self) -> tuple[str, ...]:
        try:
            size = (self._folder / "console.log").stat().st_size
        except OSError:
            size = 0
        if size != self._size:
            self._size, self._lines = size, tuple(tail(self._folder, _LOG_LINES))
        return self._lines


class _SystemLines:
    """What the sampler of a run has written: the newest few thousand looks, a day at one in ten seconds."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFollower(folder / "system.jsonl")
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self._tuple: tuple[Sample, ...] = ()

    def read(self) -> tuple[Sample, ...]:
        from tpudeck.devices import Sample

        rows, _ = self._file.rows()
        for row in rows:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                self._samples.append(Sample.from_dict(row))
        if rows:
            self._tuple = tuple(self._samples)
        return self._tuple
