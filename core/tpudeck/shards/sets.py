"""Reading a shard set: open it, and take any sequences by number.

A set with a manifest is read by its manifest; other files in the folder are never looked at. A folder of TFRecord files
in the published layout can be read too, whoever made it: its frames are counted (file names are not believed), and what
a manifest would tell is worked out when it is asked for.

Files are mapped, not loaded, and every record that is taken is checked against its checksum, so damage is an error with
file and offset instead of noise in the training data.

Shapes: N sequences, S tokens per sequence.
"""

from __future__ import annotations

import functools
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError
from tpudeck.shards.layouts import Ids, Layout, Published, layout_named
from tpudeck.shards.ledger import LEDGER_FILE
from tpudeck.shards.manifest import COUNTS_FILE, MANIFEST_FILE, Manifest
from tpudeck.storage import is_bucket
from tpudeck.tfrecord import FOOTER_BYTES, decode_int64s, masked_crc32cs, read_records, scan_records

__all__ = ["Sequences", "ShardSet", "open_set"]

_MOST_OPEN_FILES = 256
"""More than a group of `order` has with the thousand records per file that published shards have; well below the usual
limit of 1,024 descriptors."""
_CHUNK_SEQUENCES = 1024

Mapped: TypeAlias = tuple[mmap.mmap, npt.NDArray[np.int64]]
"""The bytes of a file, and where its records begin and how long they are."""


class Sequences:
    """The sequences of one split, numbered through its files."""

    def __init__(self, files: Sequence[Path], sizes: Sequence[int], layout: Layout, vocab_size: int) -> None:
        self.files = tuple(files)
        self.shard_sizes = tuple(sizes)
        """Sequences per file."""
        self.vocab_size = vocab_size
        self._layout = layout
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._open = functools.lru_cache(maxsize=_MOST_OPEN_FILES)(self._map)

    @property
    def sequence_length(self) -> int:
        return self._layout.sequence_length

    def prepare(self, shards: Iterable[int]) -> None:
        """Know which shards are taken from soon; those on this machine need no preparation."""

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def take(self, indices: npt.ArrayLike) -> Ids:
        """Sequences by number, as ids_NS; raises :class:`ArtefactError` where a record is damaged."""
        rows = np.asarray(indices, dtype=np.int64)
        return self._decoded(self._gather(rows), rows)

    def take_with_padding(self, indices: npt.ArrayLike) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Sequences by number, and how many tokens of each are padding by its attention mask (compact: none)."""
        rows = np.asarray(indices, dtype=np.int64)
        records = self._gather(rows)
        return self._decoded(records, rows), self._layout.padding(records)

    def checksums(self, indices: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """The checksums that stand behind records: equal ones for equal records. The records are not read."""
        rows = np.asarray(indices, dtype=np.int64)
        found = np.zeros(len(rows), dtype=np.uint32)
        shards = np.searchsorted(self._ends, rows, side="right")
        for shard in np.unique(shards):
            mapped, spans = self._open(int(shard))
            there = shards == shard
            found[there] = _checksums(mapped, spans[rows[there] - (self._ends[shard] - self.shard_sizes[shard])])
        return found

    def _gather(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """Records by number, verified."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"sequences are numbered from 0 to {len(self) - 1}, got {rows.min()} to {rows.max()}")
        shards = np.searchsorted(self._ends, rows, side="right")
        records: list[bytes] = []
        touched = np.unique(shards)
        for shard in touched:
            inside = rows[shards == shard] - (self._ends[shard] - self.shard_sizes[shard])
            records += self._records(int(shard), inside)
        if len(touched) < 2:
            return records
        asked = np.argsort(np.argsort(shards, kind="stable"))  # they are in the order of their shards
        return [records[place] for place in asked.tolist()]

    def chunks(self, sequences: int = _CHUNK_SEQUENCES) -> Iterator[Ids]:
        """All sequences in order, some at a time."""
        for first in range(0, len(self), sequences):
            yield self.take(np.arange(first, min(first + sequences, len(self))))

    def locate(self, index: int) -> tuple[Path, int]:
        """The file of a sequence, and the offset of its record in it."""
        shard = int(np.searchsorted(self._ends, index, side="right"))
        _, spans = self._open(shard)
        return self.files[shard], int(spans[index - (self._ends[shard] - self.shard_sizes[shard]), 0])

    def _records(self, shard: int, rows: npt.NDArray[np.int64]) -> list[bytes]:
        mapped, spans = self._open(shard)
        inside = spans[rows]
        records = [mapped[start : start + length] for start, length in inside.tolist()]
        wrong = masked_crc32cs(records) != _checksums(mapped, inside)
        if wrong.any():
            raise ArtefactError(
                f"{self.files[shard]} is corrupted: the record at offset {inside[wrong][0, 0]} does not match its "
                "checksum",
                hint="copy the file again, or remove the set and build it again",
            )
        return records

    def _decoded(self, records: list[bytes], rows: npt.NDArray[np.int64]) -> Ids:
        try:
            ids_NS = self._layout.decode(records)
            if ids_NS.size and ids_NS.max() >= self.vocab_size:
                raise ValueError(f"an id is {ids_NS.max()}, and the vocabulary has {self.vocab_size} entries")
            return ids_NS
        except ValueError as error:
            if len(records) > 1:  # find the one that is wrong
                for record, row in zip(records, rows, strict=True):
                    self._decoded([record], np.array([row]))
            path, offset = self.locate(int(rows[0]))
            raise ArtefactError(f"{path} does not belong to this set: at offset {offset}, {error}") from error

    def _map(self, shard: int) -> Mapped:
        return self._mapped(self.files[shard], shard)

    def _mapped(self, path: Path, shard: int) -> Mapped:
        try:
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ArtefactError(f"{path} cannot be read: {error}") from error
        spans = self._layout.spans(path, len(mapped))
        if len(spans) != self.shard_sizes[shard]:
            raise ArtefactError(
                f"{path} holds {len(spans)} records, and {self.shard_sizes[shard]} are expected",
                hint="build the shards again",
            )
        return mapped, spans


