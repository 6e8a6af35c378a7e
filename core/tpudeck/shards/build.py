"""Building a shard set: documents in, fixed-length sequences in TFRecord files out.

Every document becomes ``[bos] tokens [eos]`` (for a causal model ``tokens [eos]``); the documents of a split, one after
the other, are one stream of tokens, and the stream is cut into sequences. Nothing is padded, and all that is dropped is
the end of the stream, less than one sequence per split: it is counted.

The tokenizer's own threads encode a batch of documents at a time; everything else is arithmetic on arrays. Memory holds
a batch and the documents of the shard being written, never the corpus. The bytes do not depend on the number of
threads, nor on where a build was interrupted and went on (see :mod:`~tpudeck.shards.ledger`).
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

import google_crc32c
import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError, CorpusError, DiskFullError, InputError, disk_is_full
from tpudeck.shards.layouts import Layout, layout_named
from tpudeck.shards.ledger import LEDGER_FILE, Ledger, SplitState
from tpudeck.shards.manifest import COUNTS_FILE, Manifest, Packing, ShardFile, SplitSummary, content_hash
from tpudeck.shards.sets import ShardSet, open_set
from tpudeck.storage import write_atomic
from tpudeck.tfrecord import read_records

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
) -> ShardSet:
    """Build the set in a folder, or go on with it, or find it finished.

    ``open_documents`` gives the text of a split; ``versions`` are noted in the manifest.
    """
    with _lock(folder, reporter):
        _check_place(folder, key)
        if Manifest.load(folder) is None:
            layout = layout_named(
                packing.layout, sequence_length=packing.sequence_length, vocab_size=tokenizer.vocab_size
            )
            ledger = Ledger(folder, key)
            writer = _Writer(folder, packing, layout, tokenizer, ledger, reporter)
            try:
                for split in reversed(SPLITS):  # the small one first: too little text is found early
                    writer.write_split(split, open_documents(split))
            except InputError:
                if not ledger.split("train").files:
                    shutil.rmtree(folder)  # nothing is lost, and nothing half-written is left
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
    ) -> None:
        self.folder = folder
        self.packing = packing
        self.layout = layout
        self.tokenizer = tokenizer
        self.ledger = ledger
        self.reporter = reporter
        self.train_counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        """How often each token occurs in the training split."""
        for file in ledger.split("train").files:
            self._count_again(file)

    def write_split(self, split: str, documents: Text) -> None:
        """Write what is missing of a split."""
        state = self.ledger.split(split)
        if state.finished:
            return
        characters = 0
        done = state.tally.documents
        with contextlib.closing(_Stream(split, state, self)) as stream:
            for texts in documents:
                self.reporter.check_stop()
                new, done = texts[done:], max(0, done - len(texts))
                if new:
                    stream.add(*self._encode(new))
                characters += sum(map(len, texts))
                self.reporter.progress(characters, None, "characters", split=split, sequences=stream.sequences)
            if not stream.sequences:
                raise self._too_little(split, stream.tokens_left)
            stream.finish(documents.counts.to_dict())

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
            self.count(self.layout.decode(batch))

    def count(self, ids_NS: npt.NDArray[Any]) -> None:
        self.train_counts += np.bincount(ids_NS.ravel(), minlength=len(self.train_counts))

    def _encode(self, texts: list[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The tokens of some documents in a row, with what begins and ends each; and how many each document has."""
        before = [self.tokenizer.bos_id] if self.packing.enclosed else []
        stream: list[int] = []
        lengths: list[int] = []
        for ids in self._ids(texts):
            if ids:
                stream += before
                stream += ids
                stream.append(self.tokenizer.eos_id)
            lengths.append(len(ids) + len(before) + 1 if ids else 0)
        tokens = np.array(stream, dtype=np.uint32)
        if (largest := int(tokens.max(initial=0))) >= self.tokenizer.vocab_size:
            raise ArtefactError(
                f"the tokenizer in {self.tokenizer.folder} gives the id {largest}, "
                f"and its vocabulary has {self.tokenizer.vocab_size} entries"
            )
        return tokens, np.array(lengths, dtype=np.int64)

    def _ids(self, texts: list[str]) -> Iterator[list[int]]:
        try:
            encoded = self.tokenizer.rust.encode_batch_fast(texts, add_special_tokens=False)
        except Exception as error:  # the Rust side raises nothing more particular
            raise ArtefactError(
                f"the tokenizer in {self.tokenizer.folder} cannot encode this text: {error}",
                hint="a tokenizer needs an unknown token, or bytes to fall back on, for characters it has not seen",
            ) from error
        return (encoding.ids for encoding in encoded)


