"""A run in a bucket while it runs: another machine follows it, and goes on with it where this one is lost.

Objects cannot grow, so what a run appends goes up in segments of whole lines, ``live/FILE/EPOCH-START-END``, each
beginning where the last one ended; a file that was rotated begins a new epoch. Many small segments are joined into one
before they are deleted, so for a moment two may cover the same bytes, which are the same. Small files that are replaced
are objects of the same name. Finished checkpoints and the artefacts of the run are sets of their own
(``storage.sets``), so a half-uploaded checkpoint is never taken for one.

The mirror is a process beside the run and only reads it: a bucket that refuses, is slow or is gone cannot touch
training. What could not be sent goes with the next pass.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, RetryLaterError, TpudeckError
from tpudeck.runs import locks
from tpudeck.runs.status import LIVE, is_live, judge
from tpudeck.runs.transfer import pull_artefacts, push_artefacts
from tpudeck.storage import bucket, exists, read_json, sets, write_atomic, write_json
from tpudeck.storage.bucket import Stored

__all__ = ["Follower", "Mirror", "is_followed", "is_mirror", "keep_followed", "keep_mirrored", "pull_mirrored"]

_APPENDED = ("events.jsonl", "metrics.jsonl", "supervisor.jsonl", "system.jsonl", "console.log")
_REPLACED = ("run.json", "meta.json", "experiment.toml", "plan.json", "progress.json", "status.json")
_RESULT = re.compile(r"results/[a-z-]+\.json")
_CHECKPOINT = re.compile(r"checkpoints/(step-\d{8})/")
_SEGMENT = re.compile(r"live/([a-z.]+)/(\d{4})-(\d{15})-\d{15}")
_MOST_SEGMENT_BYTES = 8 << 20
_MOST_SEGMENTS = 32
"""Then they are joined: a composition takes no more."""
_PATIENCE_S = 600.0
_FOLLOWED = ".followed.json"
"""In a followed folder: file → epoch."""


@dataclass(frozen=True)
class _Segment:
    epoch: int
    start: int
    stored: Stored

    @property
    def end(self) -> int:
        return self.start + self.stored.size_bytes


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
        self._segments: dict[str, list[_Segment]] | None = None
        """File → what is in the bucket of its newest epoch; none where that has to be looked up."""
        self._small: dict[str, Stored] = {}
        self._checkpoints: set[str] = set()
        self._artefacts_sent = False

    def sync(self) -> None:
        """One pass: what was appended, what was replaced, which checkpoints came and went."""
        segments = self._look() if self._segments is None else self._segments
        self._segments = None  # after an error it is unknown what arrived
        for name in _APPENDED:
            self._append(name, segments.setdefault(name, []))
        self._push_artefacts()
        self._sync_checkpoints()
        for name in self._small_files():
            self._replace(name)
        self._segments = segments

    def _look(self) -> dict[str, list[_Segment]]:
        there = list(bucket.scan(f"{self.location}/"))
        self._small = {_name(stored, self.location): stored for stored in there}
        self._checkpoints = {found[1] for name in self._small if (found := _CHECKPOINT.match(name))}
        files = _newest_epochs(there, self.location)
        return {name: list(_without_joined(segments)) for name, segments in files.items()}

    def _append(self, name: str, segments: list[_Segment]) -> None:
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
            segments.append(_Segment(epoch, end, stored))
            end += len(data)

    def _join(self, path: Path, segments: list[_Segment]) -> _Segment:
        epoch, start, end = segments[0].epoch, segments[0].start, segments[-1].end
        parts = [segment.stored for segment in segments]
        crc32c = bucket.checksum(path, start, end - start)
        joined = bucket.compose(parts, self._place(path.name, epoch, start, end), crc32c=crc32c)
        for stored in parts:
            bucket.remove(stored)
        return _Segment(epoch, start, joined)

    def _place(self, name: str, epoch: int, start: int, end: int) -> str:
        return f"{self.location}/live/{name}/{epoch:04d}-{start:015d}-{end:015d}"

    def _push_artefacts(self) -> None:
        """Once: they don't change after the stage that made them."""
        if not self._artefacts_sent and (self.run / "results" / "shards.json").exists():
            push_artefacts(self.run, self.location)
            self._artefacts_sent = True

    def _small_files(self) -> Iterator[str]:
        yield from sorted(f"results/{path.name}" for path in (self.run / "results").glob("*.json"))
        yield from (name for name in _REPLACED if (self.run / name).exists())

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


