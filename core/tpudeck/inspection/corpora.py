"""What a text is: documents and their lengths, characters, copies, broken encodings, and whether its sides overlap.

Both sides of the validation split are read once, in batches; memory holds histograms and bounded samples of hashes.
Two documents are *nearly* the same where they differ only in case, digits, punctuation and spacing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from tpudeck.inspection.curves import Distinct
from tpudeck.inspection.findings import Finding, percent
from tpudeck.shards.manifest import LENGTH_EDGES

__all__ = ["inspect_corpus"]

_NOT_LETTERS = re.compile(r"[\W\d_]+")
_MOJIBAKE = re.compile("Ã[\x80-\xbf]|Â[\x80-\xbf]|â€|ï»¿|Ð[\x80-\xbf]")
"""What UTF-8 looks like after it was read as Latin-1 or Windows-1252."""


@dataclass
class _Side:
    """One side of the validation split."""

    documents: int = 0
    characters: int = 0
    words: int = 0
    longest_characters: int = 0
    broken: int = 0
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(LENGTH_EDGES), dtype=np.int64))
    alphabet: Counter[str] = field(default_factory=Counter)
    copies: Distinct = field(default_factory=Distinct)
    near_copies: Distinct = field(default_factory=Distinct)

    def add(self, texts: Sequence[str]) -> npt.NDArray[np.uint64]:
        """Count some documents; returns the hashes by which near copies are known."""
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        self.documents += len(texts)
        self.characters += int(sizes.sum())
        self.words += sum(len(text.split()) for text in texts)
        self.longest_characters = max(self.longest_characters, int(sizes.max(initial=0)))
        self.broken += sum(1 for text in texts if not text.isascii() and _MOJIBAKE.search(text))
        bins = np.searchsorted(LENGTH_EDGES, sizes, side="right") - 1
        self.lengths += np.bincount(bins, minlength=len(LENGTH_EDGES))
        for text in texts:
            self.alphabet.update(text)
        self.copies.add(_hashes(texts))
        near = _hashes([_letters(text) for text in texts])
        self.near_copies.add(near)
        return near

    def to_dict(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "characters": self.characters,
            "words": self.words,
            "longest_characters": self.longest_characters,
            "broken_encodings": self.broken,
            "different_characters": len(self.alphabet),
            "duplicate_share": self.copies.repeat_share,
            "duplicate_share_error": self.copies.error,
            "near_duplicate_share": self.near_copies.repeat_share,
            "near_duplicate_share_error": self.near_copies.error,
            "document_lengths": {"edges": LENGTH_EDGES.tolist(), "counts": self.lengths.tolist()},
        }


def inspect_corpus(
    train: Iterable[Sequence[str]],
    validation: Iterable[Sequence[str]],
    counts: Callable[[], Mapping[str, int]] = dict,
    on_documents: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Statistics of the two sides of a corpus, as plain data. ``counts`` tells at the end what the first met."""
    held_out, main = _Side(), _Side()
    for texts in validation:
        held_out.add(texts)
        on_documents(held_out.documents)
    compared = shared = 0
    for texts in train:
        near = main.add(texts)
        inside, seen = held_out.near_copies.contains(np.unique(near))
        compared, shared = compared + inside, shared + seen
        on_documents(held_out.documents + main.documents)
    described = {
        "splits": {"train": main.to_dict(), "validation": held_out.to_dict()},
        "counts": dict(counts()),
        "leaked_documents": shared,
        "leak_exact": held_out.near_copies.exact,
        "common_characters": [[character, count] for character, count in main.alphabet.most_common(50)],
        "rare_characters": [[character, count] for character, count in main.alphabet.most_common()[:-51:-1]],
    }
    return described | {"findings": [finding.to_dict() for finding in _findings(described)]}


def _hashes(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _letters(text: str) -> str:
    """A text without what near copies may differ in; one without letters stays as it is."""
    return _NOT_LETTERS.sub(" ", text).strip().casefold() or text


def _findings(described: Mapping[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    train, validation = described["splits"]["train"], described["splits"]["validation"]
    if train["duplicate_share"] > 0.01:
        message = f"{percent(train['duplicate_share'])} of the documents are copies of another"
        findings.append(Finding("warning", message, "remove copies: they are trained on again and again"))
    near = train["near_duplicate_share"] - train["duplicate_share"]
    if near > 0.05:
        message = f"{percent(near)} more differ from another only in case, digits, punctuation or spacing"
        findings.append(Finding("info", message, "templates and lists do that; thin them out if they are noise"))
    if described["leaked_documents"]:
        message = f"{described['leaked_documents']:,} of the training documents are (nearly) in the validation text too"
        hint = "the evaluation loss is too good by that much: take them out of one side"
        findings.append(Finding("warning", message, hint))
    broken = train["broken_encodings"] + validation["broken_encodings"]
    if broken:
        message = f"{broken:,} documents look like UTF-8 that was read as Latin-1 (Ã©, â€™)"
        findings.append(Finding("warning", message, "convert the source again, with the right encoding"))
    if undecodable := described["counts"].get("undecodable", 0):
        message = f"{undecodable:,} documents hold bytes that are not UTF-8 (kept, marked by U+FFFD)"
        findings.append(Finding("warning", message, "convert the source to UTF-8"))
    return findings