class _Stream:
    """The token stream of a split, on its way into shards."""

    def __init__(self, split: str, state: SplitState, writer: _Writer) -> None:
        self._split = split
        self._state = state
        self._writer = writer
        self._length = writer.packing.sequence_length
        self._shard: _Shard | None = None
        self._tokens = np.zeros(0, dtype=np.uint32)
        self._ends = np.zeros(0, dtype=np.int64)
        self._end = state.tally.document_tokens
        self.sequences = sum(file.sequences for file in state.files)
        self._already_written = self.sequences * self._length - self._end

    def add(self, tokens: npt.NDArray[np.uint32], lengths: npt.NDArray[np.int64]) -> None:
        """Take the next documents, and write the sequences that are full."""
        ends = self._end + np.cumsum(lengths)
        self._ends = np.concatenate([self._ends, ends])
        self._end = int(ends[-1]) if len(ends) else self._end
        self._tokens = np.concatenate([self._tokens, tokens[self._already_written :]])
        self._already_written = max(0, self._already_written - len(tokens))
        while full := len(self._tokens) // self._length:
            if self._shard is None:
                self._shard = _Shard(self._writer.folder, self._split, len(self._state.files), self._writer.layout)
            count = min(full, self._writer.packing.shard_sequences - self._shard.sequences)
            used = count * self._length
            ids_NS = self._tokens[:used].reshape(count, self._length)
            self._shard.write(ids_NS)
            if self._split == "train":
                self._writer.count(ids_NS)
            self._tokens = self._tokens[used:]
            self.sequences += count
            if self._shard.sequences == self._writer.packing.shard_sequences:
                self._close_shard(self._shard)

    @property
    def tokens_left(self) -> int:
        """Tokens that wait for more, to make a sequence."""
        return len(self._tokens)

    def finish(self, counts: Mapping[str, int]) -> None:
        """The stream has ended: close the last shard, drop what is too short for a sequence."""
        if self._shard is not None:
            self._close_shard(self._shard)
        self._tally(self._end)
        self._writer.ledger.finish(self._split, self._state.tally, len(self._tokens), counts)

    def close(self) -> None:
        """Leave an unfinished shard behind; the build that goes on writes over it."""
        if self._shard is not None:
            self._shard.abandon()

    def _close_shard(self, shard: _Shard) -> None:
        file = shard.close()
        self._shard = None
        self._tally(self.sequences * self._length)
        self._writer.ledger.append(self._split, file, self._state.tally)

    def _tally(self, position: int) -> None:
        """Count the documents that end at or before this place of the stream."""
        done = int(np.searchsorted(self._ends, position, side="right"))
        self._state.tally.add(self._ends[:done], self._length)
        self._ends = self._ends[done:]


class _Shard:
    """A file being written: aside, then given its name."""

    def __init__(self, folder: Path, split: str, index: int, layout: Layout) -> None:
        (folder / split).mkdir(exist_ok=True)
        self._folder, self._split, self._index, self._layout = folder, split, index, layout
        self._aside = folder / split / ".unfinished"
        self._file = self._aside.open("wb")
        self._crc32c = 0
        self._bytes = 0
        self.sequences = 0

    def write(self, ids_NS: npt.NDArray[np.uint32]) -> None:
        frames = self._layout.encode(ids_NS)
        with _room_for(self._aside):
            self._file.write(frames)
        self._crc32c = google_crc32c.extend(self._crc32c, frames)
        self._bytes += len(frames)
        self.sequences += len(ids_NS)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()

    def close(self) -> ShardFile:
        name = self._layout.file_name(self._split, self._index, self.sequences)
        with _room_for(self._aside), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._aside.replace(self._folder / name)
        return ShardFile(name, self.sequences, self._bytes, self._crc32c)


@contextlib.contextmanager
def _room_for(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not disk_is_full(error):
            raise
        path.unlink(missing_ok=True)
        raise DiskFullError(
            f"the disk is full: a shard in {path.parent} could not be written",
            hint="make room and give the same command again: it goes on with the shards that are finished",
        ) from error


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
