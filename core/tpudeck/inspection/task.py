"""Statistics as tasks of a child process, kept by content: what was inspected once is known at once.

A kept result is named by what was looked at (hashes, never paths) and by the version of the statistics; it is a cache
and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck import storage
from tpudeck.config import Home
from tpudeck.corpus import fingerprint, open_corpus
from tpudeck.corpus.files import find_files
from tpudeck.inspection.corpora import inspect_corpus
from tpudeck.inspection.shards import inspect_shards
from tpudeck.inspection.tokenizers import inspect_tokenizer
from tpudeck.parallel import workers_for
from tpudeck.shards import ShardSet, open_set
from tpudeck.storage import read_json, write_json
from tpudeck.tokenizer import load
from tpudeck.tokenizer.loaded import manifest_of
from tpudeck.tokenizer.survey import even_sample

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.presets.schema import Corpus
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["corpus_task", "known_corpus", "known_shards", "known_tokenizer", "shards_task", "tokenizer_task"]

TOKENIZER_MB = 8.0
CORPUS_MB = 1000.0
SHARDS_MB = 4000.0
"""What is looked at unless the request says otherwise: text that a tokenizer is tried on, text, shards. Of more than
that a sample."""

FASTER_THAN_TEXT = 8
"""Shards are counted about so many times as fast as text: other processes are worth their start later."""
_MOST_COMPRESSION = 8.0
"""A file that unfolds to more than so many times its size is rare; such text is measured by reading it."""
_VERSION = 2
"""Goes up when statistics change."""


def shards_task(job: Job) -> dict[str, Any]:
    """``inspect-shards``: the request names the folder (``shards``), and how much of it to read (``sample_mb``)."""
    request = job.request()
    shards = open_set(request["shards"])
    size_mb, sample_mb = _size_mb(shards), _wanted_mb(request, SHARDS_MB)
    share = min(1.0, sample_mb / size_mb) if size_mb else 1.0

    def on_sequences(done: int, total: int) -> None:
        job.check_stop()
        job.progress(done, total, "sequences")

    def compute() -> dict[str, Any]:
        return inspect_shards(
            shards, on_sequences, share=share, workers=workers_for(share * size_mb * 1e6 / FASTER_THAN_TEXT)
        )

    return _kept(job.home, _shards_identity(shards, share), compute) | {"folder": str(shards.folder)}


def tokenizer_task(job: Job) -> dict[str, Any]:
    """``inspect-tokenizer``: the request names the folder (``tokenizer``), and how much text to try (``sample_mb``)."""
    request, corpus = job.request(), job.experiment().corpus
    tokenizer = load(request["tokenizer"])
    sample_mb = _wanted_mb(request, TOKENIZER_MB)

    def compute() -> dict[str, Any]:
        documents = open_corpus(corpus, "train")
        batches: Iterable[list[str]] = documents
        total = None
        if sample_mb < math.inf:
            batches = list(even_sample(_watched(job, documents), round(sample_mb * 1e6)))
            total = sum(map(len, batches))
        return inspect_tokenizer(
            tokenizer,
            batches,
            share=total / documents.counts.documents if total else 1.0,
            requested_vocab_size=_asked(tokenizer),
            on_documents=lambda done: _tell(job, done, total),
        )

    return _kept(job.home, _tokenizer_identity(tokenizer, corpus, sample_mb), compute) | {
        "folder": str(tokenizer.folder),
        "source": corpus.source,
    }


def corpus_task(job: Job) -> dict[str, Any]:
    """``inspect-corpus``: the corpus of the experiment, or so much of it (``sample_mb``)."""
    corpus = job.experiment().corpus
    sample_mb = _wanted_mb(job.request(), CORPUS_MB)

    def compute() -> dict[str, Any]:
        train, validation = open_corpus(corpus, "train"), open_corpus(corpus, "validation")
        size_mb = _text_mb(job, corpus, sample_mb)
        return inspect_corpus(
            train,
            validation,
            lambda: train.counts.to_dict(),
            on_documents=lambda done: _tell(job, done, None),
            share=min(1.0, sample_mb / size_mb) if size_mb else 1.0,
            workers=workers_for(size_mb * 1e6),
        )

    return _kept(job.home, _corpus_identity(corpus, sample_mb), compute) | {"source": corpus.source}


def _wanted_mb(request: Mapping[str, Any], usual: float) -> float:
    """How much to look at: everything for ``"all"``."""
    sample_mb = request.get("sample_mb") or usual
    return math.inf if sample_mb == "all" else float(sample_mb)


def _size_mb(shards: ShardSet) -> float:
    return sum(path.stat().st_size for split in shards.splits for path in shards.split(split).files) / 1e6


def _text_mb(job: Job, corpus: Corpus, sample_mb: float) -> float:
    """How much text there is: as the sizes of its files say, where that is no more than is wanted; else by reading."""
    if corpus.source != "builtin" and not corpus.source.startswith("hub:"):
        names, _ = find_files(corpus.source)
        stored_mb = sum(storage.stat(name).size_bytes for name in names) / 1e6
        if stored_mb * _MOST_COMPRESSION <= sample_mb:
            return stored_mb
    documents = open_corpus(corpus, "train")
    for _ in _watched(job, documents):
        pass
    return documents.counts.bytes / 1e6


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
    """The statistics of a set that was inspected before (all of it, if that was ever done), at once."""
    shards = open_set(folder)
    size_mb = _size_mb(shards)
    shares = [1.0, min(1.0, SHARDS_MB / size_mb) if size_mb else 1.0]
    found = next(filter(None, (_find(home, _shards_identity(shards, share)) for share in shares)), None)
    return found | {"folder": str(folder)} if found else None


def known_tokenizer(home: Home, tokenizer: LoadedTokenizer, corpus: Corpus) -> dict[str, Any] | None:
    """The statistics of a tokenizer on a text where they were computed before."""
    found = _find(home, _tokenizer_identity(tokenizer, corpus, TOKENIZER_MB))
    return found | {"folder": str(tokenizer.folder), "source": corpus.source} if found else None


def known_corpus(home: Home, corpus: Corpus) -> dict[str, Any] | None:
    """The statistics of a text where they were computed before."""
    found = _find(home, _corpus_identity(corpus, CORPUS_MB))
    return found | {"source": corpus.source} if found else None


def _shards_identity(shards: ShardSet, share: float) -> dict[str, Any]:
    if shards.manifest:
        return {"shards": shards.manifest.hash, "share": share}
    files = [path for split in shards.splits for path in shards.split(split).files]
    return {"files": [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files], "share": share}


def _tokenizer_identity(tokenizer: LoadedTokenizer, corpus: Corpus, sample_mb: float) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.hash,
        "asked": _asked(tokenizer),
        "corpus": fingerprint(corpus),
        "sample_mb": _named_mb(sample_mb),
    }


def _corpus_identity(corpus: Corpus, sample_mb: float) -> dict[str, Any]:
    return {"corpus": fingerprint(corpus), "sample_mb": _named_mb(sample_mb)}


def _named_mb(sample_mb: float) -> float | str:
    return "all" if sample_mb == math.inf else sample_mb


def _asked(tokenizer: LoadedTokenizer) -> int | None:
    asked = manifest_of(tokenizer.folder).get("requested_vocab_size")
    return asked if isinstance(asked, int) else None


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