def _checksums(mapped: mmap.mmap, spans: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Those that stand behind records."""
    footers: npt.NDArray[np.uint8] = np.frombuffer(mapped, dtype=np.uint8)[
        (spans[:, :1] + spans[:, 1:]) + np.arange(FOOTER_BYTES)
    ]
    return footers.view("<u4").ravel()


class ShardSet:
    """A finished shard set in a folder."""

    def __init__(
        self, folder: Path, layout: Layout, files: dict[str, list[tuple[Path, int]]], manifest: Manifest | None
    ):
        self.folder = folder
        self.manifest = manifest
        """None for published shards that somebody else made."""
        self.layout = layout
        self._files = files

    @property
    def location(self) -> str:
        """Where the set is: what opens it again."""
        return str(self.folder.absolute())

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._files)

    @property
    def sequence_length(self) -> int:
        return self.layout.sequence_length

    @property
    def tokenizer_hash(self) -> str:
        """Empty where nobody wrote it down."""
        return str(self.manifest.tokenizer["hash"]) if self.manifest else ""

    @functools.cached_property
    def vocab_size(self) -> int:
        """Of the tokenizer; without a manifest the largest id in the files + 1."""
        if self.manifest:
            return int(self.manifest.tokenizer["vocab_size"])
        return max((len(count_tokens(self.split(name), 0)) for name in self.splits), default=0)

    @functools.cached_property
    def token_counts(self) -> npt.NDArray[np.int64]:
        """How often each token occurs in the training split."""
        if self.manifest:
            tokens = self.manifest.splits["train"].tokens
            return _load_counts(self.folder / COUNTS_FILE, self.vocab_size, tokens)
        return count_tokens(self.split("train"), self.vocab_size)

    def split(self, name: str) -> Sequences:
        """One side of the validation split."""
        if name not in self._files:
            raise ArtefactError(f"{self.location} has no {name} split, it has {', '.join(self.splits) or 'none'}")
        files = self._files[name]
        limit = self.vocab_size if self.manifest else 1 << 31
        return self._sequences([path for path, _ in files], [size for _, size in files], limit)

    def _sequences(self, files: list[Path], sizes: list[int], vocab_size: int) -> Sequences:
        return Sequences(files, sizes, self.layout, vocab_size)

    def require_length(self, sequence_length: int) -> None:
        """Raise :class:`ArtefactError` where sequences have another length than this."""
        if self.sequence_length != sequence_length:
            raise ArtefactError(
                f"the shards in {self.location} hold sequences of {self.sequence_length} tokens, "
                f"and shards.sequence_length is {sequence_length}",
                hint="build the shards again, or set shards.sequence_length to theirs",
            )

    def require_tokenizer(self, hash_: str, folder: Path | str) -> None:
        """Raise :class:`ArtefactError` where the set was made with another tokenizer than this one."""
        if self.tokenizer_hash and self.tokenizer_hash != hash_:
            raise ArtefactError(
                f"the shards in {self.location} were made with the tokenizer {self.tokenizer_hash[:12]}, "
                f"and the one in {folder} is {hash_[:12]}",
                hint="build the shards again with this tokenizer, or use the one they were made with",
            )


def open_set(folder: Path | str) -> ShardSet:
    """Open a shard set, checking that its files are there and have their sizes (``verify`` reads them whole).

    The files of a set in a bucket are copied here when they are needed.
    """
    if is_bucket(folder):
        from tpudeck.shards.staged import open_staged

        return open_staged(str(folder))
    folder = Path(folder)
    manifest = Manifest.load(folder)
    if manifest is None:
        return _open_foreign(folder)
    files: dict[str, list[tuple[Path, int]]] = {}
    for name, split in manifest.splits.items():
        for file in split.files:
            _check_size(folder / file.name, file.size_bytes)
        files[name] = [(folder / file.name, file.sequences) for file in split.files]
    return ShardSet(folder, layout_of(manifest), files, manifest)


def layout_of(manifest: Manifest) -> Layout:
    packing = manifest.packing
    vocab_size = int(manifest.tokenizer["vocab_size"])
    return layout_named(packing.layout, sequence_length=packing.sequence_length, vocab_size=vocab_size)


def _check_size(path: Path, size_bytes: int) -> None:
    try:
        found = path.stat().st_size
    except OSError as error:
        raise ArtefactError(
            f"{path} is missing: the manifest beside it lists it",
            hint="copy it again, or remove the set and build it again",
        ) from error
    if found != size_bytes:
        what = "truncated" if found < size_bytes else "too long"
        raise ArtefactError(
            f"{path} is {what}: it ends at offset {found}, and the manifest says {size_bytes} bytes",
            hint="copy it again, or remove the set and build it again",
        )


def _open_foreign(folder: Path) -> ShardSet:
    """Published shards without our manifest, their frames counted."""
    found = foreign_files(folder)
    length = next(filter(None, (first_length(path) for paths in found.values() for path in paths)), None)
    if length is None:
        raise ArtefactError(f"{folder} holds only empty files")
    files = {name: [(path, len(scan_records(path))) for path in paths] for name, paths in found.items()}
    return ShardSet(folder, Published(length), files, None)


def foreign_files(folder: Path) -> dict[str, list[Path]]:
    """The files of each split where there is no manifest: a split is a folder; files beside them are for training."""
    if (folder / LEDGER_FILE).exists():
        raise ArtefactError(
            f"the shard set in {folder} is unfinished", hint="give the command that began it again: it goes on"
        )
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.tfrecord"), key=_natural):
        name = "train" if path.parent == folder else path.relative_to(folder).parts[0]
        files.setdefault(name, []).append(path)
    if not files:
        raise ArtefactError(
            f"{folder} holds no shards: neither {MANIFEST_FILE} nor *.tfrecord files",
            hint="build them with `tpudeck shards build`",
        )
    return files


def first_length(path: Path) -> int | None:
    """Tokens in the first record of a published file; none where the file is empty."""
    for record in read_records(path):
        try:
            return int(decode_int64s([record.data], "input_ids")[1][0])
        except ValueError as error:
            raise ArtefactError(
                f"{path} is not in the published layout: at offset {record.offset}, {error}",
                hint="records need an int64 feature input_ids; compact sets need their manifest.json",
            ) from error
    return None


def _natural(path: Path) -> list[tuple[int, str]]:
    """File names in the order a person expects: dataset-2 before dataset-10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", str(path)) if part]


def _load_counts(path: Path, vocab_size: int, tokens: int) -> npt.NDArray[np.int64]:
    try:
        counts = np.load(path, allow_pickle=False, mmap_mode="r")  # mapped: allocates no more than the file holds
        if counts.shape != (vocab_size,) or counts.dtype != np.int64:
            raise ValueError(f"it holds {counts.dtype}{counts.shape}, and the vocabulary has {vocab_size} tokens")
        if counts.min() < 0 or counts.sum() != tokens:
            raise ValueError(f"its counts do not add up to the {tokens} tokens of the training split")
        return np.array(counts)
    except (OSError, ValueError, EOFError, SyntaxError, TokenError) as error:  # numpy parses the header as Python
        raise ArtefactError(f"{path} is missing or damaged: {error}", hint="build the shards again") from error


def count_tokens(sequences: Sequences, vocab_size: int) -> npt.NDArray[np.int64]:
    """How often each token occurs; longer than ``vocab_size`` where a larger one does."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for ids_NS in sequences.chunks():
        found = np.bincount(ids_NS.ravel(), minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    return counts
