"""Folders to and from a bucket, each as a whole: a tokenizer, shards, an export, a finished run.

A folder becomes one object per file and, last of all, ``.contents.json`` with the size and CRC32C of each. Without that
list a set is not there; with it, every object must match it. So a half-uploaded set is never taken for whole, an
interrupted push goes on with what is missing, and a pull that was cut short goes on where it ended.

A set that is replaced loses its list first, and gets the new one last.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from tpudeck.errors import ArtefactError, InputError, RetryLaterError
from tpudeck.storage import bucket
from tpudeck.storage.bucket import Stored
from tpudeck.units import format_duration

__all__ = ["CONTENTS", "Entry", "Progress", "Transfer", "contents_of", "pull", "push", "read_contents", "remove"]

CONTENTS = ".contents.json"
_FORMAT_VERSION = 1
_WORKERS = 8


@dataclass(frozen=True)
class Entry:
    """One file of a set."""

    size_bytes: int
    crc32c: str


@dataclass(frozen=True)
class Progress:
    """How far a transfer is; what was there already counts as done."""

    files: int
    total_files: int
    bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Transfer:
    """What a push or pull did."""

    location: str
    folder: Path
    files: int
    size_bytes: int
    sent_files: int
    sent_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in vars(self).items()}


def push(
    folder: Path,
    location: str,
    *,
    without: frozenset[str] = frozenset(),
    deadline_s: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Transfer:
    """Make the set at a location equal to a folder. Hidden files, locks and those `without` stay at home.

    Raises :class:`RetryLaterError` where the bucket cannot be reached or the deadline passes; the same call goes on.
    """
    location = location.rstrip("/")
    contents = {path: entry for path, entry in contents_of(folder).items() if path not in without}
    if not contents:
        raise InputError(f"{folder} holds no files to push")
    there = {stored.location: stored for stored in bucket.scan(f"{location}/")}
    listed = there.get(f"{location}/{CONTENTS}")
    before = _read_list(listed) if listed else {}
    missing = {path: entry for path, entry in contents.items() if not _matches(there.get(f"{location}/{path}"), entry)}
    if listed and (missing or before != contents):
        bucket.remove(listed)
        listed = None

    def upload(path: str, entry: Entry) -> None:
        old = there.get(f"{location}/{path}")
        bucket.upload(
            folder / path, f"{location}/{path}", crc32c=entry.crc32c, replaces=old.generation if old else 0
        )  # fmt: skip

    _each(missing, contents, upload, deadline_s, on_progress)
    if listed is None:
        bucket.write_bytes(f"{location}/{CONTENTS}", _encode(contents))
        _remove(there[f"{location}/{path}"] for path in before.keys() - contents if f"{location}/{path}" in there)
    return _transfer(location, folder, contents, missing)


def pull(
    location: str,
    folder: Path,
    *,
    deadline_s: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Transfer:
    """Bring a set to a local folder, which appears when it is complete.

    Raises :class:`ArtefactError` where the set is not whole, :class:`InputError` where the folder holds something else.
    """
    location = location.rstrip("/")
    contents, stored = _whole(location)
    if folder.exists() and any(folder.iterdir()):
        if contents_of(folder) == contents:
            return _transfer(location, folder, contents, {})
        raise InputError(f"{folder} exists and is not what is at {location}", hint="name another folder, or move it")
    aside = folder.with_name(f".{folder.name}.pull")
    aside.mkdir(parents=True, exist_ok=True)
    here = contents_of(aside)
    missing = {path: entry for path, entry in contents.items() if here.get(path) != entry}

    def download(path: str, entry: Entry) -> None:
        target = aside / path
        target.parent.mkdir(parents=True, exist_ok=True)
        bucket.download(stored[path], target)

    _each(missing, contents, download, deadline_s, on_progress)
    for path in here.keys() - contents:
        (aside / path).unlink()
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    aside.replace(folder)
    return _transfer(location, folder, contents, missing)


def remove(location: str) -> None:
    """Delete a set: its list first, so that it is never half a set that looks whole."""
    listed = f"{location.rstrip('/')}/{CONTENTS}"
    found = list(bucket.scan(f"{location.rstrip('/')}/"))
    _remove(sorted(found, key=lambda stored: stored.location != listed))


def contents_of(folder: Path) -> dict[str, Entry]:
    """The files of a local folder by relative path; hidden ones and locks left out."""
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root) / name
            if not name.startswith(".") and path.suffix != ".lock" and path.is_file():
                entry = Entry(path.stat().st_size, bucket.checksum(path))
                found[path.relative_to(folder).as_posix()] = entry
    return found


def read_contents(location: str) -> dict[str, Entry]:
    """What a whole set holds; :class:`ArtefactError` where the set is missing, half-uploaded or damaged."""
    return _whole(location.rstrip("/"))[0]


def _whole(location: str) -> tuple[dict[str, Entry], dict[str, Stored]]:
    there = {stored.location.removeprefix(f"{location}/"): stored for stored in bucket.scan(f"{location}/")}
    listed = there.pop(CONTENTS, None)
    if listed is None:
        if not there:
            raise ArtefactError(f"there is nothing at {location}")
        raise ArtefactError(
            f"{location} is not whole: {len(there)} objects, and no list of what it should hold",
            hint="its upload was interrupted; the same push goes on where it ended",
        )
    contents = _read_list(listed)
    for path, entry in contents.items():
        if not _matches(there.get(path), entry):
            what = "is missing" if path not in there else "is not what the set's list says"
            raise ArtefactError(f"{location}: {path} {what}", hint="push it again")
    return contents, {path: there[path] for path in contents}


def _matches(stored: Stored | None, entry: Entry) -> bool:
    return stored is not None and (stored.size_bytes, stored.crc32c) == (entry.size_bytes, entry.crc32c)


def _encode(contents: Mapping[str, Entry]) -> bytes:
    files = [{"path": path, "size_bytes": entry.size_bytes, "crc32c": entry.crc32c} for path, entry in contents.items()]
    return orjson.dumps({"format_version": _FORMAT_VERSION, "files": files}, option=orjson.OPT_INDENT_2) + b"\n"


def _read_list(listed: Stored) -> dict[str, Entry]:
    try:
        data = orjson.loads(bucket.read_bytes(listed.location))
        if data["format_version"] != _FORMAT_VERSION:
            raise ArtefactError(f"{listed.location} was written by another version of tpudeck", hint="upgrade tpudeck")
        return {_safe(item["path"]): Entry(int(item["size_bytes"]), str(item["crc32c"])) for item in data["files"]}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{listed.location} is not the list of a set: {error}") from error


def _safe(path: str) -> str:
    """A relative path that stays below its folder: the list comes from outside."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path:
        raise ValueError(f"a path is relative and stays in its folder, got {path!r}")
    return path


