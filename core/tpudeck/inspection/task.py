"""Statistics as tasks of a child process, kept by content: what was inspected once is known at once.

A kept result is named by what was looked at (hashes, never paths) and by the version of the statistics; it is a cache
and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.config import Home
from tpudeck.corpus import fingerprint, open_corpus
from tpudeck.inspection.corpora import inspect_corpus
from tpudeck.inspection.shards import inspect_shards
from tpudeck.inspection.tokenizers import inspect_tokenizer
from tpudeck.shards import ShardSet, open_set
from tpudeck.storage import read_json, write_json
from tpudeck.tokenizer import load
from tpudeck.tokenizer.loaded import manifest_of
from tpudeck.tokenizer.survey import even_sample

if TYPE_CHECKING:
    from tpudeck.jobs import Job

__all__ = ["corpus_task", "known_shards", "shards_task", "tokenizer_task"]

SAMPLE_MB = 8.0
"""Text that a tokenizer is tried on, unless the request says otherwise."""

_VERSION = 1
"""Goes up when statistics change."""


def shards_task(job: Job) -> dict[str, Any]:
    """``inspect-shards``: the request names the folder (``shards``)."""
    shards = open_set(job.request()["shards"])

    def on_sequences(done: int, total: int) -> None:
        job.check_stop()
        job.progress(done, total, "sequences")

    return _kept(job.home, _shards_identity(shards), lambda: inspect_shards(shards, on_sequences)) | {
        "folder": str(shards.folder)
    }


def tokenizer_task(job: Job) -> dict[str, Any]:
    """``inspect-tokenizer``: the request names the folder (``tokenizer``), and how much text to try (``sample_mb``)."""
    request, corpus = job.request(), job.experiment().corpus
    tokenizer = load(request["tokenizer"])
    sample_mb = float(request.get("sample_mb", SAMPLE_MB))
    asked = manifest_of(tokenizer.folder).get("requested_vocab_size")
    identity = {"tokenizer": tokenizer.hash, "asked": asked, "corpus": fingerprint(corpus), "sample_mb": sample_mb}

    def compute() -> dict[str, Any]:
        documents = open_corpus(corpus, "train")
        sample = list(even_sample(_watched(job, documents), round(sample_mb * 1e6)))
        total = sum(map(len, sample))
        return inspect_tokenizer(
            tokenizer,
            sample,
            whole_text=total == documents.counts.documents,
            requested_vocab_size=asked,
            on_documents=lambda done: _tell(job, done, total),
        )

    return _kept(job.home, identity, compute) | {"folder": str(tokenizer.folder)}


def corpus_task(job: Job) -> dict[str, Any]:
    """``inspect-corpus``: the corpus of the experiment."""
    corpus = job.experiment().corpus

    def compute() -> dict[str, Any]:
        train, validation = open_corpus(corpus, "train"), open_corpus(corpus, "validation")
        return inspect_corpus(
            train, validation, lambda: train.counts.to_dict(), on_documents=lambda done: _tell(job, done, None)
        )

    return _kept(job.home, {"corpus": fingerprint(corpus)}, compute) | {"source": corpus.source}


def _watched(job: Job, documents: Iterable[list[str]]) -> Iterator[list[str]]:
    done = 0
    for texts in documents:
        done += len(texts)
        _tell(job, done, None)
        yield texts


def _tell(job: Job, documents: int, total: int | None) -> None:
    job.check_stop()
    job.progress(documents, total, "documents")


def known_shards(home: Home, folder: Path) -> dict[str, Any] | None:
    """The statistics of a set that was inspected before, at once."""
    shards = open_set(folder)
    found = _find(home, _shards_identity(shards))
    return found | {"folder": str(folder)} if found else None


def _shards_identity(shards: ShardSet) -> dict[str, Any]:
    if shards.manifest:
        return {"shards": shards.manifest.hash}
    files = [path for split in shards.splits for path in shards.split(split).files]
    return {"files": [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]}


def _kept(home: Home, identity: Mapping[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result found under its identity, or computed and kept."""
    if found := _find(home, identity):
        return found | {"cached": True}
    result = compute()
    path = _path(home, identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    return result | {"cached": False}


def _find(home: Home, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return dict(read_json(_path(home, identity)))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None


def _path(home: Home, identity: Mapping[str, Any]) -> Path:
    name = hashlib.sha256(orjson.dumps({"version": _VERSION, **identity}, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return home.cache / "inspection" / f"{name[:32]}.json"
