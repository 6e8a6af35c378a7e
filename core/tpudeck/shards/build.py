"""Building a shard set: documents in, fixed-length sequences in TFRecord files out.

Every document becomes ``[bos] tokens [eos]`` (for a causal model ``tokens [eos]``); the documents of a split, one after
the other, are one stream of tokens, and the stream is cut into sequences. Nothing is padded, and all that is dropped is
the end of the stream, less than one sequence per split: it is counted.

Documents are encoded by the batch (:mod:`~tpudeck.tokenizer.encoding`); everything else is arithmetic on arrays. Memory
holds a batch and the documents of the shard being written, never the corpus. The bytes do not depend on the number of
processes, nor on where a build was interrupted and went on (see :mod:`~tpudeck.shards.ledger`).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError, CorpusError, InputError
from tpudeck.shards.layouts import Layout, layout_named
from tpudeck.shards.ledger import LEDGER_FILE, Ledger
from tpudeck.shards.manifest import COUNTS_FILE, Manifest, Packing, ShardFile, SplitSummary, content_hash
from tpudeck.shards.sets import ShardSet, open_set
from tpudeck.shards.stream import Stream
from tpudeck.storage import write_atomic
from tpudeck.tfrecord import read_records
from tpudeck.tokenizer.encoding import Encoded, encode_batches

if TYPE_CHECKING:
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["SPLITS", "Reporter", "build"]

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")
_LOCK_FILE = ".lock"


class Text(Protocol):
    """The documents of a split in batches, in the same order at every pass; :class:`~tpudeck.corpus.Documents`."""

    def __iter__(self) -> Iterator[list[str]]: ...

    @property
    def counts(self) -> Counts:
        """What the newest pass met."""


class Counts(Protocol):
    def to_dict(self) -> dict[str, int]: ...


class Reporter(Protocol):
    """What a build tells and asks while it works; a :class:`~tpudeck.jobs.Job` is one."""

    def progress(self, done: float, total: float | None, unit: str, **more: Any) -> None: ...

    def check_stop(self) -> None: ...


def build(
    folder: Path,
    *,
    key: str,
    packing: Packing,
    tokenizer: LoadedTokenizer,
    open_documents: Callable[[Split], Text],
    corpus_fingerprint: str,
    versions: Mapping[str, str],
    reporter: Reporter,
    processes: int | None = None,
) -> ShardSet:
    """Build the set in a folder, or go on with it, or find it finished.

    ``open_documents`` gives the text of a split; ``versions`` are noted in the manifest. ``processes`` encode; none: as
    many as are of use.
    """
    with _gone_if_empty(folder), _lock(folder, reporter):
        _check_place(folder, key)
        if Manifest.load(folder) is None:
            layout = layout_named(
                packing.layout, sequence_length=packing.sequence_length, vocab_size=tokenizer.vocab_size
            )
            ledger = Ledger(folder, key)
            writer = _Writer(folder, packing, layout, tokenizer, ledger, reporter, processes)
            try:
                for split in reversed(SPLITS):  # the small one first: too little text is found early
                    writer.write_split(split, open_documents(split))
            except InputError:
                if not ledger.split("train").files:  # nothing is lost, and nothing half-written is left
                    for split in SPLITS:
                        shutil.rmtree(folder / split, ignore_errors=True)
                    (folder / LEDGER_FILE).unlink(missing_ok=True)
                raise
            _finish(folder, key, packing, tokenizer, writer, corpus_fingerprint, versions)
    return open_set(folder)


def _finish(
    folder: Path,
    key: str,
    packing: Packing,
    tokenizer: LoadedTokenizer,
    writer: _Writer,
    corpus_fingerprint: str,
    versions: Mapping[str, str],
) -> None:
    """Write what belongs beside the shards, the manifest last."""
    splits: dict[str, SplitSummary] = {
        name: writer.ledger.split(name).summary(packing.sequence_length) for name in SPLITS
    }
    counts = io.BytesIO()
    np.save(counts, writer.train_counts, allow_pickle=False)
    write_atomic(folder / COUNTS_FILE, counts.getvalue())
    about_tokenizer = {
        "hash": tokenizer.hash,
        "vocab_size": tokenizer.vocab_size,
        "special_ids": list(tokenizer.special_ids),
        "bos_id": tokenizer.bos_id,
        "eos_id": tokenizer.eos_id,
        "unk_id": tokenizer.unk_id,
        "pad_id": tokenizer.pad_id,
        "mask_id": tokenizer.mask_id,
    }
    hash_ = content_hash(key, splits)
    Manifest(key, hash_, packing, about_tokenizer, corpus_fingerprint, versions, splits).save(folder)
    (folder / LEDGER_FILE).unlink()


class _Writer:
    """Writes the splits of a set."""

    def __init__(
        self,
        folder: Path,
        packing: Packing,
        layout: Layout,
        tokenizer: LoadedTokenizer,
        ledger: Ledger,
        reporter: Reporter,
        processes: int | None,
    ) -> None:
        self.folder = folder
        self.packing = packing
        self.layout = layout
        self.tokenizer = tokenizer
        self.ledger = ledger
        self.reporter = reporter
        self.processes = processes
        self._characters = 0
        """Read so far, of the split that is being written."""
        self.train_counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        """How often each token occurs in the training split."""
        for file in ledger.split("train").files:
            self._count_again(file)

    def write_split(self, split: str, documents: Text) -> None:
        """Write what is missing of a split."""
        state = self.ledger.split(split)
        if state.finished:
            return
        bos_id = self.tokenizer.bos_id if self.packing.enclosed else None
        missing = self._missing(documents, state.tally.documents)
        batches = encode_batches(self.tokenizer, missing, processes=self.processes)
        with contextlib.closing(self._stream(split)) as stream, contextlib.closing(batches):
            for encoded in batches:
                self._check(encoded)
                stream.add(*_marked(encoded, bos_id, self.tokenizer.eos_id))
                self.reporter.progress(self._characters, None, "characters", split=split, sequences=stream.sequences)
            if not stream.sequences:
                raise self._too_little(split, stream.tokens_left)
            stream.finish(documents.counts.to_dict())

    def _missing(self, documents: Text, done: int) -> Iterator[list[str]]:
        """The documents after those that are done."""
        self._characters = 0
        for texts in documents:
            self.reporter.check_stop()
            self._characters += sum(map(len, texts))
            new, done = texts[done:], max(0, done - len(texts))
            if new:
                yield new

    def _stream(self, split: str) -> Stream:
        on_write = self._count if split == "train" else lambda ids_NS: None
        return Stream(self.folder, split, self.packing, self.layout, self.ledger, on_write)

    def _too_little(self, split: str, tokens: int) -> CorpusError:
        larger = ", or a larger corpus.validation_fraction" if split == "validation" else ""
        return CorpusError(
            f"the {split} text gives {tokens} tokens, and one sequence needs {self.packing.sequence_length}",
            hint=f"give more text, or a shorter shards.sequence_length{larger}",
        )

    def _count_again(self, file: ShardFile) -> None:
        """Count the tokens of a shard that an earlier attempt wrote."""
        records = read_records(self.folder / file.name)
        while batch := [record.data for record in itertools.islice(records, 1024)]:
            self._count(self.layout.decode(batch))

    def _count(self, ids_NS: npt.NDArray[Any]) -> None:
        self.train_counts += np.bincount(ids_NS.ravel(), minlength=len(self.train_counts))

    def _check(self, encoded: Encoded) -> None:
        if (largest := int(encoded.ids.max(initial=0))) >= self.tokenizer.vocab_size:
            raise ArtefactError(
                f"the tokenizer in {self.tokenizer.folder} gives the id {largest}, "
                f"and its vocabulary has {self.tokenizer.vocab_size} entries"
            )


def _marked(encoded: Encoded, bos_id: int | None, eos_id: int) -> Encoded:
    """Documents with what begins and what ends them; one in which the tokenizer found nothing stays empty."""
    full = encoded.lengths > 0
    ends = np.cumsum(encoded.lengths)[full]
    starts = ends - encoded.lengths[full] if bos_id is not None else ends[:0]
    # Where one document ends the next begins: of marks for the same place the end comes first.
    marks = np.repeat([eos_id, bos_id or 0], [len(ends), len(starts)])
    ids = np.insert(encoded.ids, np.concatenate([ends, starts]), marks)
    return Encoded(ids, encoded.lengths + full * (1 if bos_id is None else 2))


def _check_place(folder: Path, key: str) -> None:
    """A set goes into a folder that is new, empty (hidden files don't count), or already its own."""
    manifest = Manifest.load(folder)
    if manifest is not None and manifest.key != key:
        raise ArtefactError(
            f"{folder} holds the shard set {manifest.key}, and the one asked for is {key}: "
            "text, tokenizer or settings differ",
            hint="remove the folder, or give another",
        )
    if manifest is None and not (folder / LEDGER_FILE).exists():
        other = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if other:
            raise ArtefactError(f"{folder} is not empty: it holds {other[0]}", hint="give a new folder")


@contextlib.contextmanager
def _gone_if_empty(folder: Path) -> Iterator[None]:
    """Leave no empty folder behind where nothing could be built; what else lies in it is somebody's."""
    try:
        yield
    except InputError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


@contextlib.contextmanager
def _lock(folder: Path, reporter: Reporter) -> Iterator[None]:
    """One build per folder: another waits, and then finds the set finished."""
    path = folder / _LOCK_FILE
    while (descriptor := _try_lock(path)) is None:
        reporter.check_stop()
        reporter.progress(0, None, "characters", waiting=f"another process builds {folder}")
        time.sleep(0.2)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """The descriptor that holds the lock, or none while another process does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):  # and not a file that its holder has removed
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
