"""From the experiment's words to a stream of documents, and to what identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import orjson

from tpudeck import storage
from tpudeck.config import Home
from tpudeck.corpus import builtin, files, hub
from tpudeck.corpus.documents import MAX_DOCUMENT_CHARACTERS, CorpusCounts, Documents, HeldOut, Rows
from tpudeck.presets.schema import Corpus

__all__ = ["Split", "fingerprint", "open_corpus"]

Split = Literal["train", "validation"]

_FORMAT = 1
"""Goes up when the same source gives other documents than before."""
_HASHED_BYTES = 4 << 30
"""Files of more than this in all are not read to tell what they are: it would take longer than a few seconds."""


def open_corpus(settings: Corpus, split: Split) -> Documents:
    """One side of a corpus, as a stream that can be read again and again.

    Raises :class:`~tpudeck.errors.CorpusError` here where there is nothing to open, and while reading where a file is
    damaged, has no such column, or the whole holds no text.
    """
    rows: Rows
    held_out: HeldOut | None = HeldOut(settings.validation_fraction, split == "validation")
    if settings.source == "builtin":
        rows = _builtin_rows
    elif settings.source.startswith("hub:"):
        rows = _hub_rows(settings, split)
        held_out = None if settings.validation_split else held_out
    else:
        rows = _file_rows(settings)
    return Documents(rows, name=settings.source, held_out=held_out, max_documents=settings.max_documents)


def _builtin_rows(_counts: CorpusCounts) -> Iterator[list[Any]]:
    yield list(builtin.documents())


def _file_rows(settings: Corpus) -> Rows:
    found, skipped = files.find_files(settings.source)

    def rows(counts: CorpusCounts) -> Iterator[list[Any]]:
        counts.skipped_files = skipped
        for name in found:
            counts.files += 1
            yield from files.rows(name, column=settings.column, unit=settings.document, counts=counts)

    return rows


def _hub_rows(settings: Corpus, split: Split) -> Rows:
    name = hub.split_id(settings.source)
    wanted = settings.validation_split if split == "validation" and settings.validation_split else settings.split

    def rows(_counts: CorpusCounts) -> Iterator[list[Any]]:
        revision = hub.commit(name, settings.revision, home=Home.here())
        return hub.rows(name, config=settings.config, split=wanted, column=settings.column, revision=revision)

    return rows


def fingerprint(settings: Corpus) -> str:
    """Identity of the documents that :func:`open_corpus` gives, in hexadecimal.

    Files count by content and order, not by name or place, so a corpus that is moved stays the same; objects in a
    bucket, and files of more than :data:`_HASHED_BYTES` together, by size and version (a file's time of change). A data
    set on the Hub counts by its commit. What decides how all of these are read counts too: column, split, limits.
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
    if settings.source.startswith("hub:"):
        name = hub.split_id(settings.source)
        commit = hub.commit(name, settings.revision, home=Home.here())
        return [name, commit, settings.config, settings.split, settings.validation_split, settings.column]
    found, _ = files.find_files(settings.source)
    stats = [storage.stat(name) for name in found]
    hashed = sum(stat.size_bytes for stat in stats) <= _HASHED_BYTES and not storage.is_bucket(settings.source)
    identities = [
        storage.hash_file(Path(stat.location)) if hashed else [stat.location, stat.size_bytes, stat.version]
        for stat in stats
    ]
    kinds = [files.kind_of(name) for name in found]
    return {"column": settings.column, "document": settings.document, "files": [*zip(kinds, identities, strict=True)]}
