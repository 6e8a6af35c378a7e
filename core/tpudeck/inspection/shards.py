"""What is in a shard set: counts, shares, curves, duplicates, and whether one file is unlike the others.

Files are read in parallel, in parts, with the checksum of every record; memory holds the token frequencies and a
bounded sample of hashes, whatever the size of the set. Of a large set a sample of its records is read. Its own checksum
decides whether a record belongs to it, so copies of a record are all in the sample or none is, and their share can be
told.

Shapes: N sequences, S tokens per sequence.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tpudeck.inspection.curves import coverage_curve, zipf_curve
from tpudeck.inspection.estimates import Ratio
from tpudeck.inspection.hashes import Distinct, Hashes, mixed, row_hashes
from tpudeck.inspection.shard_findings import findings
from tpudeck.parallel import in_order
from tpudeck.shards import Sequences, ShardSet
from tpudeck.shards.layouts import layout_named
from tpudeck.shards.manifest import LENGTH_EDGES, SplitSummary

__all__ = ["inspect_shards"]

_CHUNK_TOKENS = 1 << 16
"""What stands in memory for so many stays in the processor's cache."""
_PART_SEQUENCES = 1 << 15
_EXPECTED_FROM = 1 << 13
"""Sequences of a set without a manifest whose token frequencies stand for those of the whole."""
_MOST_OPENED = 64
"""Files that one process holds open, and files whose sequences stand for those of the whole."""

Counts = npt.NDArray[np.int64]
OnSequences = Callable[[int, int], None]
"""Called with sequences looked at, and sequences in all."""


class _Source(NamedTuple):
    """A file, and what has to be known to read it alone: other processes know nothing of the set."""

    path: Path
    sequences: int
    layout: str
    sequence_length: int
    vocab_size: int


class _Place(NamedTuple):
    """A part of a file."""

    split: str
    file: int
    source: _Source
    first: int
    """Number of its first sequence in the file."""
    size: int


@dataclass(frozen=True)
class _Question:
    """What every part is asked."""

    share: float
    """Of the records, so many are read."""
    unknown: int | None
    specials: npt.NDArray[np.bool_]
    """By id, without the unknown token."""
    nats: npt.NDArray[np.float64]
    """How surprising each id is by the frequencies of the set; the last stands for all beyond."""


@dataclass
class _Statistics:
    """Of a part, of a file, or of a split."""

    size_bytes: int = 0
    sequences: int = 0
    tokens: int = 0
    nats: float = 0.0
    counts: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    special: Ratio = field(default_factory=Ratio)
    unknown: Ratio = field(default_factory=Ratio)
    padding: Ratio = field(default_factory=Ratio)
    hashes: list[Hashes] = field(default_factory=list)
    """Of the sequences of a part."""

    def add(self, part: _Statistics) -> None:
        self.sequences += part.sequences
        self.tokens += part.tokens
        self.nats += part.nats
        for mine, more in ((self.special, part.special), (self.unknown, part.unknown), (self.padding, part.padding)):
            mine.merge(more)

    def count(self, ids_NS: npt.NDArray[np.int32], padding_N: npt.NDArray[np.int64], asked: _Question) -> None:
        """Count some sequences."""
        self.counts = _sum(self.counts, np.bincount(ids_NS.ravel()))
        self.sequences += len(ids_NS)
        self.tokens += ids_NS.size
        self.hashes.append(row_hashes(ids_NS))
        lengths_N = np.full(len(ids_NS), ids_NS.shape[1])
        self.padding.add(padding_N, lengths_N)
        if asked.share < 1:  # how far a sample may be off follows from its sequences one by one
            self.special.add(_lookup(asked.specials, ids_NS).sum(axis=1), lengths_N)
            self.unknown.add((ids_NS == (-1 if asked.unknown is None else asked.unknown)).sum(axis=1), lengths_N)

    def conclude(self, asked: _Question) -> None:
        """What follows from how often each token occurs."""
        counts, ids = self.counts, np.arange(len(self.counts))
        self.nats = float((counts * asked.nats[np.minimum(ids, len(asked.nats) - 1)]).sum())
        if asked.share >= 1:
            unknown = asked.unknown is not None and asked.unknown < len(counts)
            self.special.add([int(counts[_lookup(asked.specials, ids)].sum())], [self.tokens])
            self.unknown.add([int(counts[asked.unknown]) if unknown else 0], [self.tokens])


