"""Folders to and from a bucket as a whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gcsfaults import Fault, ObjectStore, Plan, Request
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, RetryLaterError, TpudeckError
from tpudeck.storage import bucket, sets

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

WHERE = "gs://bucket/sets/one"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "sub").mkdir(parents=True)
    for index in range(5):
        (folder / f"file-{index}.bin").write_bytes(os.urandom(1000 + index))
    (folder / "sub" / "[strange] näme?.txt").write_text("text")
    (folder / "empty").touch()
    (folder / ".hidden").write_text("stays")
    (folder / "run.lock").touch()
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_upload(request: Request) -> bool:
    return request.sends_content


def until_it_works(command: Callable[[], object]) -> None:
    """What a person does with an error that says the same command goes on."""
    while True:
        with contextlib.suppress(TpudeckError):
            command()
            return


def refuse_after(uploads: int) -> Plan:
    count = itertools.count()
    return lambda request: "403" if is_upload(request) and next(count) >= uploads else None


def test_a_set_comes_back_as_it_was_without_what_is_hidden(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    back = folder.with_name("back")
    sets.pull(WHERE, back)
    expected = content(folder)
    assert content(back) == {name: data for name, data in expected.items() if name not in (".hidden", "run.lock")}


def test_the_list_is_written_last(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    uploads = [request for request in object_store.requests if is_upload(request)]
    assert len(uploads) == 8
    newest = max(bucket.scan(WHERE), key=lambda stored: stored.generation)
    assert newest.location == f"{WHERE}/{sets.CONTENTS}"


@pytest.mark.parametrize("uploads", [0, 3, 7])
def test_a_half_uploaded_set_is_never_taken_for_whole(object_store: ObjectStore, folder: Path, uploads: int) -> None:
    object_store.reset(refuse_after(uploads))
    with pytest.raises(InputError):
        sets.push(folder, WHERE)
    object_store.reset()
    with pytest.raises(ArtefactError):
        sets.pull(WHERE, folder.with_name("back"))
    assert not folder.with_name("back").exists()


def test_an_interrupted_push_sends_only_what_is_missing(object_store: ObjectStore, folder: Path) -> None:
    object_store.reset(refuse_after(3))
    with pytest.raises(InputError):
        sets.push(folder, WHERE)
    object_store.reset()
    assert sets.push(folder, WHERE).sent_files == 7 - 3
    assert object_store.count(is_upload) == 7 - 3 + 1


def test_a_push_of_what_is_there_sends_nothing(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    object_store.reset()
    assert sets.push(folder, WHERE).sent_files == 0
    assert object_store.count(is_upload) == 0


def test_a_set_that_is_replaced_is_not_whole_in_between(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    (folder / "file-0.bin").write_bytes(b"changed")
    object_store.reset(refuse_after(0))
    with pytest.raises(InputError):
        sets.push(folder, WHERE)
    object_store.reset()
    with pytest.raises(ArtefactError, match="not whole"):
        sets.read_contents(WHERE)
    sets.push(folder, WHERE)
    assert sets.read_contents(WHERE) == sets.contents_of(folder)


def test_files_that_left_the_set_leave_the_bucket_and_others_stay(object_store: ObjectStore, folder: Path) -> None:
    bucket.write_bytes(f"{WHERE}/not-ours.txt", b"theirs")
    sets.push(folder, WHERE)
    (folder / "file-4.bin").unlink()
    sets.push(folder, WHERE)
    names = {stored.location.removeprefix(f"{WHERE}/") for stored in bucket.scan(f"{WHERE}/")}
    assert "file-4.bin" not in names
    assert "not-ours.txt" in names


def test_an_object_that_is_missing_or_changed_is_named(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    stored = bucket.describe(f"{WHERE}/file-2.bin")
    bucket.write_bytes(stored.location, b"other", replaces=stored.generation)
    with pytest.raises(ArtefactError, match=r"file-2\.bin is not what the set's list says"):
        sets.pull(WHERE, folder.with_name("back"))
    bucket.remove(bucket.describe(stored.location))
    with pytest.raises(ArtefactError, match=r"file-2\.bin is missing"):
        sets.pull(WHERE, folder.with_name("back"))


def test_an_interrupted_pull_goes_on_with_what_is_missing(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    count = itertools.count()

    def reads_file(request: Request) -> bool:
        return request.reads_content and sets.CONTENTS not in request.path

    object_store.reset(lambda request: "403" if reads_file(request) and next(count) >= 3 else None)
    with pytest.raises(InputError):
        sets.pull(WHERE, folder.with_name("back"))
    assert not folder.with_name("back").exists()
    object_store.reset()
    sets.pull(WHERE, folder.with_name("back"))
    assert object_store.count(reads_file) == 6 - 3  # six of the seven have content
    assert len(content(folder.with_name("back"))) == 7


def test_a_pull_never_overwrites_something_else(object_store: ObjectStore, folder: Path) -> None:
    sets.push(folder, WHERE)
    assert sets.pull(WHERE, folder).sent_files == 0
    other = folder.with_name("other")
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not what is at"):
        sets.pull(WHERE, other)
    assert content(other) == {"mine.txt": b"mine"}


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", ""])
def test_a_list_cannot_name_files_outside_its_folder(object_store: ObjectStore, tmp_path: Path, path: str) -> None:
    bucket.write_bytes(f"{WHERE}/x", b"")
    listed = {"format_version": 1, "files": [{"path": path, "size_bytes": 0, "crc32c": "AAAAAA=="}]}
    bucket.write_bytes(f"{WHERE}/{sets.CONTENTS}", json.dumps(listed).encode())
    with pytest.raises(ArtefactError, match="stays in its folder"):
        sets.pull(WHERE, tmp_path / "back")


def test_two_pushes_of_the_same_set_at_once_both_succeed(object_store: ObjectStore, folder: Path) -> None:
    errors: list[BaseException] = []

    def push() -> None:
        try:
            sets.push(folder, WHERE)
        except TpudeckError as error:
            errors.append(error)

    threads = [threading.Thread(target=push) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sets.read_contents(WHERE) == sets.contents_of(folder)


def test_a_deadline_ends_a_push_that_can_go_on(object_store: ObjectStore, folder: Path) -> None:
    with pytest.raises(RetryLaterError, match="7 of 7 files are left"):
        sets.push(folder, WHERE, deadline_s=0)
    sets.push(folder, WHERE)
    assert sets.read_contents(WHERE)


def test_progress_ends_at_the_whole(object_store: ObjectStore, folder: Path) -> None:
    seen: list[sets.Progress] = []
    sets.push(folder, WHERE, on_progress=seen.append)
    assert (seen[-1].files, seen[-1].bytes) == (seen[-1].total_files, seen[-1].total_bytes)
    assert seen[-1].total_files == 7


@pytest.mark.faults
def test_a_hundred_faults_lose_nothing_and_change_nothing(
    object_store: ObjectStore, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals, outages, cut and lost answers and damaged content, in both directions; a 403 ends the command."""
    home.settings_file.write_text('[storage]\ndeadline = "20 s"\n')
    monkeypatch.setattr(bucket, "_PART_BYTES", 1 << 18)
    folder = tmp_path / "set"
    folder.mkdir()
    for index in range(40):
        (folder / f"{index:02d}.bin").write_bytes(os.urandom(1 << 20 if index < 2 else 5_000 + index))
    kinds: list[Fault] = ["429", "503", "403", "slow", "cut", "lost", "flip"]
    chance, lock = random.Random(7), threading.Lock()

    def plan(request: Request) -> Fault | None:
        with lock:
            kind = chance.choice(kinds)
            wanted = chance.random() < 0.35 and len(object_store.injected) < most
        if kind == "flip" and not request.reads_content:
            return None
        return kind if wanted else None

    most = 60
    object_store.reset(plan)
    until_it_works(lambda: sets.push(folder, WHERE))
    most = 100
    for attempt in itertools.count():
        until_it_works(lambda: sets.pull(WHERE, tmp_path / f"back-{attempt}"))  # noqa: B023 (called at once)
        if len(object_store.injected) == most:
            break

    assert {kind for _, kind in object_store.injected} == set(kinds)
    assert sets.read_contents(WHERE) == sets.contents_of(folder)
    for back in tmp_path.glob("back-*"):
        assert content(back) == content(folder)
