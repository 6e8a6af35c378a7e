"""Folders to and from a bucket, against the client's transfer manager used directly on the same server.

The server is real and on loopback, so this measures what checking, preconditions and the list cost, not a network. The
two take turns, so that what else the machine does falls on both; figures are medians. Exits with 1 where ours is slower
than 0.9x of the transfer manager, or where listing 10,000 objects takes more than one page to begin.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.cloud import storage as gcs
from google.cloud.storage import transfer_manager

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gcsfaults import ObjectStore, object_store
from tpudeck import storage
from tpudeck.storage import bucket, sets

TRIES = 5
FILES = 48
FILE_BYTES = 4 << 20
WORKERS = 8
LEAST_RATIO = 0.9

failures: list[str] = []


def seconds(work: Callable[[], Any]) -> float:
    before = time.monotonic()
    work()
    return time.monotonic() - before


def told(name: str, ours: list[float], direct: list[float]) -> None:
    size_mb = FILES * FILE_BYTES / 1e6
    ratio = statistics.median(direct) / statistics.median(ours)
    speeds = (
        f"{size_mb / statistics.median(ours):7.0f} MB/s, transfer manager {size_mb / statistics.median(direct):.0f}"
    )
    print(f"{name:10} {speeds} MB/s: {ratio:.2f}x (at least {LEAST_RATIO}x)", flush=True)
    if ratio < LEAST_RATIO:
        failures.append(name)


def transfers(store: ObjectStore, root: Path) -> None:
    folder = root / "set"
    folder.mkdir()
    names = [f"{index:03d}.bin" for index in range(FILES)]
    for name in names:
        (folder / name).write_bytes(os.urandom(FILE_BYTES))
    there = gcs.Client().bucket("bucket")
    pool: dict[str, Any] = {"worker_type": transfer_manager.THREAD, "max_workers": WORKERS, "raise_exception": True}
    times: dict[str, list[float]] = {key: [] for key in ("push", "upload", "pull", "download")}
    for attempt in range(TRIES):
        store.empty_bucket("bucket")

        def upload() -> None:
            transfer_manager.upload_many_from_filenames(
                there, names, source_directory=str(folder), blob_name_prefix="direct/", **pool
            )

        def download(target: Path = root / f"direct-{attempt}") -> None:
            transfer_manager.download_many_to_path(
                there, names, destination_directory=str(target), blob_name_prefix="direct/", **pool
            )

        times["push"].append(seconds(lambda: sets.push(folder, "gs://bucket/ours")))
        times["upload"].append(seconds(upload))
        times["pull"].append(seconds(lambda target=root / f"ours-{attempt}": sets.pull("gs://bucket/ours", target)))
        times["download"].append(seconds(download))
    told("upload", times["push"], times["upload"])
    told("download", times["pull"], times["download"])


def listing(store: ObjectStore) -> None:
    store.empty_bucket("bucket")
    bucket.write_bytes("gs://bucket/many/first", b"x")
    store.copy_object("bucket", "many/first", [f"{index:05d}" for index in range(9_999)])
    store.reset()
    before = time.monotonic()
    found = storage.list_files("gs://bucket/many/")
    next(found)
    first_s, pages = time.monotonic() - before, store.count(lambda request: request.path.endswith("/o"))
    count = 1 + sum(1 for _ in found)
    print(
        f"listing {count:,} objects: the first after {pages} page, {first_s:.2f} s of {time.monotonic() - before:.2f} s"
    )
    if pages != 1:
        failures.append("listing")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, object_store() as store:
        root = Path(folder)
        os.environ["TPUDECK_HOME"] = str(root / "home")
        os.environ["STORAGE_EMULATOR_HOST"] = store.upstream
        transfers(store, root)
        os.environ["STORAGE_EMULATOR_HOST"] = store.url
        listing(store)
    if failures:
        sys.exit(f"beyond the limit: {', '.join(failures)}")


if __name__ == "__main__":
    main()
