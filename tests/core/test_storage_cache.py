"""Copies of objects on this machine: under a limit, fetched once, and never gone while they are used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gcsfaults import Fault, ObjectStore, Request
from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.storage import bucket
from tpudeck.storage.bucket import Stored
from tpudeck.storage.cache import Cache
from tpudeck.storage.settings import settings

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

SIZE = 1000


@pytest.fixture
def objects(object_store: ObjectStore, home: Home) -> list[Stored]:
    stored = [bucket.write_bytes(f"gs://bucket/data/{name}", bytes([ord(name)]) * SIZE) for name in "abcdef"]
    object_store.reset()
    return stored


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Room for three objects."""
    return Cache(tmp_path / "cache", 3 * SIZE)


def there(cache: Cache) -> str:
    """The objects that are here, by their names."""
    return "".join(sorted(path.name for path in cache.folder.rglob("*") if path.is_file()))


def use(cache: Cache, stored: Stored) -> None:
    held = cache.hold([stored])
    os.utime(held.folder, (time.time(), use.clock))  # the clock of a file system may be coarse
    use.clock += 1  # type: ignore[attr-defined]
    held.release()


use.clock = 1.0  # type: ignore[attr-defined]


def test_what_is_here_is_not_fetched_again(object_store: ObjectStore, objects: list[Stored], cache: Cache) -> None:
    for _ in range(3):
        with_both = cache.hold(objects[:2])
        assert (with_both.folder / "b").read_bytes() == b"b" * SIZE
    assert object_store.count(lambda request: request.reads_content) == 2


def test_another_generation_is_another_copy(objects: list[Stored], cache: Cache) -> None:
    cache.hold(objects[:1])
    newer = bucket.write_bytes(objects[0].location, b"new", replaces=objects[0].generation)
    assert (cache.hold([newer]).folder / "a").read_bytes() == b"new"


def test_the_longest_unused_make_room(objects: list[Stored], cache: Cache) -> None:
    for index in (0, 1, 2, 0, 3):
        use(cache, objects[index])
    assert there(cache) == "acd"


def test_what_is_held_stays_even_beyond_the_limit(objects: list[Stored], cache: Cache) -> None:
    held = [cache.hold([stored]) for stored in objects[:4]]
    assert there(cache) == "abcd"
    held[1].release()
    cache.hold(objects[4:5])
    assert there(cache) == "acde"


def test_a_hold_ends_with_its_process(objects: list[Stored], cache: Cache) -> None:
    program = f"""
import time
from pathlib import Path
from tpudeck.storage.bucket import Stored
from tpudeck.storage.cache import Cache
held = [Cache(Path({str(cache.folder)!r}), 10**9).hold([one]) for one in {objects[:3]!r}]
print("held", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        cache.hold(objects[3:4]).release()
        assert there(cache) == "abcd"
        process.send_signal(signal.SIGKILL)
        process.wait()
    cache.hold(objects[4:5])
    assert "e" in there(cache) and len(there(cache)) == 3


def test_of_many_that_want_it_one_fetches(object_store: ObjectStore, objects: list[Stored], cache: Cache) -> None:
    with ThreadPoolExecutor(8) as pool:
        held = list(pool.map(cache.hold, [objects[:3]] * 8))
    assert len({one.folder for one in held}) == 1
    assert object_store.count(lambda request: request.reads_content) == 3


def test_faults_leave_nothing_that_is_taken_for_a_copy(
    object_store: ObjectStore, objects: list[Stored], cache: Cache, home: Home
) -> None:
    home.settings_file.write_text('[storage]\ndeadline = "1 s"\n')
    broken = [True]

    def plan(request: Request) -> Fault | None:
        return "503" if broken[0] and request.reads_content and request.path.endswith("b") else None

    object_store.reset(plan)
    with pytest.raises(RetryLaterError):
        cache.hold(objects[:3])
    broken[0] = False
    held = cache.hold(objects[:3])
    assert [(held.folder / name).read_bytes() for name in "abc"] == [name.encode() * SIZE for name in "abc"]


def test_flipped_bytes_are_fetched_anew(object_store: ObjectStore, objects: list[Stored], cache: Cache) -> None:
    flips = iter(["flip", "cut"])
    object_store.reset(lambda request: next(flips, None) if request.reads_content else None)  # type: ignore[arg-type]
    assert (cache.hold(objects[:1]).folder / "a").read_bytes() == b"a" * SIZE
    assert len(object_store.injected) == 2


def test_its_size_is_a_setting(home: Home) -> None:
    home.settings_file.write_text('[storage]\ncache = "2 GB"\n')
    assert Cache.here().limit_bytes == 2 * 10**9
    home.settings_file.write_text('[storage]\ncache = "some"\n')
    with pytest.raises(InputError, match="a size is"):
        settings(home)
