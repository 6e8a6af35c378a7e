"""The task ``shards``: what an experiment says, made into a shard set, or found ready.

A set is known by what goes into it: text, tokenizer, settings and the library that encodes. Their hash names its
folder, so the same input is never encoded twice, and nothing made from other input can be taken for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson

import tpudeck
from tpudeck.corpus import Documents, fingerprint, open_corpus
from tpudeck.errors import ArtefactError, InputError
from tpudeck.presets import Experiment
from tpudeck.runs.events import Noticed, PhaseChanged
from tpudeck.shards.build import SPLITS, build
from tpudeck.shards.checked import check_once, remember
from tpudeck.shards.manifest import FORMAT_VERSION, MANIFEST_FILE, PACKING_VERSION, Packing, SplitSummary
from tpudeck.shards.sets import ShardSet, open_set
from tpudeck.storage import is_bucket, read_json
from tpudeck.tokenizer import LoadedTokenizer, load

if TYPE_CHECKING:
    from tpudeck.config import Home
    from tpudeck.jobs import Job

__all__ = ["build_shards", "packing_of", "ready", "set_key"]

_PROMISE_S = 120.0
"""Progress is written at every batch; only fingerprinting a large corpus, and skipping what is done, are silent."""


def build_shards(job: Job, processes: int | None = None) -> dict[str, Any]:
    """Make the shard set of an experiment with the tokenizer of this run, or find it ready.

    The request may name another tokenizer (``tokenizer``) and a place (``out``).
    """
    experiment, request = job.experiment(), job.request()
    job.writer.event(PhaseChanged(phase="shards", promise_s=_PROMISE_S))
    tokenizer = _tokenizer(job.folder, request)
    packing = packing_of(experiment)
    if experiment.shards.source:
        return _existing(experiment.shards.source, tokenizer, job)
    identity = fingerprint(experiment.corpus)
    key = set_key(identity, tokenizer.hash, packing)
    folder = Path(request["out"]) if request.get("out") else job.home.shards / key
    cached = (folder / MANIFEST_FILE).exists()

    def open_documents(split: Literal["train", "validation"]) -> Documents:
        return open_corpus(experiment.corpus, split)

    made = build(
        folder,
        key=key,
        packing=packing,
        tokenizer=tokenizer,
        open_documents=open_documents,
        corpus_fingerprint=identity,
        versions=_versions(),
        reporter=job,
        processes=processes,
    )
    if cached:
        check_once(made, job.home, job)
    else:
        remember(made, job.home)
    result = describe(made) | {"cached": cached}
    for split in SPLITS:
        job.writer.event(Noticed(message=_in_words(split, result[split])))
    return result


def _existing(source: str, tokenizer: LoadedTokenizer, job: Job) -> dict[str, Any]:
    """A set that was made before, wherever it is, as the result of this task."""
    shards = open_set(source)
    shards.require_tokenizer(tokenizer.hash, tokenizer.folder)
    if not is_bucket(source):
        check_once(shards, job.home, job)
    return describe(shards) | {"cached": True}


def ready(experiment: Experiment, home: Home) -> Path | None:
    """The folder of an experiment's shard set, where it was made before."""
    from tpudeck.tokenizer.stage import ready as tokenizer_ready

    if source := experiment.shards.source:
        return None if is_bucket(source) else Path(source)
    tokenizer = tokenizer_ready(experiment, home)
    if tokenizer is None:
        return None
    key = set_key(fingerprint(experiment.corpus), load(tokenizer).hash, packing_of(experiment))
    folder = home.shards / key
    return folder if (folder / MANIFEST_FILE).exists() else None


def _in_words(split: str, about: Mapping[str, int]) -> str:
    return (
        f"{split}: {about['documents']:,} documents became {about['sequences']:,} sequences of "
        f"{about['tokens']:,} tokens in all; {about['dropped_tokens']:,} tokens at the end were dropped"
    )


def _versions() -> dict[str, str]:
    import tokenizers

    return {"tpudeck": tpudeck.__version__, "tokenizers": tokenizers.__version__, "numpy": np.__version__}


def packing_of(experiment: Experiment) -> Packing:
    """What an experiment says about sequences and files."""
    shards = experiment.shards
    return Packing(
        sequence_length=shards.sequence_length,
        layout=shards.layout,
        shard_sequences=shards.shard_sequences,
        enclosed=experiment.objective == "masked",
    )


def set_key(corpus_fingerprint: str, tokenizer_hash: str, packing: Packing) -> str:
    """The name of a set: a hash of everything that decides what is in it."""
    versions = [FORMAT_VERSION, PACKING_VERSION, _versions()["tokenizers"]]
    made_from = [*versions, corpus_fingerprint, tokenizer_hash, packing]
    return hashlib.sha256(orjson.dumps(made_from)).hexdigest()[:32]


def describe(shards: ShardSet) -> dict[str, Any]:
    """A finished set as the result of a task."""
    manifest = shards.manifest
    if manifest is None:
        raise ArtefactError(f"{shards.folder} has no manifest")
    return {
        "folder": shards.location,
        "key": manifest.key,
        "hash": manifest.hash,
        "layout": manifest.packing.layout,
        "sequence_length": manifest.packing.sequence_length,
        "vocab_size": shards.vocab_size,
        "tokenizer_hash": shards.tokenizer_hash,
        **{name: _describe_split(manifest.splits[name]) for name in SPLITS},
    }


def _describe_split(split: SplitSummary) -> dict[str, Any]:
    tally = split.tally
    return {
        "sequences": split.sequences,
        "tokens": split.tokens,
        "documents": tally.documents,
        "dropped_tokens": split.dropped_tokens,
        "padding_tokens": 0,
        "cut_documents": tally.cut_documents,
        "files": len(split.files),
        "bytes": sum(file.size_bytes for file in split.files),
    }


def _tokenizer(folder: Path, request: Mapping[str, Any]) -> LoadedTokenizer:
    """The one that was asked for, or the one that the tokenizer stage of this run made."""
    if request.get("tokenizer"):
        return load(request["tokenizer"])
    path = folder / "results" / "tokenizer.json"
    if not path.exists():
        raise InputError("shards need a tokenizer, and this run has made none", hint="run its tokenizer stage first")
    made = read_json(path)["result"]
    tokenizer = load(made["folder"])
    if tokenizer.hash != made["hash"]:
        raise ArtefactError(
            f"the tokenizer in {made['folder']} is {tokenizer.hash[:12]}, and this run made {made['hash'][:12]}",
            hint="the file was changed since: start a new run",
        )
    return tokenizer
