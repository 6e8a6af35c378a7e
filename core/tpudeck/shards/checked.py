"""A set that is found ready is read whole before a run begins with it.

Training checks every record that it takes; but damage that is met in the tenth hour costs the work since the last
checkpoint, and finding it now takes about a second per gigabyte. What was read is remembered by each file's size and
time of change, so that it is read once.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tpudeck.errors import ArtefactError
from tpudeck.shards.ledger import file_crc32c
from tpudeck.storage import read_json, write_json
from tpudeck.tfrecord import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpudeck.config import Home
    from tpudeck.shards.build import Reporter
    from tpudeck.shards.manifest import Manifest
    from tpudeck.shards.sets import ShardSet

__all__ = ["check_once", "remember"]

Stamps = dict[str, list[int]]
"""File → size in bytes, and time of change in nanoseconds."""


def check_once(shards: ShardSet, home: Home, reporter: Reporter) -> None:
    """Compare each file that is new here, or has changed, with its checksum in the manifest.

    Raises :class:`ArtefactError` with the file and, where it can be told, the offset of the damage.
    """
    if shards.manifest is None:
        return
    known, found = _known(_note(shards, home)), _stamps(shards)
    unread = {name: crc for name, crc in _checksums(shards.manifest).items() if known.get(name) != found[name]}
    for done, (name, crc32c) in enumerate(unread.items()):
        reporter.check_stop()
        reporter.progress(done, len(unread), "files", phase="checking")
        if file_crc32c(shards.folder / name) != crc32c:
            raise _damaged(shards.folder / name, shards.folder)
    if unread:
        _write(_note(shards, home), found)


def remember(shards: ShardSet, home: Home) -> None:
    """Note that the files are what the manifest says: they were just written."""
    _write(_note(shards, home), _stamps(shards))


def _checksums(manifest: Manifest) -> dict[str, int]:
    return {file.name: file.crc32c for split in manifest.splits.values() for file in split.files}


def _stamps(shards: ShardSet) -> Stamps:
    names = _checksums(shards.manifest) if shards.manifest else {}
    stats = {name: (shards.folder / name).stat() for name in names}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _note(shards: ShardSet, home: Home) -> Path:
    """Where it is noted for this set in this place."""
    content = shards.manifest.hash if shards.manifest else ""
    name = hashlib.sha256(f"{content} {shards.folder.absolute()}".encode()).hexdigest()[:32]
    return home.cache / "checked" / f"{name}.json"


def _known(note: Path) -> Mapping[str, list[int]]:
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        noted = read_json(note)
        return noted if isinstance(noted, dict) else {}
    return {}


def _write(note: Path, stamps: Stamps) -> None:
    with contextlib.suppress(OSError):  # no loss but of time
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, stamps)


def _damaged(path: Path, folder: Path) -> ArtefactError:
    """What is wrong with a file that has another checksum than it should."""
    hint = f"restore it, or remove {folder}: the next run makes the same files again"
    try:
        for _ in read_records(path):
            pass
    except ArtefactError as error:
        return ArtefactError(error.message, hint=hint)
    return ArtefactError(f"{path} is whole, but not the file that the manifest describes (CRC-32C differs)", hint=hint)
