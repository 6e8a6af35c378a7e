"""Copies of objects on this machine, under a limit.

An entry is a folder with some generations of objects, whole and checked; its name follows from theirs, so another
generation is another entry, and one that is found is never asked for again. Whoever uses an entry holds a shared lock
on its folder, which the kernel frees with the process. A new entry makes room for itself: those that were not used for
the longest time go, but never one that is held. So a run that reads more than the limit at once goes beyond it rather
than losing what it reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tpudeck.config import Home
from tpudeck.errors import DiskFullError, disk_is_full
from tpudeck.storage import bucket
from tpudeck.storage.bucket import Stored
from tpudeck.storage.settings import settings

__all__ = ["Cache", "Held"]

_WORKERS = 8
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Held:
    """An entry in use: it stays until it is released, or its process ends."""

    folder: Path
    descriptor: int

    def release(self) -> None:
        os.close(self.descriptor)


class Cache:
    """The copies below a folder."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes

    @classmethod
    def here(cls) -> Cache:
        """The one of this machine, as large as the user's settings allow."""
        home = Home.here()
        return cls(home.cache / "objects", settings(home).cache_bytes)

    def hold(self, objects: Sequence[Stored]) -> Held:
        """A folder that holds these generations under the last part of their names, fetched where it is not here yet.

        Of several that want the same entry, in this process or another, one fetches it and the others wait. An
        interrupted fetch goes on where it ended.
        """
        entry = self.folder / _key(objects)
        while (held := _lock(entry, fcntl.LOCK_SH) or self._fetch(objects, entry)) is None:
            time.sleep(_PAUSE_S)
        os.utime(entry)
        return held

    def _fetch(self, objects: Sequence[Stored], entry: Path) -> Held | None:
        """Fetch aside and rename; none where another is at it."""
        aside = entry.with_name(f".{entry.name}")
        aside.mkdir(parents=True, exist_ok=True)
        held = _lock(aside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is None:
            return None
        try:
            self._make_room(sum(stored.size_bytes for stored in objects))
            with ThreadPoolExecutor(min(_WORKERS, len(objects)), thread_name_prefix="cache") as pool:
                list(pool.map(lambda stored: _download(stored, aside), objects))
            aside.rename(entry)
            fcntl.flock(held.descriptor, fcntl.LOCK_SH)
        except BaseException as error:
            held.release()
            if isinstance(error, OSError) and disk_is_full(error):
                raise DiskFullError(
                    f"the disk is full: no room in {self.folder}",
                    hint="make room, or name a smaller cache under [storage] in config.toml",
                ) from error
            raise
        return Held(entry, held.descriptor)

    def _make_room(self, size_bytes: int) -> None:
        """Remove what was not used for the longest time until this much fits; what is held stays."""
        entries = sorted((path for path in self.folder.iterdir() if path.is_dir()), key=_used)
        sizes = {path: _size_bytes(path) for path in entries}
        total = sum(sizes.values()) + size_bytes
        for path in entries:
            if total <= self.limit_bytes:
                return
            lock = _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock is not None:
                gone = self.folder / f".gone-{secrets.token_hex(8)}"  # half an entry must not be taken for one
                path.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
                lock.release()
                total -= sizes[path]


def _key(objects: Sequence[Stored]) -> str:
    names = sorted(f"{stored.location}#{stored.generation}" for stored in objects)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def _lock(folder: Path, how: int) -> Held | None:
    """A lock on a folder that is still there when it is had; none where it is not there, or may not be waited for."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, how)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return Held(folder, descriptor)
    os.close(descriptor)
    return None


def _download(stored: Stored, folder: Path) -> None:
    path = folder / stored.location.rpartition("/")[2]
    if not path.exists():
        bucket.download(stored, path)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
