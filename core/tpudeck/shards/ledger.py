"""What a build has finished so far, so that it can go on after anything: a kill, a full disk, Ctrl-C.

One line of JSON per finished shard, flushed to the disk after the shard itself. A shard ends at a fixed place of the
token stream, and the line says how many documents were completely in it and before it; the stream is a pure function of
corpus and tokenizer, so that is all a build needs to go on with the same bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import orjson

from tpudeck.errors import ArtefactError
from tpudeck.shards.manifest import ShardFile, SplitSummary, Tally
from tpudeck.storage import write_atomic

__all__ = ["LEDGER_FILE", "Ledger", "file_crc32c"]

LEDGER_FILE = "ledger.jsonl"


@dataclass
class SplitState:
    """How far a split is."""

    files: list[ShardFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    dropped_tokens: int = 0
    corpus: Mapping[str, int] = field(default_factory=dict)
    finished: bool = False

    def summary(self, sequence_length: int) -> SplitSummary:
        sequences = sum(file.sequences for file in self.files)
        return SplitSummary(
            sequences=sequences,
            tokens=sequences * sequence_length,
            dropped_tokens=self.dropped_tokens,
            tally=self.tally,
            corpus=self.corpus,
            files=tuple(self.files),
        )


class Ledger:
    """The finished shards of a build in a folder. Opening it verifies them; what does not hold is built again."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / LEDGER_FILE
        self.splits: dict[str, SplitState] = {}
        lines = self._read()
        if lines and lines[0].get("key") != key:
            raise ArtefactError(
                f"{folder} holds an unfinished shard set of other settings ({lines[0].get('key')}, not {key})",
                hint="remove the folder, or give another",
            )
        kept = list(itertools.takewhile(lambda line: _holds(folder, line), lines[1:]))
        for line in kept:
            self._take(line)
        write_atomic(self.path, b"".join(orjson.dumps(line) + b"\n" for line in [{"key": key}, *kept]))

    def split(self, name: str) -> SplitState:
        return self.splits.setdefault(name, SplitState())

    def append(self, split: str, file: ShardFile, tally: Tally) -> None:
        """Note a finished shard, and the documents that end in it or before."""
        self._append({"split": split, "file": dataclasses.asdict(file), "tally": dataclasses.asdict(tally)})

    def finish(self, split: str, tally: Tally, dropped_tokens: int, corpus: Mapping[str, int]) -> None:
        """Note that a split is finished."""
        end = {"dropped_tokens": dropped_tokens, "corpus": dict(corpus)}
        self._append({"split": split, "tally": dataclasses.asdict(tally), "end": end})

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("ab") as ledger:
            ledger.write(orjson.dumps(line) + b"\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        self._take(line)

    def _read(self) -> list[dict[str, Any]]:
        """The lines up to the first that is torn."""
        lines: list[dict[str, Any]] = []
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    lines.append(orjson.loads(line))
                except orjson.JSONDecodeError:
                    break
        return lines

    def _take(self, line: dict[str, Any]) -> None:
        state = self.split(line["split"])
        if "file" in line:
            state.files.append(ShardFile(**line["file"]))
        state.tally = Tally(**line["tally"])
        if end := line.get("end"):
            state.dropped_tokens, state.corpus, state.finished = end["dropped_tokens"], end["corpus"], True


def _holds(folder: Path, line: dict[str, Any]) -> bool:
    """Whether the shard of a line is on the disk as it was written."""
    if "file" not in line:
        return True
    file = ShardFile(**line["file"])
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.size_bytes and file_crc32c(path) == file.crc32c


def file_crc32c(path: Path) -> int:
    """CRC-32C of a file, read in blocks."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = google_crc32c.extend(crc, block)
    return crc