def _lookup(table: npt.NDArray[np.bool_], ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether ids are marked in a table; those beyond it are not."""
    return np.asarray(table[np.minimum(ids, len(table) - 1)])


def _sum(left: Counts, right: Counts) -> Counts:
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    longer = longer.copy()
    longer[: len(shorter)] += shorter
    return longer


def _read(place: _Place, asked: _Question) -> _Statistics:
    """Count a part."""
    sequences = _opened(place.source)
    part = _Statistics()
    rows = np.arange(place.first, place.first + place.size)
    if asked.share < 1:
        drawn = mixed(sequences.checksums(rows).astype(np.uint64))
        rows = rows[drawn < np.uint64(int(asked.share * 2**64))]
    for chunk in _chunks(rows, sequences):
        part.count(*sequences.take_with_padding(chunk), asked)
    part.conclude(asked)
    return part


def _chunks(rows: npt.NDArray[np.int64], sequences: Sequences) -> Iterator[npt.NDArray[np.int64]]:
    size = max(1, _CHUNK_TOKENS // max(1, sequences.sequence_length))
    return (rows[start : start + size] for start in range(0, len(rows), size))


@functools.lru_cache(maxsize=_MOST_OPENED)
def _opened(source: _Source) -> Sequences:
    """Finding the records of a published file takes a pass over it, which its other parts are spared."""
    layout = layout_named(source.layout, sequence_length=source.sequence_length, vocab_size=source.vocab_size)
    return Sequences([source.path], [source.sequences], layout, source.vocab_size)


class _File(NamedTuple):
    name: str
    of: _Statistics


@dataclass
class _Split:
    """One side of the validation split."""

    distinct: Distinct
    files: list[_File]
    whole: _Statistics = field(default_factory=_Statistics)

    def add(self, place: _Place, part: _Statistics) -> None:
        self.whole.counts = _sum(self.whole.counts, part.counts)
        for hashes in part.hashes:
            self.distinct.add(hashes)
        self.whole.add(part)
        self.files[place.file].of.add(part)


def inspect_shards(
    shards: ShardSet,
    on_sequences: OnSequences = lambda done, total: None,
    *,
    share: float = 1.0,
    workers: int = 1,
) -> dict[str, Any]:
    """Statistics of a set, as plain data; raises :class:`~tpudeck.errors.ArtefactError` at the first damage.

    ``share``: so much of the set is read, and the shares come with how far they may be off.
    """
    sides = {name: shards.split(name) for name in shards.splits}
    splits = {name: _split(sequences, share) for name, sequences in sides.items()}
    total = sum(map(len, sides.values()))
    roles = shards.manifest.tokenizer if shards.manifest else {}
    places = [place for name, sequences in sides.items() for place in _places(name, sequences, shards.layout.name)]
    _opened.cache_clear()  # files may have been replaced since the last time
    read = functools.partial(_read, asked=_question(shards, places, roles, share))
    done = 0
    for place, part in zip(places, in_order(read, places, workers), strict=True):
        splits[place.split].add(place, part)
        done += place.size
        on_sequences(done, total)
    _opened.cache_clear()
    return _described(shards, splits, roles, share)


def _split(sequences: Sequences, share: float) -> _Split:
    files = [_File(path.name, _Statistics(path.stat().st_size)) for path in sequences.files]
    return _Split(Distinct(whole=share >= 1), files)


def _places(split: str, sequences: Sequences, layout: str) -> Iterator[_Place]:
    for file, (path, size) in enumerate(zip(sequences.files, sequences.shard_sizes, strict=True)):
        source = _Source(path, size, layout, sequences.sequence_length, sequences.vocab_size)
        for first in range(0, size, _PART_SEQUENCES):
            yield _Place(split, file, source, first, min(_PART_SEQUENCES, size - first))


def _question(shards: ShardSet, places: Sequence[_Place], roles: Mapping[str, Any], share: float) -> _Question:
    unknown = roles.get("unk_id")
    specials = [id_ for id_ in roles.get("special_ids", ()) if id_ != unknown]
    table = np.zeros(max(specials, default=0) + 2, dtype=bool)
    table[specials] = True
    expected = _expected(shards, places) + 1.0  # one more of each: what never occurs here is not infinitely surprising
    return _Question(share, unknown, table, -np.log(expected / expected.sum()))


def _expected(shards: ShardSet, places: Sequence[_Place]) -> Counts:
    """Token frequencies to judge files by: those that the manifest notes, else those of sequences from all over."""
    if shards.manifest:
        return shards.token_counts
    main = "train" if "train" in shards.splits else shards.splits[0]
    places = [place for place in places if place.split == main]
    drawn = places[:: -(-len(places) // _MOST_OPENED)] if places else []
    counts = np.zeros(1, dtype=np.int64)
    for place in drawn:
        rows = place.first + np.unique(np.linspace(0, place.size - 1, _EXPECTED_FROM // len(drawn)).astype(np.int64))
        counts = _sum(counts, np.bincount(_opened(place.source).take(rows).ravel()))
    return np.append(counts, 0)


# ---- as plain data -----------------------------------------------------------------------------------------------


def _described(shards: ShardSet, splits: dict[str, _Split], roles: Mapping[str, Any], share: float) -> dict[str, Any]:
    vocab_size = shards.vocab_size if shards.manifest else max(len(of.whole.counts) for of in splits.values())
    main = splits.get("train") or next(iter(splits.values()))
    counts = _sum(main.whole.counts, np.zeros(vocab_size, dtype=np.int64))
    described = {
        "folder": str(shards.folder),
        "share": share,
        "layout": shards.layout.name,
        "sequence_length": shards.sequence_length,
        "vocab_size": vocab_size,
        "tokenizer_hash": shards.tokenizer_hash,
        "manifest": shards.manifest is not None,
        "hash": shards.manifest.hash if shards.manifest else "",
        "splits": {name: _split_data(shards, name, of, roles, share) for name, of in splits.items()},
        "files": {name: [_file_data(file) for file in of.files] for name, of in splits.items()},
        "never_used": int((counts == 0).sum()),
        "zipf": zipf_curve(counts),
        "coverage": coverage_curve(counts),
        "top_tokens": _top(counts),
    }
    return described | {"findings": [finding.to_dict() for finding in findings(described)]}


def _split_data(shards: ShardSet, name: str, split: _Split, roles: Mapping[str, Any], share: float) -> dict[str, Any]:
    whole = split.whole
    data: dict[str, Any] = {
        "files": len(split.files),
        "bytes": sum(file.of.size_bytes for file in split.files),
        "sequences": len(shards.split(name)),
        "tokens": len(shards.split(name)) * shards.sequence_length,
        "sampled_sequences": whole.sequences,
        "used_tokens": int((whole.counts > 0).sum()),
        **_share_data("special", whole.special if roles else None, share),
        **_share_data("unknown", whole.unknown if roles else None, share),
        **_share_data("padding", whole.padding, share),
        "duplicate_share": split.distinct.repeat_share,
        "duplicate_share_error": split.distinct.error,
    }
    if shards.manifest and name in shards.manifest.splits:
        data |= _documents_data(shards.manifest.splits[name])
    return data


def _share_data(kind: str, ratio: Ratio | None, share: float) -> dict[str, float | None]:
    return {
        f"{kind}_share": None if ratio is None else ratio.value,
        f"{kind}_share_error": None if ratio is None else ratio.error(share),
    }


def _documents_data(summary: SplitSummary) -> dict[str, Any]:
    """What only the build knew."""
    tally = summary.tally
    return {
        "documents": tally.documents,
        "empty_documents": tally.empty_documents,
        "dropped_tokens": summary.dropped_tokens,
        "cut_documents": tally.cut_documents,
        "longest_document_tokens": tally.longest_document_tokens,
        "document_lengths": {"edges": LENGTH_EDGES.tolist(), "counts": tally.document_lengths},
    }


def _file_data(file: _File) -> dict[str, Any]:
    of = file.of
    return {
        "name": file.name,
        "bytes": of.size_bytes,
        "sequences": of.sequences,
        "tokens": of.tokens,
        "special_share": of.special.value,
        "unknown_share": of.unknown.value,
        "padding_share": of.padding.value,
        "unigram_nats": of.nats / of.tokens if of.tokens else 0.0,
    }


def _top(counts: Counts, most: int = 20) -> list[dict[str, int]]:
    """The most frequent tokens; of equally frequent ones the lower id first."""
    ids = np.argsort(-counts, kind="stable")[:most]
    return [{"id": int(id_), "count": int(counts[id_])} for id_ in ids if counts[id_]]
