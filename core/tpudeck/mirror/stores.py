"""A store as a home of its own: whatever reads runs reads those of a bucket, and nobody can change them.

The view lies in the cache. A list of runs fetches the few small files that say how a run is; a run that is looked at
fetches its logs too. What is here already and is the same is not fetched again.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.mirror.reading import Follower, is_followed
from tpudeck.runs.index import find_run
from tpudeck.storage import bucket, is_bucket
from tpudeck.storage.bucket import Stored

__all__ = ["StoreView", "follow_store", "has_runs"]

_WORKERS = 8
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class StoreView:
    """The runs below ``STORE/runs/``, as folders below a home."""

    def __init__(self, store: str, home: Home) -> None:
        if not is_bucket(store):
            raise InputError(f"a store is gs://BUCKET/PREFIX, got {store!r}")
        self._store = store.rstrip("/")
        self.home = Home(home.cache / "stores" / hashlib.sha256(self._store.encode()).hexdigest()[:16])

    def refresh(self) -> None:
        """Bring every run up to date, as far as a list shows it."""
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="store") as pool:
            names = list(pool.map(self._refresh, _runs_in(self._store)))
        for folder in self.home.runs.glob("*"):
            if folder.name not in names:
                shutil.rmtree(folder, ignore_errors=True)

    def _refresh(self, run: tuple[str, list[Stored]]) -> str:
        name, there = run
        Follower(f"{self._store}/runs/{name}", self.home.runs / name).take(there, logs=False)
        return name

    def fetch(self, text: str) -> Path:
        """The folder of one run, with all it logged."""
        self.refresh()
        folder = find_run(self.home, text)
        Follower(f"{self._store}/runs/{folder.name}", folder).sync()
        return folder


def has_runs(location: str) -> bool:
    """Whether a location is a store rather than the place of a run."""
    return next(bucket.scan(f"{location.rstrip('/')}/runs/"), None) is not None


def follow_store(
    store: str, home: Home, *, period_s: float = 10.0, narrate: Callable[[str], None] = lambda line: None
) -> None:
    """Follow every run of a store into a home, for ever; runs that are this home's own are left alone."""
    while True:
        try:
            for name, there in _runs_in(store.rstrip("/")):
                folder = home.runs / name
                if not folder.exists() or is_followed(folder):
                    Follower(f"{store.rstrip('/')}/runs/{name}", folder).take(there)
        except RetryLaterError as error:
            narrate(f"{error.message}; trying again")
        time.sleep(period_s)


def _runs_in(store: str) -> Iterator[tuple[str, list[Stored]]]:
    """Name and objects of every run, one after the other; what else lies there is left out."""
    prefix = f"{store}/runs/"

    def name(stored: Stored) -> str:
        return stored.location.removeprefix(prefix).partition("/")[0]

    for run, objects in groupby(bucket.scan(prefix), name):
        there = [stored for stored in objects if _tells(stored.location.removeprefix(f"{prefix}{run}/"))]
        if _RUN.fullmatch(run) and any(stored.location == f"{prefix}{run}/run.json" for stored in there):
            yield run, there


def _tells(name: str) -> bool:
    """Whether a file of a run says how it is or was; checkpoints and artefacts are only large."""
    return not name.startswith(("checkpoints/", "artifacts/", "export/", "tensorboard/"))
