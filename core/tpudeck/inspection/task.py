"""Statistics as tasks of a child process, kept by content: what was inspected once is known at once.

A kept result is named by what was looked at (hashes, never paths) and by the version of the statistics; it is a cache
and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.config import Home
from tpudeck.inspection.shards import inspect_shards
from tpudeck.shards import ShardSet, open_set
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    from tpudeck.jobs import Job

__all__ = ["known_shards", "shards_task"]

_VERSION = 1
"""Goes up when statistics change."""


def shards_task(job: Job) -> dict[str, Any]:
    """``inspect-shards``: the request names the folder (``shards``)."""
    shards = open_set(job.request()["shards"])

    def on_sequences(done: int, total: int) -> None:
        job.check_stop()
        job.progress(done, total, "sequences")

    return _kept(job.home, _shards_identity(shards), lambda: inspect_shards(shards, on_sequences)) | {
        "folder": str(shards.folder)
    }


def known_shards(home: Home, folder: Path) -> dict[str, Any] | None:
    """The statistics of a set that was inspected before, at once."""
    shards = open_set(folder)
    found = _find(home, _shards_identity(shards))
    return found | {"folder": str(folder)} if found else None


def _shards_identity(shards: ShardSet) -> dict[str, Any]:
    if shards.manifest:
        return {"shards": shards.manifest.hash}
    files = [path for split in shards.splits for path in shards.split(split).files]
    return {"files": [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]}


def _kept(home: Home, identity: Mapping[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result found under its identity, or computed and kept."""
    if found := _find(home, identity):
        return found | {"cached": True}
    result = compute()
    path = _path(home, identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    return result | {"cached": False}


def _find(home: Home, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return dict(read_json(_path(home, identity)))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None


def _path(home: Home, identity: Mapping[str, Any]) -> Path:
    name = hashlib.sha256(orjson.dumps({"version": _VERSION, **identity}, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return home.cache / "inspection" / f"{name[:32]}.json"
