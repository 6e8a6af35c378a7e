"""Reading a shard set from end to end, and saying everything that is wrong with it.

Opening a set checks sizes, taking a record checks its checksum; here every byte is read: checksums of files and frames,
counts against the manifest (or against what file names claim), lengths, ids within the vocabulary, token frequencies.
A fault in one file does not hide those of the others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError
from tpudeck.shards.layouts import Ids, Layout, Published
from tpudeck.shards.ledger import file_crc32c
from tpudeck.shards.manifest import Manifest, ShardFile
from tpudeck.shards.sets import first_length, foreign_files, layout_of, open_set
from tpudeck.tfrecord import Record, read_records

__all__ = ["Verification", "verify"]

_BATCH_RECORDS = 1024


@dataclass
class Verification:
    """What was read, and what is wrong."""

    folder: Path
    layout: str
    manifest: bool
    """Whether the set has one; without it there is less to compare with."""
    files: int = 0
    sequences: int = 0
    tokens: int = 0
    size_bytes: int = 0
    faults: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "ok": not self.faults,
            "layout": self.layout,
            "manifest": self.manifest,
            "files": self.files,
            "sequences": self.sequences,
            "tokens": self.tokens,
            "bytes": self.size_bytes,
            "faults": self.faults,
        }


def verify(folder: Path, on_file: Callable[[int, int], None] = lambda done, total: None) -> Verification:
    """Read a whole set. ``on_file`` is called with files done and files in all.

    Raises :class:`~tpudeck.errors.ArtefactError` where there is no set to read, or its manifest is damaged.
    """
    manifest = Manifest.load(folder)
    files, layout = _listed(folder, manifest) if manifest else _found(folder)
    vocab_size = int(manifest.tokenizer["vocab_size"]) if manifest else None
    verification = Verification(folder, layout.name, manifest is not None)
    counts = np.zeros(0, dtype=np.int64)
    for done, file in enumerate(files):
        on_file(done, len(files))
        try:
            counted = _verify_file(file, layout, vocab_size, verification)
        except ArtefactError as error:
            verification.faults.append(error.message)
            continue
        if file.split == "train":
            counts = _add(counts, counted)
    on_file(len(files), len(files))
    if manifest and not verification.faults:
        verification.faults += _count_faults(folder, counts)
    return verification


def _count_faults(folder: Path, counts: npt.NDArray[np.int64]) -> list[str]:
    """What is wrong with the noted token frequencies, held against those that were counted."""
    try:
        noted = open_set(folder).token_counts
    except ArtefactError as error:
        return [error.message]
    if (_add(counts, np.zeros(len(noted), dtype=np.int64)) != noted).any():
        return [f"the token frequencies in {folder} are not those of its training shards"]
    return []


class _File(NamedTuple):
    split: str
    path: Path
    entry: ShardFile | None
    """What the manifest says of it."""


def _listed(folder: Path, manifest: Manifest) -> tuple[list[_File], Layout]:
    """The files that a manifest lists."""
    files = [
        _File(name, folder / entry.name, entry) for name, split in manifest.splits.items() for entry in split.files
    ]
    return files, layout_of(manifest)


def _found(folder: Path) -> tuple[list[_File], Layout]:
    """The files of a set without a manifest; the sequence length is that of the first record that can be read."""
    files = [_File(split, path, None) for split, paths in foreign_files(folder).items() for path in paths]
    fault: ArtefactError | None = None
    for file in files:
        try:
            if length := first_length(file.path):
                return files, Published(length)
        except ArtefactError as error:
            fault = fault or error
    raise fault or ArtefactError(f"{folder} holds only empty files")


def _verify_file(
    file: _File, layout: Layout, vocab_size: int | None, verification: Verification
) -> npt.NDArray[np.int64]:
    """Token frequencies of a file; raises at its first fault."""
    path, entry = file.path, file.entry
    counts = np.zeros(0, dtype=np.int64)
    sequences = 0
    for records in _batches(read_records(path)):
        ids_NS = _decode(path, records, layout, vocab_size)
        counts = _add(counts, np.bincount(ids_NS.ravel()))
        sequences += len(records)
    claimed = entry.sequences if entry else _claimed_by_name(path)
    if claimed is not None and claimed != sequences:
        raise ArtefactError(
            f"{path} holds {sequences} records, and {'the manifest' if entry else 'its name'} says {claimed}"
        )
    if entry and file_crc32c(path) != entry.crc32c:
        raise ArtefactError(f"{path} is whole, but not the file that the manifest describes (CRC-32C differs)")
    verification.files += 1
    verification.sequences += sequences
    verification.tokens += sequences * layout.sequence_length
    verification.size_bytes += path.stat().st_size
    return counts


def _decode(path: Path, records: list[Record], layout: Layout, vocab_size: int | None) -> Ids:
    try:
        ids_NS = layout.decode([record.data for record in records])
        if vocab_size is not None and ids_NS.max(initial=0) >= vocab_size:
            raise ValueError(f"an id is {ids_NS.max()}, and the vocabulary has {vocab_size} entries")
        return ids_NS
    except ValueError as error:
        for record in records if len(records) > 1 else ():  # find the one that is wrong
            _decode(path, [record], layout, vocab_size)
        raise ArtefactError(f"{path} does not belong to this set: at offset {records[0].offset}, {error}") from error


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(itertools.islice(records, _BATCH_RECORDS)):
        yield batch


def _claimed_by_name(path: Path) -> int | None:
    """The number of records in a published file's name."""
    named = re.fullmatch(r".*-\d+-(\d+)\.tfrecord", path.name)
    return int(named[1]) if named else None


def _add(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    longer = longer.copy()
    longer[: len(shorter)] += shorter
    return longer
