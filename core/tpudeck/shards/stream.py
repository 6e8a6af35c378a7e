"""The stream of tokens on its way into files: cut into sequences, written shard after shard, noted in the ledger."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import google_crc32c
import numpy as np
import numpy.typing as npt

from tpudeck.errors import DiskFullError, disk_is_full
from tpudeck.shards.layouts import Layout
from tpudeck.shards.ledger import Ledger
from tpudeck.shards.manifest import Packing, ShardFile

__all__ = ["Stream"]

Tokens = npt.NDArray[np.uint32]


class Stream:
    """The token stream of a split. It goes on where the ledger ends: what is written already is passed over."""

    def __init__(
        self,
        folder: Path,
        split: str,
        packing: Packing,
        layout: Layout,
        ledger: Ledger,
        on_write: Callable[[Tokens], None],
    ) -> None:
        self._folder, self._split, self._layout, self._ledger, self._on_write = folder, split, layout, ledger, on_write
        self._state = state = ledger.split(split)
        self._length = packing.sequence_length
        self._shard_sequences = packing.shard_sequences
        self._shard: _Shard | None = None
        self._tokens = np.zeros(0, dtype=np.uint32)
        self._ends = np.zeros(0, dtype=np.int64)
        self._end = state.tally.document_tokens
        self.sequences = sum(file.sequences for file in state.files)
        self._already_written = self.sequences * self._length - self._end

    def add(self, tokens: Tokens, lengths: npt.NDArray[np.int64]) -> None:
        """Take the next documents, and write the sequences that are full."""
        ends = self._end + np.cumsum(lengths)
        self._ends = np.concatenate([self._ends, ends])
        self._end = int(ends[-1]) if len(ends) else self._end
        self._tokens = np.concatenate([self._tokens, tokens[self._already_written :]])
        self._already_written = max(0, self._already_written - len(tokens))
        while full := len(self._tokens) // self._length:
            if self._shard is None:
                self._shard = _Shard(self._folder, self._split, len(self._state.files), self._layout)
            count = min(full, self._shard_sequences - self._shard.sequences)
            used = count * self._length
            ids_NS = self._tokens[:used].reshape(count, self._length)
            self._shard.write(ids_NS)
            self._on_write(ids_NS)
            self._tokens = self._tokens[used:]
            self.sequences += count
            if self._shard.sequences == self._shard_sequences:
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
        self._ledger.finish(self._split, self._state.tally, len(self._tokens), counts)

    def close(self) -> None:
        """Leave an unfinished shard behind; the build that goes on writes over it."""
        if self._shard is not None:
            self._shard.abandon()

    def _close_shard(self, shard: _Shard) -> None:
        file = shard.close()
        self._shard = None
        self._tally(self.sequences * self._length)
        self._ledger.append(self._split, file, self._state.tally)

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

    def write(self, ids_NS: Tokens) -> None:
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
