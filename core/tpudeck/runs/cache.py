"""A parsed copy of a large ``metrics.jsonl`` beside it: a million points open in milliseconds.

``.cache/metrics.json`` says what the copy covers (how many bytes, and a digest of their first and last kilobytes), and
``.cache/metrics-BYTES.words`` holds the tables one after another as 8-byte words, mapped into memory rather than read.
Both can be deleted at any time; a copy that doesn't belong to the file is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from tpudeck.runs.series import MetricTables, Table
from tpudeck.storage import read_json, write_json

__all__ = ["load", "save"]

_VERSION = 1
_PROBE_BYTES = 4096
_MOST_TABLES = 64

Words: TypeAlias = npt.NDArray[np.int64]


def _digest(path: Path, length: int) -> str:
    """Identifies the first `length` bytes of an append-only file without reading them all."""
    with path.open("rb") as file:
        head = file.read(min(_PROBE_BYTES, length))
        file.seek(max(0, length - _PROBE_BYTES))
        tail = file.read(min(_PROBE_BYTES, length))
    return hashlib.sha256(head + tail + str(length).encode()).hexdigest()


def load(path: Path) -> tuple[MetricTables, int, int] | None:
    """The tables of a metrics file, how many of its bytes they cover, and the bad lines among them."""
    folder = path.parent / ".cache"
    try:
        manifest = read_json(folder / "metrics.json")
        if manifest["version"] != _VERSION or manifest["digest"] != _digest(path, manifest["bytes"]):
            return None
        words: Words = np.memmap(folder / f"metrics-{manifest['bytes']}.words", np.int64, mode="r")
        return _unpack(manifest, words), int(manifest["bytes"]), int(manifest["bad"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def save(path: Path, metrics: MetricTables, *, covered_bytes: int, bad: int) -> None:
    """Write the copy, in the background; where the folder cannot be written there is none, and nothing is lost."""
    if len(metrics.tables) > _MOST_TABLES:
        return
    pieces = [(table.names, [table.rows(), *table.superseded]) for table in metrics.tables.values()]
    manifest = {
        "version": _VERSION,
        "bytes": covered_bytes,
        "digest": _digest(path, covered_bytes),
        "bad": bad,
        "attempt": metrics.attempt,
        "last_step": metrics.last_step,
        "lines": metrics.lines,
        "last_row": metrics.last_row,
        "tables": [{"names": names, "rows": [len(step) for step, _ in parts]} for names, parts in pieces],
    }
    arrays = [array for _, parts in pieces for step, columns in parts for array in (step, *columns)]
    threading.Thread(target=_write, args=(path.parent / ".cache", manifest, arrays), name="metrics-copy").start()


def _write(folder: Path, manifest: dict[str, Any], arrays: list[npt.NDArray[Any]]) -> None:
    data = folder / f"metrics-{manifest['bytes']}.words"
    aside = folder / f".{os.getpid()}.words"
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        with aside.open("wb") as file:
            for array in arrays:
                file.write(array.data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(data)
        write_json(folder / "metrics.json", manifest)
        for old in folder.glob("metrics-*.words"):
            if old != data:
                old.unlink()


def _unpack(manifest: dict[str, Any], words: Words) -> MetricTables:
    metrics = MetricTables()
    metrics.attempt, metrics.last_step = manifest["attempt"], manifest["last_step"]
    metrics.lines, metrics.last_row = manifest["lines"], manifest["last_row"]
    position = 0

    def take(count: int) -> Words:
        nonlocal position
        if position + count > len(words):
            raise ValueError("the copy is shorter than it should be")
        position += count
        return words[position - count : position]

    for entry in manifest["tables"]:
        names = tuple(entry["names"])
        pieces = []
        for rows in entry["rows"]:
            step = take(rows)
            pieces.append((step, take(rows * (1 + len(names))).view(np.float64).reshape(-1, rows)))
        table = Table(names, step=pieces[0][0], columns=pieces[0][1])
        table.superseded = pieces[1:]
        metrics.tables[names] = table
    return metrics
