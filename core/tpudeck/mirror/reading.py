"""The reading side: a run that goes on elsewhere, as a folder here; and taken over, where it ended there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, RetryLaterError
from tpudeck.mirror.segments import APPENDED, CHECKPOINT, REPLACED, RESULT, Segment, name_below, newest_epochs
from tpudeck.runs.status import LIVE, judge
from tpudeck.runs.transfer import pull_artefacts
from tpudeck.storage import bucket, exists, read_json, sets, write_atomic, write_json
from tpudeck.storage.bucket import Stored

__all__ = ["Follower", "is_followed", "is_mirror", "keep_followed", "pull_mirrored"]

_FOLLOWED = ".followed.json"
"""In a followed folder: file → epoch."""


class Follower:
    """Makes a local folder what a run in a bucket is, mirrored or pushed, but for checkpoints and artefacts."""

    def __init__(self, location: str, run: Path) -> None:
        self.location = location.rstrip("/")
        self.run = run

    def sync(self) -> list[Stored]:
        """One pass; what is in the bucket."""
        there = list(bucket.scan(f"{self.location}/"))
        self.take(there)
        return there

    def take(self, there: Sequence[Stored], *, logs: bool = True) -> None:
        """Bring the folder up to what a listing shows; without logs, only what a list of runs needs."""
        if not any(name_below(stored, self.location) == "run.json" for stored in there):
            raise ArtefactError(f"there is no run at {self.location}")
        self.run.mkdir(parents=True, exist_ok=True)
        epochs = self._epochs()
        write_json(self.run / _FOLLOWED, epochs)
        try:
            if logs:
                for name, segments in newest_epochs(there, self.location).items():
                    if name in APPENDED:
                        self._append(name, segments, epochs)
            for stored in there:
                name = name_below(stored, self.location)
                if name in REPLACED or RESULT.fullmatch(name) or (logs and name in APPENDED):
                    self._replace(name, stored)
        except FileNotFoundError as error:
            raise RetryLaterError(f"{self.location} changed while it was read") from error

    def _epochs(self) -> dict[str, int]:
        try:
            return dict(read_json(self.run / _FOLLOWED))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}

    def _append(self, name: str, segments: list[Segment], epochs: dict[str, int]) -> None:
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
    checkpoints = {found[1] for stored in there if (found := CHECKPOINT.match(name_below(stored, location)))}
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
