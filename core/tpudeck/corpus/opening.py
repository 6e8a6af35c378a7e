"""From the experiment's words to a stream of documents, and to what identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import orjson

from tpudeck import storage
from tpudeck.corpus import builtin, files
from tpudeck.corpus.documents import MAX_DOCUMENT_CHARACTERS, CorpusCounts, Documents, HeldOut
from tpudeck.presets.schema import Corpus

__all__ = ["Split", "fingerprint", "open_corpus"]

Split = Literal["train", "validation"]

_FORMAT = 1
"""Goes up when the same source gives other documents than before."""


def open_corpus(settings: Corpus, split: Split) -> Documents:
    """One side of a corpus, as a stream that can be read again and again.

    Raises :class:`~tpudeck.errors.CorpusError` here where there is nothing to open, and while reading where a file is
    damaged, has no such column, or the whole holds no text.
    """
    held_out = HeldOut(settings.validation_fraction, split == "validation")
    limit = settings.max_documents
    if settings.source == "builtin":
        return Documents(_builtin_rows, name="builtin", held_out=held_out, max_documents=limit)
    found, skipped = files.find_files(settings.source)

    def rows(counts: CorpusCounts) -> Iterator[list[Any]]:
        counts.skipped_files = skipped
        for name in found:
            counts.files += 1
            yield from files.rows(name, column=settings.column, unit=settings.document, counts=counts)

    return Documents(rows, name=settings.source, held_out=held_out, max_documents=limit)


def _builtin_rows(counts: CorpusCounts) -> Iterator[list[Any]]:
    yield list(builtin.documents())


def fingerprint(settings: Corpus) -> str:
    """Identity of the documents that :func:`open_corpus` gives, in hexadecimal.

    Files count by content and order, not by name or place, so a corpus that is moved stays the same. What decides how
    they are read counts too: column, split, limits.
    """
    identity = {
        "format": _FORMAT,
        "longest": MAX_DOCUMENT_CHARACTERS,
        "max_documents": settings.max_documents,
        "validation_fraction": settings.validation_fraction,
        "content": _content(settings),
    }
    return hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _content(settings: Corpus) -> Any:
    if settings.source == "builtin":
        return builtin.fingerprint()
    found, _ = files.find_files(settings.source)
    return {
        "column": settings.column,
        "document": settings.document,
        "files": [(files.kind_of(name) or "text", _file_identity(name)) for name in found],
    }


def _file_identity(name: str) -> str:
    return storage.hash_file(Path(name))
