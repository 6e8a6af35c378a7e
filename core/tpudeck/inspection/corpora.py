"""What a text is: documents and their lengths, characters, copies, broken encodings, and whether its sides overlap.

Both sides of the validation split are read once, and their batches are counted in parallel; memory holds histograms,
hashes and sketches, at most so many. Of a large text a sample of documents is counted, chosen by their hash from all
over; documents, characters and exact copies are counted in all of it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tpudeck.inspection.estimates import wilson
from tpudeck.inspection.findings import Finding, percent
from tpudeck.inspection.hashes import Distinct, Hashes, text_hashes
from tpudeck.inspection.near import NearCopies, Sketches, SketchIndex, sketch
from tpudeck.parallel import in_order
from tpudeck.shards.manifest import LENGTH_EDGES

__all__ = ["inspect_corpus", "sampled"]

_MOJIBAKE = re.compile("Ã[\x80-\xbf]|Â[\x80-\xbf]|â€|ï»¿|Ð[\x80-\xbf]")
"""What UTF-8 looks like after it was read as Latin-1 or Windows-1252."""
_SHORT_CHARACTERS = 20
_MANY_SHORT = 0.5
_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 200


@dataclass(frozen=True)
class _Part:
    """What counting some documents found."""

    documents: int
    characters: int
    copies: Hashes
    sampled_D: npt.NDArray[np.bool_]
    """Which of the documents the rest is about."""
    lengths_D: npt.NDArray[np.int64]
    words: int
    broken: int
    characters_seen: npt.NDArray[np.uint32]
    characters_counts: npt.NDArray[np.int64]
    sketches: Sketches
    heads: Sequence[str]
    """How the documents begin."""


def sampled(texts: Sequence[str], share: float) -> npt.NDArray[np.bool_]:
    """Which documents belong to a sample of this share: those whose hash is small, wherever they stand."""
    if share >= 1:
        return np.ones(len(texts), dtype=bool)
    return np.asarray(text_hashes(texts, b"sample") < np.uint64(int(share * 2**64)))


def _count(texts: Sequence[str], share: float) -> _Part:
    sampled_D = sampled(texts, share)
    chosen = [text for text, inside in zip(texts, sampled_D, strict=True) if inside]
    codes = np.frombuffer("".join(chosen).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    seen, counts = _occurrences(codes)
    return _Part(
        documents=len(texts),
        characters=sum(map(len, texts)),
        copies=text_hashes(texts),
        sampled_D=sampled_D,
        lengths_D=np.array([len(text) for text in chosen], dtype=np.int64),
        words=sum(len(text.split()) for text in chosen),
        broken=sum(1 for text in chosen if not text.isascii() and _MOJIBAKE.search(text)),
        characters_seen=seen,
        characters_counts=counts,
        sketches=sketch(chosen),
        heads=[text[:_EXAMPLE_CHARACTERS] for text in chosen],
    )


def _occurrences(codes: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The characters there are, and how often each occurs."""
    counts = np.bincount(codes)
    seen = np.flatnonzero(counts)
    return seen.astype(np.uint32), counts[seen]


@dataclass
class _Side:
    """One side of the validation split."""

    share: float
    """Of its documents, so many are in the sample."""
    documents: int = 0
    characters: int = 0
    sampled_documents: int = 0
    sampled_characters: int = 0
    words: int = 0
    longest_characters: int = 0
    short: int = 0
    broken: int = 0
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(LENGTH_EDGES), dtype=np.int64))
    alphabet: Counter[int] = field(default_factory=Counter)
    copies: Distinct = field(default_factory=Distinct)
    near_copies: NearCopies = field(default_factory=NearCopies)

    def add(self, part: _Part) -> None:
        sizes = part.lengths_D
        self.documents += part.documents
        self.characters += part.characters
        self.copies.add(part.copies)
        self.sampled_documents += len(sizes)
        self.sampled_characters += int(sizes.sum())
        self.words += part.words
        self.longest_characters = max(self.longest_characters, int(sizes.max(initial=0)))
        self.short += int((sizes < _SHORT_CHARACTERS).sum())
        self.broken += part.broken
        bins = np.searchsorted(LENGTH_EDGES, sizes, side="right") - 1
        self.lengths += np.bincount(bins, minlength=len(LENGTH_EDGES))
        self.alphabet.update(dict(zip(part.characters_seen.tolist(), part.characters_counts.tolist(), strict=True)))
        self.near_copies.add(part.sketches)

    def to_dict(self) -> dict[str, Any]:
        sampled = self.sampled_documents
        near = self.near_copies.repeats()
        return {
            "documents": self.documents,
            "characters": self.characters,
            "sampled_documents": sampled,
            "sampled_characters": self.sampled_characters,
            "words": self.words,
            "longest_characters": self.longest_characters,
            "short_documents": self.short,
            "broken_encodings": self.broken,
            "broken_share": self.broken / sampled if sampled else 0.0,
            "broken_share_interval": wilson(self.broken, sampled, self.share),
            "different_characters": len(self.alphabet),
            "duplicate_share": self.copies.repeat_share,
            "duplicate_share_error": self.copies.error,
            "near_duplicate_share": near / self.near_copies.kept if near else 0.0,
            "near_duplicates_compared": self.near_copies.kept,
            "near_duplicates_exact": self.share >= 1 and self.near_copies.exact,
            "document_lengths": {"edges": LENGTH_EDGES.tolist(), "counts": self.lengths.tolist()},
        }


