"""What is in a shard set: counts, shares, curves, duplicates, and whether one file is unlike the others.

Every sequence is read once, in chunks, with its checksum; memory holds the token frequencies and a bounded sample of
hashes, whatever the size of the set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tpudeck.inspection.curves import Distinct, coverage_curve, row_hashes, zipf_curve
from tpudeck.inspection.findings import Finding, percent
from tpudeck.shards import Sequences, ShardSet
from tpudeck.shards.manifest import LENGTH_EDGES, SplitSummary

__all__ = ["inspect_shards"]

_CHUNK_SEQUENCES = 1024
_OUTLIER_NATS = 0.3
_OUTLIER_DEVIATIONS = 6.0

OnSequences = Callable[[int, int], None]
"""Called with sequences done, and sequences in all."""


@dataclass
class _FileStatistics:
    """One file."""

    name: str
    size_bytes: int
    sequences: int = 0
    tokens: int = 0
    special_tokens: int = 0
    unknown_tokens: int = 0
    nats: float = 0.0
    """Of all its tokens, told by the token frequencies of the training split."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.size_bytes,
            "sequences": self.sequences,
            "tokens": self.tokens,
            "special_share": _share(self.special_tokens, self.tokens),
            "unknown_share": _share(self.unknown_tokens, self.tokens),
            "unigram_nats": _share(self.nats, self.tokens),
        }


@dataclass
class _SplitStatistics:
    """One side of the validation split."""

    counts: npt.NDArray[np.int64]
    files: list[_FileStatistics] = field(default_factory=list)
    distinct: Distinct = field(default_factory=Distinct)
    padding_tokens: int = 0


def inspect_shards(shards: ShardSet, on_sequences: OnSequences = lambda done, total: None) -> dict[str, Any]:
    """Statistics of a set, as plain data; raises :class:`~tpudeck.errors.ArtefactError` at the first damage."""
    splits = {name: shards.split(name) for name in shards.splits}
    total = sum(map(len, splits.values()))
    roles = shards.manifest.tokenizer if shards.manifest else {}
    reader = _Reader(shards, roles, on_sequences, total)
    statistics = {name: reader.read(sequences) for name, sequences in splits.items()}
    main = statistics.get("train") or next(iter(statistics.values()))
    findings = [finding for name, of in statistics.items() for finding in _split_findings(name, of, shards, roles)]
    return {
        "folder": str(shards.folder),
        "layout": shards.layout.name,
        "sequence_length": shards.sequence_length,
        "vocab_size": shards.vocab_size,
        "tokenizer_hash": shards.tokenizer_hash,
        "manifest": shards.manifest is not None,
        "hash": shards.manifest.hash if shards.manifest else "",
        "splits": {name: _describe(of, _summary(shards, name), roles) for name, of in statistics.items()},
        "files": {name: [file.to_dict() for file in of.files] for name, of in statistics.items()},
        "zipf": zipf_curve(main.counts),
        "coverage": coverage_curve(main.counts),
        "top_tokens": _top(main.counts),
        "findings": [finding.to_dict() for finding in [*_vocabulary_findings(main.counts, shards), *findings]],
    }


class _Reader:
    """Reads splits, file by file, chunk by chunk."""

    def __init__(self, shards: ShardSet, roles: Mapping[str, Any], on_sequences: OnSequences, total: int) -> None:
        self._vocab_size = shards.vocab_size
        self._published = shards.layout.name == "published"
        self._on_sequences = on_sequences
        self._total = total
        self._done = 0
        self._unknown = roles.get("unk_id")
        specials = [id_ for id_ in roles.get("special_ids", ()) if id_ != self._unknown]
        self._special = np.zeros(self._vocab_size, dtype=bool)
        self._special[specials] = True
        # One more of each, so that a token of the validation split only has a finite surprise too.
        expected = (shards.token_counts if "train" in shards.splits else np.zeros(self._vocab_size)) + 1.0
        self._nats = -np.log(expected / expected.sum())

    def read(self, sequences: Sequences) -> _SplitStatistics:
        statistics = _SplitStatistics(np.zeros(self._vocab_size, dtype=np.int64))
        first = 0
        for path, size in zip(sequences.files, sequences.shard_sizes, strict=True):
            file = _FileStatistics(path.name, path.stat().st_size)
            statistics.files.append(file)
            for start in range(first, first + size, _CHUNK_SEQUENCES):
                rows = np.arange(start, min(start + _CHUNK_SEQUENCES, first + size))
                self._add(sequences.take(rows), file, statistics)
                if self._published:
                    statistics.padding_tokens += sequences.padding_tokens(rows)
                self._done += len(rows)
                self._on_sequences(self._done, self._total)
            first += size
        return statistics

    def _add(self, ids_NS: npt.NDArray[np.int32], file: _FileStatistics, statistics: _SplitStatistics) -> None:
        counts = np.bincount(ids_NS.ravel(), minlength=self._vocab_size)
        statistics.counts += counts
        statistics.distinct.add(row_hashes(ids_NS))
        file.sequences += len(ids_NS)
        file.tokens += ids_NS.size
        file.special_tokens += int(counts[self._special].sum())
        file.unknown_tokens += int(counts[self._unknown]) if self._unknown is not None else 0
        file.nats += float((counts * self._nats).sum())


