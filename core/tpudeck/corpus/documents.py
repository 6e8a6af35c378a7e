"""From rows, whatever they hold, to clean documents, with every decision counted.

A row is what a reader found: text, nothing, or something else. Text becomes a document: stripped of surrounding white
space and of NUL characters, cut where it is longer than :data:`MAX_DOCUMENT_CHARACTERS`. Which side of the validation
split a document belongs to follows from its text alone, so it never moves, in whatever order or company it is read, and
copies of a document are never on both sides.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tpudeck.errors import CorpusError

__all__ = ["MAX_DOCUMENT_CHARACTERS", "CorpusCounts", "Documents", "HeldOut", "is_held_out"]

MAX_DOCUMENT_CHARACTERS = 100_000
"""Longer documents are cut at white space: some tokenizers take more than linear time on very long text."""

_BATCH_DOCUMENTS = 1000
_BATCH_CHARACTERS = 1_000_000


@dataclass
class CorpusCounts:
    """What a pass over a corpus met so far."""

    documents: int = 0
    """Documents given out (a cut one counts once per piece)."""
    characters: int = 0
    bytes: int = 0
    """Of the documents given out, in UTF-8."""
    files: int = 0
    skipped_files: int = 0
    """Files of a folder whose suffix says that they hold no text."""
    held_out: int = 0
    """Documents that belong to the other side of the validation split."""
    blank: int = 0
    """Rows of white space only."""
    null: int = 0
    """Rows without a value in the column."""
    wrong_type: int = 0
    """Rows whose value is not text."""
    malformed: int = 0
    """Lines that are not JSON objects, or not CSV."""
    undecodable: int = 0
    """Documents with U+FFFD, which stands for bytes that were not UTF-8, here or wherever the text was made."""
    nul: int = 0
    """Documents that held NUL characters; these are removed."""
    cut: int = 0
    """Documents longer than the limit, cut into pieces."""

    def to_dict(self) -> dict[str, int]:
        return dataclasses.asdict(self)

    def oddities(self) -> dict[str, int]:
        """What a person should hear of, in words, where there is any."""
        words = {
            "malformed": "malformed lines skipped",
            "null": "rows without a value skipped",
            "wrong_type": "rows that are not text skipped",
            "undecodable": "documents with bytes that are not UTF-8 (kept, marked by U+FFFD)",
            "nul": "documents with NUL characters (removed)",
            "cut": f"documents longer than {MAX_DOCUMENT_CHARACTERS:,} characters cut into pieces",
            "skipped_files": "files skipped because their suffix is not one of text",
        }
        return {text: count for name, text in words.items() if (count := getattr(self, name))}


@dataclass(frozen=True)
class HeldOut:
    """A validation split by content hash."""

    fraction: float
    validation: bool
    """Whether the held-out documents are wanted, or the others."""


def is_held_out(document: bytes, fraction: float) -> bool:
    """Whether a document (UTF-8) is in the validation split: its hash, as a number in [0, 1), is below the fraction."""
    digest = hashlib.blake2b(document, digest_size=8).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64


Rows = Callable[[CorpusCounts], Iterator[list[Any]]]
"""Starts a pass: batches of rows, in order. The reader counts what never becomes a row."""


class Documents:
    """A corpus, or one side of it: iterate to get batches of documents. Every iteration is a new pass."""

    def __init__(
        self, rows: Rows, *, name: str, held_out: HeldOut | None = None, max_documents: int | None = None
    ) -> None:
        self.name = name
        self.counts = CorpusCounts()
        """Of the newest pass; grows while it goes on."""
        self._rows = rows
        self._held_out = held_out
        self._max_documents = max_documents

    def __iter__(self) -> Iterator[list[str]]:
        counts = self.counts = CorpusCounts()
        batch: list[str] = []
        room = _BATCH_CHARACTERS
        for text in self._wanted(counts):
            batch.append(text)
            room -= len(text)
            if room <= 0 or len(batch) == _BATCH_DOCUMENTS:
                yield batch
                batch, room = [], _BATCH_CHARACTERS
        if batch:
            yield batch
        if not counts.documents:
            self._explain_emptiness(counts)

    def _explain_emptiness(self, counts: CorpusCounts) -> None:
        """Raise where nothing was found, or nothing to train on; an empty validation side is no error here."""
        if not counts.held_out:
            raise CorpusError(f"{self.name} holds no text{_why(counts)}")
        if self._held_out is not None and not self._held_out.validation:
            raise CorpusError(
                f"{self.name} leaves nothing to train on: all of its {counts.held_out:,} documents fall to validation",
                hint="give more text, or a smaller corpus.validation_fraction",
            )

    def _wanted(self, counts: CorpusCounts) -> Iterator[str]:
        """The documents of this side, cut to length and counted."""
        left = self._max_documents
        for rows in self._rows(counts):
            for row in rows:
                document = _clean(row, counts)
                if document is None:
                    continue
                if left is not None:
                    if left == 0:
                        return
                    left -= 1
                encoded = document.encode()
                if self._held_out and is_held_out(encoded, self._held_out.fraction) != self._held_out.validation:
                    counts.held_out += 1
                    continue
                counts.characters += len(document)
                counts.bytes += len(encoded)
                if len(document) <= MAX_DOCUMENT_CHARACTERS:
                    counts.documents += 1
                    yield document
                else:
                    counts.cut += 1
                    for piece in _pieces(document):
                        counts.documents += 1
                        yield piece

    def to_dict(self) -> dict[str, Any]:
        return {"source": self.name, **self.counts.to_dict()}


def _clean(row: Any, counts: CorpusCounts) -> str | None:
    if not isinstance(row, str):
        if row is None:
            counts.null += 1
        else:
            counts.wrong_type += 1
        return None
    text = row
    if "\0" in text:
        counts.nul += 1
        text = text.replace("\0", "")
    text = text.strip()
    if not text:
        counts.blank += 1
        return None
    if not text.isascii():
        text = _encodable(text)
        counts.undecodable += "\N{REPLACEMENT CHARACTER}" in text
    return text


def _encodable(text: str) -> str:
    """Text without halves of UTF-16 pairs, which no encoding can write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= mark <= "\udfff" else mark for mark in text)
    return text


def _pieces(document: str) -> Iterator[str]:
    """A long document cut at white space, or mid-word where there is none in the second half of a piece."""
    start = 0
    while len(document) - start > MAX_DOCUMENT_CHARACTERS:
        end = start + MAX_DOCUMENT_CHARACTERS
        space = max(document.rfind(mark, start + MAX_DOCUMENT_CHARACTERS // 2, end) for mark in (" ", "\n"))
        end = space if space > 0 else end
        piece = document[start:end].strip()
        if piece:
            yield piece
        start = end
    if rest := document[start:].strip():
        yield rest


def _why(counts: CorpusCounts) -> str:
    parts = [f"{counts.blank:,} blank lines or rows"] if counts.blank else []
    parts += [f"{what}: {count:,}" for what, count in counts.oddities().items()]
    return f": {', '.join(parts)}" if parts else ""