class Follower:
    """The reading side: makes a local folder what the mirrored run's was, but for checkpoints and artefacts."""

    def __init__(self, location: str, run: Path) -> None:
        self.location = location.rstrip("/")
        self.run = run

    def sync(self) -> list[Stored]:
        """One pass; what is in the bucket."""
        there = list(bucket.scan(f"{self.location}/"))
        if not any(_name(stored, self.location) == "run.json" for stored in there):
            raise ArtefactError(f"there is no run at {self.location}")
        self.run.mkdir(parents=True, exist_ok=True)
        epochs = self._epochs()
        write_json(self.run / _FOLLOWED, epochs)
        for name, segments in _newest_epochs(there, self.location).items():
            if name in _APPENDED:
                self._append(name, segments, epochs)
        for stored in there:
            name = _name(stored, self.location)
            if name in _REPLACED or _RESULT.fullmatch(name):
                self._replace(name, stored)
        return there

    def _epochs(self) -> dict[str, int]:
        try:
            return dict(read_json(self.run / _FOLLOWED))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}

    def _append(self, name: str, segments: list[_Segment], epochs: dict[str, int]) -> None:
        path, epoch = self.run / name, segments[-1].epoch
        if epochs.get(name) != epoch:
            path.write_bytes(b"")
            epochs[name] = epoch
            write_json(self.run / _FOLLOWED, epochs)
        size = path.stat().st_size
        for segment in segments:
            if segment.start <= size < segment.end:
                with bucket.open_object(segment.stored.location) as source, path.open("ab") as file:
                    source.seek(size - segment.start)
                    shutil.copyfileobj(source, file)
                    size = file.tell()

    def _replace(self, name: str, stored: Stored) -> None:
        path = self.run / name
        if not path.exists() or bucket.checksum(path) != stored.crc32c:
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, bucket.read_bytes(stored.location))


def keep_followed(
    location: str, run: Path, *, period_s: float = 10.0, narrate: Callable[[str], None] = lambda line: None
) -> None:
    """Follow a mirrored run into a local folder until it has ended; raises :class:`InputError` over a run of ours."""
    if run.exists() and not is_followed(run):
        raise InputError(f"{run.name} is here already, and was not followed from a bucket")
    follower = Follower(location, run)
    while True:
        try:
            follower.sync()
        except RetryLaterError as error:
            narrate(f"{error.message}; trying again")
        else:
            if judge(run, _status(run)).status not in LIVE:
                return
        time.sleep(period_s)


def is_followed(run: Path) -> bool:
    """Whether a folder is only a view of a run elsewhere, without its checkpoints."""
    return (run / _FOLLOWED).exists()


def is_mirror(location: str) -> bool:
    """Whether there is a run at a location that is (or was) mirrored rather than pushed."""
    location = location.rstrip("/")
    return exists(f"{location}/run.json") and not exists(f"{location}/{sets.CONTENTS}")


def pull_mirrored(location: str, home: Home) -> Path:
    """Bring a mirrored run here, so that it can be resumed; :class:`InputError` while it runs elsewhere."""
    location = location.rstrip("/")
    run = home.runs / location.rpartition("/")[2]
    if run.exists() and not is_followed(run):
        raise InputError(f"{run.name} is here already", hint=f"tpudeck runs delete {run.name} moves it to the trash")
    aside = run if run.exists() else home.runs / f".{run.name}.pull"
    there = Follower(location, aside).sync()
    state = judge(aside, _status(aside))
    if state.status in LIVE:
        raise InputError(f"{run.name} is {state.status}: {state.evidence}", hint="two machines must not train one run")
    checkpoints = {found[1] for stored in there if (found := _CHECKPOINT.match(_name(stored, location)))}
    for name in sorted(checkpoints):
        if exists(f"{location}/checkpoints/{name}/{sets.CONTENTS}"):
            sets.pull(f"{location}/checkpoints/{name}", aside / "checkpoints" / name)
    pull_artefacts(aside, location, home)
    (aside / _FOLLOWED).unlink(missing_ok=True)
    if aside != run:
        aside.replace(run)
    return run


def _status(run: Path) -> dict[str, object]:
    try:
        return dict(read_json(run / "status.json"))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}


def _name(stored: Stored, location: str) -> str:
    return stored.location.removeprefix(f"{location}/")


def _newest_epochs(there: Iterable[Stored], location: str) -> dict[str, list[_Segment]]:
    """File → the segments of its newest epoch, in order; of those that begin together, the longest first."""
    files: dict[str, list[_Segment]] = {}
    for stored in there:
        if found := _SEGMENT.fullmatch(_name(stored, location)):
            files.setdefault(found[1], []).append(_Segment(int(found[2]), int(found[3]), stored))
    return {
        name: sorted((s for s in found if s.epoch == max(s.epoch for s in found)), key=lambda s: (s.start, -s.end))
        for name, found in files.items()
    }


def _without_joined(segments: Iterable[_Segment]) -> Iterator[_Segment]:
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


def main() -> None:
    """``python -m tpudeck.mirror RUN LOCATION``: beside a run, until it ends; what it says is in ``mirror.log``."""

    def narrate(line: str) -> None:
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)

    run, location = sys.argv[1:]
    try:
        keep_mirrored(Path(run), location, patience_s=_PATIENCE_S, narrate=narrate)
    except TpudeckError as error:
        narrate(f"the mirror at {location} is not complete: {error.show()}")
        sys.exit(error.exit_code)
    narrate(f"{location} has all of the run")


if __name__ == "__main__":
    main()
