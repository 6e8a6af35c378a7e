"""One run that somebody looks at: everything there is to see of it, read as it is written."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textual.message import Message

from tpudeck.devices import Sample
from tpudeck.errors import TpudeckError
from tpudeck.runs.lines import LineFollower
from tpudeck.runs.log import tail
from tpudeck.runs.reader import RunReader
from tpudeck.runs.series import Metrics, MetricTables
from tpudeck_tui.messages import RunRead, RunVanished, Seen

__all__ = ["Followed"]

_BUDGET_S = 0.25
"""A huge run shows its tail after about that long, and fills in the rest round by round."""
_LOG_LINES = 500


class Followed:
    """Reads a run again and again, and says what is new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.complete = True
        """Whether everything was read that there was at the last look."""
        self._reader: RunReader | None = None
        self._log = _LogTail(folder)
        self._machine = _MachineLog(folder)
        self._last: Seen | None = None
        self._gone = False

    def look(self, *, anew: bool) -> Message | None:
        """What there is to say; with `anew` also where it was said before."""
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
        self._machine.read()
        seen = Seen(snapshot, self._log.read(), self._machine.newest, self._machine.utilisation)
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
        or now.machine is not before.machine
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


class _MachineLog:
    """What the sampler of a run has written: the newest look whole, of those before it what charts show."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFollower(folder / "system.jsonl")
        self._table = MetricTables()
        self.newest: Sample | None = None
        self.utilisation = Metrics()

    def read(self) -> None:
        rows: list[dict[str, Any]] = []
        for line in self._file.rows()[0]:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                sample = Sample.from_dict(line)
                rows.append(_utilisation(self._table.lines + len(rows), sample))
                self.newest = sample
        if rows:
            self._table.extend(rows, {})
            self.utilisation = self._table.view()


def _utilisation(number: int, sample: Sample) -> dict[str, Any]:
    """How busy the machine was: means over its devices, and ``READING/N`` of each."""
    return {
        "step": number,
        "time": sample.time,
        "attempt": 0,
        "TensorCore": _mean(core.tensorcore_percent for core in sample.cores),
        "duty cycle": _mean(core.duty_cycle_percent for core in sample.cores),
        "CPU": sample.host.cpu_percent if sample.host else math.nan,
        **{f"TensorCore/{core.index}": _known(core.tensorcore_percent) for core in sample.cores},
        **{f"duty cycle/{core.index}": _known(core.duty_cycle_percent) for core in sample.cores},
        **{f"memory/{core.index}": _known(core.hbm_used_bytes) for core in sample.cores},
    }


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