def _describe(of: _SplitStatistics, summary: SplitSummary | None, roles: Mapping[str, Any]) -> dict[str, Any]:
    tokens = sum(file.tokens for file in of.files)
    described: dict[str, Any] = {
        "files": len(of.files),
        "bytes": sum(file.size_bytes for file in of.files),
        "sequences": sum(file.sequences for file in of.files),
        "tokens": tokens,
        "used_tokens": int((of.counts > 0).sum()),
        "special_share": _share(sum(file.special_tokens for file in of.files), tokens) if roles else None,
        "unknown_share": _share(sum(file.unknown_tokens for file in of.files), tokens) if roles else None,
        "padding_share": _share(of.padding_tokens, tokens),
        "duplicate_share": of.distinct.repeat_share,
        "duplicate_share_error": of.distinct.error,
    }
    if summary is not None:
        tally = summary.tally
        described |= {
            "documents": tally.documents,
            "empty_documents": tally.empty_documents,
            "dropped_tokens": summary.dropped_tokens,
            "cut_documents": tally.cut_documents,
            "longest_document_tokens": tally.longest_document_tokens,
            "document_lengths": {"edges": LENGTH_EDGES.tolist(), "counts": tally.document_lengths},
        }
    return described


def _summary(shards: ShardSet, split: str) -> SplitSummary | None:
    return shards.manifest.splits.get(split) if shards.manifest else None


def _top(counts: npt.NDArray[np.int64], most: int = 20) -> list[dict[str, int]]:
    """The most frequent tokens; of equally frequent ones the lower id first."""
    ids = np.argsort(-counts, kind="stable")[:most]
    return [{"id": int(id_), "count": int(counts[id_])} for id_ in ids if counts[id_]]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# ---- findings ----------------------------------------------------------------------------------------------------


def _vocabulary_findings(counts: npt.NDArray[np.int64], shards: ShardSet) -> list[Finding]:
    unused = int((counts == 0).sum())
    if not shards.manifest or unused <= 0.05 * shards.vocab_size:
        return []
    return [
        Finding(
            "warning",
            f"{unused:,} of {shards.vocab_size:,} tokens ({percent(unused / shards.vocab_size)}) never occur",
            "a smaller tokenizer.vocab_size costs less memory and compute; or train on more text",
        )
    ]


def _split_findings(name: str, of: _SplitStatistics, shards: ShardSet, roles: Mapping[str, Any]) -> list[Finding]:
    described = _describe(of, _summary(shards, name), roles)
    findings: list[Finding] = []
    if (described["unknown_share"] or 0) > 0.001:
        message = f"{name}: {percent(described['unknown_share'])} of the tokens are the unknown token"
        findings.append(Finding("warning", message, "train the tokenizer on this text, or use byte-level BPE"))
    if described["duplicate_share"] > 0.01:
        message = f"{name}: {percent(described['duplicate_share'])} of the sequences repeat another, token for token"
        findings.append(Finding("warning", message, "remove duplicates from the text"))
    if described["padding_share"] > 0.05:
        message = f"{name}: {percent(described['padding_share'])} of the tokens are padding"
        findings.append(Finding("warning", message, "build the shards with `tpudeck shards build`: it never pads"))
    dropped = described.get("dropped_tokens", 0)
    if dropped > 0.01 * (described["tokens"] + dropped):
        message = f"{name}: {dropped:,} tokens at the end of the text are dropped"
        findings.append(Finding("info", message, "more text, or a shorter shards.sequence_length"))
    findings += _cut_findings(name, described, shards.sequence_length)
    return findings + _outliers(name, of.files)


def _cut_findings(name: str, described: Mapping[str, Any], length: int) -> list[Finding]:
    documents = described.get("documents", 0) - described.get("empty_documents", 0)
    if not documents or described["cut_documents"] <= 0.5 * documents:
        return []
    share = percent(described["cut_documents"] / documents)
    return [
        Finding(
            "info",
            f"{name}: {share} of the documents do not lie within one sequence of {length} tokens",
            "a longer shards.sequence_length keeps more of them whole, at more compute per sequence",
        )
    ]


def _outliers(name: str, files: list[_FileStatistics]) -> list[Finding]:
    """Files whose tokens the frequencies of the whole tell much worse (or better) than those of the other files."""
    if len(files) < 4:
        return []
    nats = np.array([_share(file.nats, file.tokens) for file in files])
    middle = float(np.median(nats))
    spread = 1.4826 * float(np.median(abs(nats - middle)))  # the standard deviation, where they are normal
    far = (abs(nats - middle) > _OUTLIER_NATS) & (abs(nats - middle) > _OUTLIER_DEVIATIONS * spread)
    return [
        Finding(
            "warning",
            f"{name}: {files[index].name} is unlike the others: {nats[index]:.2f} nats a token by the frequencies of "
            f"the set, the middle file {middle:.2f}",
            "look at it with `tpudeck shards head`: another language, another format, or noise",
        )
        for index in np.flatnonzero(far)
    ]
