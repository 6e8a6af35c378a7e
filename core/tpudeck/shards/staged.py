"""A shard set in a bucket: its files are copied here when they are needed, and a little before.

The copies lie in the cache of this machine, which is smaller than the set may be. Training takes sequences from one
group of shards after the other, so what has to be here is the group that is read and the one that comes next; a shard
that was not used for the longest time makes room for another.
"""

from __future__ import annotations

import base64
import functools
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from tpudeck.errors import ArtefactError
from tpudeck.shards.layouts import Layout
from tpudeck.shards.manifest import COUNTS_FILE, MANIFEST_FILE, Manifest, ShardFile
from tpudeck.shards.order import GROUP_SEQUENCES
from tpudeck.shards.sets import Mapped, Sequences, ShardSet, layout_of
from tpudeck.storage import bucket
from tpudeck.storage.bucket import Stored
from tpudeck.storage.cache import Cache, Held

__all__ = ["StagedSequences", "open_staged"]

_WORKERS = 4
"""Shards that are fetched at the same time."""


def open_staged(location: str) -> ShardSet:
    """Open a set in a bucket; :class:`ArtefactError` where it is not whole, found out before any shard is fetched."""
    location = location.rstrip("/")
    there = {stored.location.removeprefix(f"{location}/"): stored for stored in bucket.scan(f"{location}/")}
    about = [there[name] for name in (MANIFEST_FILE, COUNTS_FILE) if name in there]
    if len(about) < 2:
        raise ArtefactError(
            f"there is no shard set at {location}, or it is not whole",
            hint="tpudeck shards push sends one, and goes on where it was interrupted",
        )
    cache = Cache.here()
    folder = cache.hold(about).folder
    manifest = Manifest.load(folder)
    assert manifest is not None, "it was just fetched"
    for split in manifest.splits.values():
        for file in split.files:
            _require(file, there.get(file.name), location)
    return _StagedSet(location, folder, manifest, there, cache)


def _require(file: ShardFile, stored: Stored | None, location: str) -> None:
    if stored is None:
        raise ArtefactError(f"{location} is not whole: {file.name} is missing", hint="push it again")
    crc32c = int.from_bytes(base64.b64decode(stored.crc32c), "big")
    if (stored.size_bytes, crc32c) != (file.size_bytes, file.crc32c):
        raise ArtefactError(f"{stored.location} is not what the set's manifest says", hint="push the set again")


class _StagedSet(ShardSet):
    """The manifest and the counts are here; the files are where the bucket has them."""

    def __init__(
        self, location: str, folder: Path, manifest: Manifest, there: Mapping[str, Stored], cache: Cache
    ) -> None:
        files = {
            name: [(Path(file.name), file.sequences) for file in split.files] for name, split in manifest.splits.items()
        }
        super().__init__(folder, layout_of(manifest), files, manifest)
        self._location = location
        self._there = there
        self._cache = cache

    @property
    def location(self) -> str:
        return self._location

    def _sequences(self, files: list[Path], sizes: list[int], vocab_size: int) -> Sequences:
        stored = [self._there[path.as_posix()] for path in files]
        return StagedSequences(stored, sizes, self.layout, vocab_size, self._cache)


class StagedSequences(Sequences):
    """Sequences whose files are fetched when they are taken from, or when it is known that they will be."""

    def __init__(self, stored: list[Stored], sizes: list[int], layout: Layout, vocab_size: int, cache: Cache) -> None:
        super().__init__([Path(one.location) for one in stored], sizes, layout, vocab_size)
        self._stored = stored
        self._cache = cache
        self._coming: dict[int, Future[Held]] = {}
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="shards")
        # What is mapped is held: about one group, where others only have few descriptors to care for.
        self._open = functools.lru_cache(maxsize=GROUP_SEQUENCES // max(1, *sizes) + 2)(self._map)

    def prepare(self, shards: Iterable[int]) -> None:
        """Fetch these shards in this order, aside; what was prepared and is not among them is let go."""
        wanted = dict.fromkeys(shards)
        for shard in self._coming.keys() - wanted:
            self._coming.pop(shard).add_done_callback(_release)
        for shard in wanted:
            if shard not in self._coming:
                self._coming[shard] = self._pool.submit(self._cache.hold, [self._stored[shard]])

    def _map(self, shard: int) -> Mapped:
        if shard in self._coming:
            wait([self._coming[shard]])  # what went wrong there is tried again here
        held = self._cache.hold([self._stored[shard]])
        mapped, spans = self._mapped(held.folder / self.files[shard].name, shard)
        weakref.finalize(mapped, held.release)  # for as long as the file is mapped
        return mapped, spans


def _release(coming: Future[Held]) -> None:
    if not coming.cancelled() and coming.exception() is None:
        coming.result().release()