@dataclass
class _Leak:
    """What the two sides have in common."""

    index: SketchIndex
    documents: int = 0
    """Of the training side, looked up."""
    shared: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, part: _Part) -> None:
        hits = np.flatnonzero(self.index.look_up(part.sketches))
        self.documents += len(part.sketches)
        self.shared += len(hits)
        self.examples += [part.heads[index] for index in hits[: _EXAMPLES - len(self.examples)]]

    def to_dict(self, share: float, *, held_out: NearCopies) -> dict[str, Any]:
        met = int(self.index.met.sum())
        return {
            "training_documents": self.shared,
            "training_share": self.shared / self.documents if self.documents else 0.0,
            "training_share_interval": wilson(self.shared, self.documents, share),
            "validation_documents": met,
            "validation_share": met / held_out.kept if held_out.kept else 0.0,
            "exact": share >= 1 and held_out.exact,
            "examples": self.examples,
        }


def inspect_corpus(
    train: Iterable[Sequence[str]],
    validation: Iterable[Sequence[str]],
    counts: Callable[[], Mapping[str, int]] = dict,
    on_documents: Callable[[int], None] = lambda done: None,
    *,
    share: float = 1.0,
    workers: int = 1,
) -> dict[str, Any]:
    """Statistics of the two sides of a corpus, as plain data.

    ``counts`` tells at the end what the first met. ``share``: of so much of the training side most numbers are; the
    validation side is always counted whole.
    """
    held_out, main = _Side(1.0), _Side(share)
    for part in _parts(validation, 1.0, workers):
        held_out.add(part)
        on_documents(held_out.documents)
    leak = _Leak(SketchIndex(held_out.near_copies.values()))
    for part in _parts(train, share, workers):
        main.add(part)
        leak.add(part)
        on_documents(held_out.documents + main.documents)
    described = {
        "share": share,
        "splits": {"train": main.to_dict(), "validation": held_out.to_dict()},
        "counts": dict(counts()),
        "leak": leak.to_dict(share, held_out=held_out.near_copies),
        "common_characters": [[chr(code), count] for code, count in main.alphabet.most_common(50)],
        "rare_characters": [[chr(code), count] for code, count in main.alphabet.most_common()[:-51:-1]],
    }
    return described | {"findings": [finding.to_dict() for finding in _findings(described)]}


def _parts(batches: Iterable[Sequence[str]], share: float, workers: int) -> Iterator[_Part]:
    return in_order(functools.partial(_count, share=share), batches, workers)


# ---- findings ----------------------------------------------------------------------------------------------------


def _findings(described: Mapping[str, Any]) -> list[Finding]:
    train, validation = described["splits"]["train"], described["splits"]["validation"]
    findings = [*_copy_findings(train), *_leak_findings(described["leak"], validation)]
    broken = train["broken_encodings"] + validation["broken_encodings"]
    if broken:
        share = percent(broken / (train["sampled_documents"] + validation["sampled_documents"]))
        message = f"{broken:,} documents ({share}) look like UTF-8 that was read as Latin-1 (Ã©, â€™)"
        findings.append(Finding("warning", message, "convert the source again, with the right encoding"))
    if undecodable := described["counts"].get("undecodable", 0):
        message = f"{undecodable:,} documents hold bytes that are not UTF-8 (kept, marked by U+FFFD)"
        findings.append(Finding("warning", message, "convert the source to UTF-8"))
    if train["sampled_documents"] > 100 and train["short_documents"] > _MANY_SHORT * train["sampled_documents"]:
        share = percent(train["short_documents"] / train["sampled_documents"])
        message = f"{share} of the documents have fewer than {_SHORT_CHARACTERS} characters"
        hint = 'where they are headings or broken lines: corpus.document = "paragraph" joins lines up to a blank one'
        findings.append(Finding("info", message, hint))
    return findings


def _copy_findings(train: Mapping[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    if train["duplicate_share"] > 0.01:
        message = f"{percent(train['duplicate_share'])} of the documents are copies of another"
        findings.append(Finding("warning", message, "remove copies: they are trained on again and again"))
    near = train["near_duplicate_share"] - train["duplicate_share"]
    if near > 0.02:
        least = "" if train["near_duplicates_exact"] else "at least "
        message = f"{least}{percent(near)} more of the documents nearly repeat another (0.8 of their word sequences)"
        findings.append(Finding("warning", message, "templates and reprints: keep one of each, or thin them out"))
    return findings


def _leak_findings(leak: Mapping[str, Any], validation: Mapping[str, Any]) -> list[Finding]:
    if not leak["validation_documents"]:
        return []
    least = "" if leak["exact"] else "at least "
    message = (
        f"{least}{leak['validation_documents']:,} of {validation['documents']:,} validation documents "
        f"({percent(leak['validation_share'])}) are, nearly or exactly, in the training text too"
    )
    hint = "the evaluation loss is too good by that much: take those out of the training text"
    return [Finding("warning", message, hint)]
