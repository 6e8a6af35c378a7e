"""The writing side: a run that goes on is copied to a bucket, beside it and without touching it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tpudeck.errors import InputError, RetryLaterError
from tpudeck.mirror.segments import APPENDED, CHECKPOINT, REPLACED, Segment, name_below, newest_epochs
from tpudeck.runs import locks
from tpudeck.runs.status import is_live
from tpudeck.runs.transfer import push_artefacts
from tpudeck.storage import bucket, sets
from tpudeck.storage.bucket import Stored

__all__ = ["Mirror", "keep_mirrored"]

_MOST_SEGMENT_BYTES = 8 << 20
_MOST_SEGMENTS = 32
"""Then they are joined: a composition takes no more."""


def keep_mirrored(
    run: Path,
    location: str,
    *,
    period_s: float = 10.0,
    patience_s: float = 0.0,
    narrate: Callable[[str], None] = lambda line: None,
) -> None:
    """Mirror a run until it has ended, and once more after that.

    A bucket that cannot be reached is told about and tried again; the error of the last pass is raised. Where another
    process mirrors the run, it may take ``patience_s`` to end.
    """
    end = time.monotonic() + patience_s
    while (lock := locks.acquire(run / "mirror.lock")) is None:
        if time.monotonic() >= end:
            raise RetryLaterError(f"{run.name} is mirrored by another process")
        time.sleep(0.1)
    try:
        mirror = Mirror(run, location)
        while True:
            live = is_live(run)
            try:
                mirror.sync()
            except RetryLaterError as error:
                if not live:
                    raise
                narrate(f"{error.message}; the run goes on, and the mirror tries again")
            if not live:
                return
            _wait(period_s, lambda: is_live(run))
    finally:
        locks.release(lock)


def _wait(period_s: float, going_on: Callable[[], bool]) -> None:
    end = time.monotonic() + period_s
    while going_on() and (left_s := end - time.monotonic()) > 0:
        time.sleep(min(0.5, left_s))


class Mirror:
    """The writing side."""

    def __init__(self, run: Path, location: str) -> None:
        self.run = run
        self.location = location.rstrip("/")
        self._segments: dict[str, list[Segment]] | None = None
        """File → what is in the bucket of its newest epoch; none where that has to be looked up."""
        self._small: dict[str, Stored] = {}
        self._checkpoints: set[str] = set()
        self._artefacts_sent = False

    def sync(self) -> None:
        """One pass: what was appended, what was replaced, which checkpoints came and went."""
        segments = self._look() if self._segments is None else self._segments
        self._segments = None  # after an error it is unknown what arrived
        for name in APPENDED:
            self._append(name, segments.setdefault(name, []))
        self._push_artefacts()
        self._sync_checkpoints()
        for name in self._small_files():
            self._replace(name)
        self._segments = segments

    def _look(self) -> dict[str, list[Segment]]:
        there = list(bucket.scan(f"{self.location}/"))
        self._small = {name_below(stored, self.location): stored for stored in there}
        self._checkpoints = {found[1] for name in self._small if (found := CHECKPOINT.match(name))}
        files = newest_epochs(there, self.location)
        return {name: list(_without_joined(segments)) for name, segments in files.items()}

    def _append(self, name: str, segments: list[Segment]) -> None:
        epoch = segments[-1].epoch if segments else 0
        end = max((segment.end for segment in segments), default=0)
        path = self.run / name
        if path.exists() and path.stat().st_size < end:  # it was rotated
            epoch, end = epoch + 1, 0
            segments.clear()
        for data in _new_lines(path, end):
            if len(segments) == _MOST_SEGMENTS:  # before the write: a fault between the two must not leave one more
                segments[:] = [self._join(path, segments)]
            stored = bucket.write_bytes(self._place(name, epoch, end, end + len(data)), data)
            segments.append(Segment(epoch, end, stored))
            end += len(data)

    def _join(self, path: Path, segments: list[Segment]) -> Segment:
        epoch, start, end = segments[0].epoch, segments[0].start, segments[-1].end
        parts = [segment.stored for segment in segments]
        crc32c = bucket.checksum(path, start, end - start)
        joined = bucket.compose(parts, self._place(path.name, epoch, start, end), crc32c=crc32c)
        for stored in parts:
            bucket.remove(stored)
        return Segment(epoch, start, joined)

    def _place(self, name: str, epoch: int, start: int, end: int) -> str:
        return f"{self.location}/live/{name}/{epoch:04d}-{start:015d}-{end:015d}"

    def _push_artefacts(self) -> None:
        """Once: they don't change after the stage that made them."""
        if not self._artefacts_sent and (self.run / "results" / "shards.json").exists():
            push_artefacts(self.run, self.location)
            self._artefacts_sent = True

    def _small_files(self) -> Iterator[str]:
        yield from sorted(f"results/{path.name}" for path in (self.run / "results").glob("*.json"))
        yield from (name for name in REPLACED if (self.run / name).exists())

    def _replace(self, name: str) -> None:
        data = (self.run / name).read_bytes()
        before = self._small.get(name)
        if before is None or before.crc32c != bucket.checksum_bytes(data):
            generation = before.generation if before else 0
            self._small[name] = bucket.write_bytes(f"{self.location}/{name}", data, replaces=generation)

    def _sync_checkpoints(self) -> None:
        folder = self.run / "checkpoints"
        here = {path.parent.name for path in folder.glob("step-*/manifest.json")}
        for name in sorted(here - self._checkpoints):
            try:
                sets.push(folder / name, f"{self.location}/checkpoints/{name}")
            except (FileNotFoundError, InputError):
                if (folder / name).exists():
                    raise
                continue  # it made room for a newer one meanwhile
            self._checkpoints.add(name)
        for name in sorted(self._checkpoints - here):
            sets.remove(f"{self.location}/checkpoints/{name}")
            self._checkpoints.discard(name)


def _without_joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Segments that follow each other; what an interrupted join left behind is deleted."""
    end = 0
    for segment in segments:
        if segment.end <= end:
            bucket.remove(segment.stored)
        else:
            yield segment
            end = segment.end


def _new_lines(path: Path, offset: int) -> Iterator[bytes]:
    """What a file holds from an offset to its last line end, some megabytes at a time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        while data := os.pread(descriptor, _MOST_SEGMENT_BYTES, offset):
            data = data[: data.rfind(b"\n") + 1]
            if not data:
                return
            yield data
            offset += len(data)
    finally:
        os.close(descriptor)
