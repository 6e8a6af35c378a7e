"""One device, many runs: who has it, who waits for it, in which order.

Every waiting run has its own supervisor, which holds a *ticket*: a locked file in the queue of the device. The first of
the live tickets takes the device's lock as soon as it is free, whoever freed it and however. Tickets are in order of
priority, then of time. A ticket whose lock is free belongs to a supervisor that died waiting: whoever sees it first
starts that run again, in its old place.

The locks are the machine's, not a home's: they lie in ``TPUDECK_LOCKS``, by default a folder that all users share.
A device is ``cpu``, ``gpu``, ``tpu``, or ``tpu-NAME`` for a node elsewhere (``device_key`` in ``run.json``), so runs on
the CPU don't hold up the TPU's.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tpudeck import launch
from tpudeck.errors import TpudeckError
from tpudeck.runs import locks
from tpudeck.runs.meta import read_meta
from tpudeck.runs.summary import RunFiles
from tpudeck.storage import read_json

__all__ = ["Entry", "Ticket", "devices", "entries", "heal", "holder", "take", "waiting"]


@dataclass(frozen=True)
class Entry:
    """A run in the queue of a device."""

    device: str
    folder: Path
    priority: int
    since: float
    """Seconds since the epoch."""
    ticket: Path

    @property
    def order(self) -> tuple[int, float, str]:
        return -self.priority, self.since, self.folder.name


def entries(device: str) -> list[Entry]:
    """Who waits for a device, the next one first. Runs whose supervisor died waiting are among them."""
    found = []
    for path in (locks.machine_folder() / f"{device}.queue").glob("[!.]*.json"):
        with contextlib.suppress(OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            data = read_json(path)
            folder = Path(data["folder"])
            priority = int(read_meta(folder).get("priority") or 0)
            found.append(Entry(device, folder, priority, float(data["since"]), path))
    return sorted(found, key=lambda entry: entry.order)


def devices() -> list[str]:
    """Every device that somebody has waited for."""
    return sorted(path.name.removesuffix(".queue") for path in locks.machine_folder().glob("*.queue"))


def holder(device: str) -> str:
    """Which run, or other process, has a device, for people to read; empty where it is free."""
    path = locks.machine_folder() / f"{device}.lock"
    if not locks.held(path):
        return _stranger(device)
    try:
        return str(read_json(path)["run"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return "another run"


def _stranger(device: str) -> str:
    """A process that has this machine's TPU without its lock: two on one chip would end both."""
    if device != "tpu":
        return ""
    from tpudeck.doctor import tpu_holders

    holders = tpu_holders()
    return f"process {holders[0].pid}: {holders[0].command}" if holders else ""


class Ticket:
    """A place in the queue of a device, held by the supervisor of the run that waits."""

    def __init__(self, device: str, folder: Path, entry: Path, since: float) -> None:
        self.device = device
        self.folder = folder
        self.since = since
        self._entry = entry
        self.evidence = ""
        """What the run waits for."""

    def try_to_take(self) -> int | None:
        """The device, where it is free and this run's turn: the descriptor of its lock."""
        ahead = [entry for entry in self._ahead() if locks.held(entry.ticket)]
        if ahead:
            self.evidence = f"behind {ahead[-1].folder.name} for {self.device}"
            return None
        lock = take(self.device, self.folder)
        if lock is None:
            self.evidence = f"{self.device} is used by {holder(self.device) or 'another run'}"
        return lock

    def _ahead(self) -> Iterator[Entry]:
        for entry in entries(self.device):
            if entry.ticket == self._entry:
                return
            yield entry


def take(device: str, folder: Path) -> int | None:
    """A device for a run, where it is free."""
    lock = locks.acquire(locks.machine_folder() / f"{device}.lock", mode=0o666, tries=1)
    if lock is not None and _stranger(device):
        locks.release(lock)
        return None
    if lock is not None:
        os.truncate(lock, 0)
        os.pwrite(lock, orjson.dumps({"run": folder.name, "folder": str(folder), "process": os.getpid()}), 0)
    return lock


@contextlib.contextmanager
def waiting(device: str, folder: Path, *, since: float | None = None) -> Iterator[Ticket]:
    """A place in the queue, for as long as the block lasts."""
    queue = locks.machine_folder() / f"{device}.queue"
    locks.make_shared(queue)
    since = time.time() if since is None else since
    path = queue / f"{folder.name}-{os.getuid()}.json"
    # Locked before it is seen, so that a visible ticket without a lock is a dead one.
    aside = queue / f".{path.name}.{os.getpid()}"
    lock = locks.acquire(aside)
    assert lock is not None, "nobody else knows of this file"
    os.pwrite(lock, orjson.dumps({"folder": str(folder), "since": since}), 0)
    aside.replace(path)
    try:
        yield Ticket(device, folder, path, since)
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        locks.release(lock)


def heal(device: str) -> None:
    """Start the runs again whose supervisors died waiting; throw away tickets that mean nothing any more."""
    for entry in entries(device):
        try:
            if locks.held(entry.ticket) or entry.ticket.stat().st_uid != os.getuid():
                continue
            died_waiting = RunFiles.read(entry.folder).status.get("status") == "queued"
            if died_waiting:
                launch.start(entry.folder)
            else:
                entry.ticket.unlink()
        except (OSError, TpudeckError):
            continue  # somebody else was faster, or the run is gone
