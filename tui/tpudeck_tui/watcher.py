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
from tpudeck.runs.index import RunIndex
from tpudeck.runs.summary import RunSummary
from tpudeck_tui.messages import LookFailed, RunsListed

if TYPE_CHECKING:
    from tpudeck_tui.followed import Followed

__all__ = ["Watcher"]

_SCREENFUL = 60
_SHARE = 0.02
"""At most that share of the time goes into listing runs, however many there are."""
_THOROUGH_EVERY_S = 5.0
"""How soon it is seen that somebody else tagged or archived a run that has ended."""
_AFTER_FAILURE_S = 5.0
_FASTEST_S = 0.05
_SLOWEST_S = 3600.0
"""Between two looks, whatever is asked for."""


class Watcher:
    """Watches a home, and the runs that somebody looks at."""

    def __init__(self, home: Home, post: Callable[[Message], object], *, refresh_s: float) -> None:
        self.refresh_s = min(_SLOWEST_S, max(_FASTEST_S, refresh_s))
        self._post = post
        self._index = RunIndex(home)
        self._runs: tuple[RunSummary, ...] | None = None
        self._list_due = self._thorough_due = 0.0
        self._followed: dict[Path, Followed] = {}
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
        self._list_due = self._thorough_due = 0.0
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
        if self._runs is None:
            yield RunsListed(tuple(self._index.newest(_SCREENFUL)))
        if (runs := self._list()) is not None:
            yield RunsListed(runs)
        self._followed = {folder: self._followed.get(folder) or _follow(folder) for folder in self._wanted}
        asked, self._asked = self._asked, False
        for followed in self._followed.values():
            if (message := followed.look(anew=asked)) is not None:
                yield message

    def _list(self) -> tuple[RunSummary, ...] | None:
        """The runs, where they differ from the last time."""
        started = time.monotonic()
        if started < self._list_due:
            return None
        thorough = started >= self._thorough_due
        runs = tuple(self._index.refresh(thorough=thorough))
        now = time.monotonic()
        rest_s = (now - started) / _SHARE
        if thorough:
            self._thorough_due = now + max(_THOROUGH_EVERY_S, rest_s)
        self._list_due = now + (self.refresh_s if thorough else max(self.refresh_s, rest_s))
        if runs == self._runs:
            return None
        self._runs = runs
        return runs


def _follow(folder: Path) -> Followed:
    from tpudeck_tui.followed import Followed

    return Followed(folder)
