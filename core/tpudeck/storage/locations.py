"""Read and list files by location: a local path, or ``gs://bucket/name``."""

from __future__ import annotations

import glob as _glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tpudeck.errors import InputError

__all__ = [
    "FileStat",
    "exists",
    "is_bucket",
    "list_files",
    "list_stats",
    "local_folder",
    "open_binary",
    "size_bytes",
    "stat",
]

GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True)
class FileStat:
    """A file as its storage describes it, without reading it."""

    location: str
    size_bytes: int
    version: int
    """Changes whenever the content does: an object's generation, a local file's time of change in nanoseconds."""


def is_bucket(location: str | Path) -> bool:
    """Whether a location is in object storage: it begins with ``gs://``, nothing less."""
    return str(location).startswith("gs://")


def local_folder(text: str) -> Path:
    """A folder of this machine to be written; :class:`InputError` for a place elsewhere, where no path leads."""
    if is_bucket(text) or text.startswith("hub:"):
        raise InputError(f"what is written first is a folder of this machine, got {text}", hint="push sends it there")
    return Path(text).expanduser().absolute()


def open_binary(location: str | Path) -> IO[bytes]:
    """Open for reading, streaming; ``FileNotFoundError`` where there is nothing.

    An object is read in ranges of the one generation that was there at the start, and one that was read from its start
    to its end without a jump is checked against its CRC32C.
    """
    if is_bucket(location):
        from tpudeck.storage.bucket import open_object

        return open_object(str(location))
    return Path(location).open("rb")


def stat(location: str | Path) -> FileStat:
    """Size and version of a file; ``FileNotFoundError`` where there is none."""
    if is_bucket(location):
        from tpudeck.storage.bucket import describe

        found = describe(str(location))
        return FileStat(found.location, found.size_bytes, found.generation)
    status = Path(location).stat()
    return FileStat(str(location), status.st_size, status.st_mtime_ns)


def size_bytes(location: str | Path) -> int:
    """Size of a file in bytes; ``FileNotFoundError`` where there is none."""
    return stat(location).size_bytes


def exists(location: str | Path) -> bool:
    """Whether there is a file (or, locally, a folder) at this location."""
    try:
        stat(location)
    except FileNotFoundError:
        return False
    return True


def list_files(location: str | Path) -> Iterator[str]:
    """The files a location names, sorted by name: itself, all below a folder, or all that match a glob.

    Hidden files and folders (a leading dot) are left out, as a shell does. A bucket is listed page by page, as the
    caller goes on.
    """
    if is_bucket(location):
        yield from (found.location for found in list_stats(location))
    else:
        yield from _list_local(str(location))


def list_stats(location: str | Path) -> Iterator[FileStat]:
    """:func:`list_files` with sizes and versions, which a bucket's listing gives away."""
    if is_bucket(location):
        from tpudeck.storage.bucket import match

        for found in match(str(location)):
            yield FileStat(found.location, found.size_bytes, found.generation)
    else:
        yield from map(stat, _list_local(str(location)))


def _list_local(text: str) -> Iterator[str]:
    path = Path(text).expanduser()
    if path.is_dir():
        found = (Path(root) / name for root, _, names in _walk_visible(path) for name in names)
        yield from sorted(map(str, found))
    elif path.exists():
        yield str(path)
    elif GLOB_CHARACTERS & set(text):
        matches = _glob.iglob(str(path), recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
        yield from sorted(name for name in matches if Path(name).is_file())


def _walk_visible(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield root, folders, [name for name in names if not name.startswith(".")]