def _each(
    missing: Mapping[str, Entry],
    contents: Mapping[str, Entry],
    work: Callable[[str, Entry], None],
    deadline_s: float | None,
    on_progress: Callable[[Progress], None],
) -> None:
    """Do the work for every missing file, several at a time; the first error ends it and is raised."""
    end = None if deadline_s is None else time.monotonic() + deadline_s
    total_bytes = sum(entry.size_bytes for entry in contents.values())
    left = dict(missing)

    def in_time(path: str, entry: Entry) -> None:
        if end is not None and time.monotonic() > end:
            raise RetryLaterError(
                f"{len(left)} of {len(contents)} files are left after {format_duration(deadline_s or 0)}",
                hint="the same command goes on where this one ended",
            )
        work(path, entry)

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="transfer") as pool:
        running = {pool.submit(in_time, path, entry): path for path, entry in missing.items()}
        try:
            while running:
                done, _ = wait(running, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                    del left[running.pop(future)]
                left_bytes = sum(entry.size_bytes for entry in left.values())
                on_progress(Progress(len(contents) - len(left), len(contents), total_bytes - left_bytes, total_bytes))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _remove(stale: Iterable[Stored]) -> None:
    for stored in stale:
        bucket.remove(stored)


def _transfer(location: str, folder: Path, contents: Mapping[str, Entry], sent: Mapping[str, Entry]) -> Transfer:
    return Transfer(
        location,
        folder,
        len(contents),
        sum(entry.size_bytes for entry in contents.values()),
        len(sent),
        sum(entry.size_bytes for entry in sent.values()),
    )
