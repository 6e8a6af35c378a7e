"""Local files: whole or not at all, and which files a location names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpudeck.errors import InputError
from tpudeck.storage import hash_file, is_bucket, list_files, local_folder, read_json, write_atomic, write_json

WRITE_FOR_EVER = """
import sys
from pathlib import Path
from tpudeck.storage import write_atomic
path = Path(sys.argv[1])
while True:
    for letter in b"ab":
        write_atomic(path, bytes([letter]) * 4_000_000)
"""


@pytest.mark.faults
def test_a_reader_sees_a_whole_file_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)])
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(int.from_bytes(os.urandom(1), "big") / 1000)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        content = path.read_bytes()
        assert len(content) == 4_000_000
        assert len(set(content)) == 1
        path.unlink()


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_a_secret_file_is_readable_by_its_owner_alone_from_its_first_moment(tmp_path: Path) -> None:
    write_atomic(tmp_path / "secret", b"x", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "a": "ü"}
    write_json(tmp_path / "x.json", value)
    assert list(read_json(tmp_path / "x.json")) == ["b", "a"]
    assert read_json(tmp_path / "x.json") == value


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert hash_file(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("location", "expected"),
    [("gs://bucket/x", True), ("gs/x", False), ("/home/gs://x", False), ("logs/gs.txt", False), (Path("gs:"), False)],
)
def test_a_bucket_is_what_begins_with_gs_and_nothing_else(location: str | Path, expected: bool) -> None:
    assert is_bucket(location) is expected


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.json", ".hidden.txt", "sub/d.txt", ".git/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("", ["a.txt", "b.txt", "c.json", "sub/d.txt"]),
        ("a.txt", ["a.txt"]),
        ("*.txt", ["a.txt", "b.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "sub/d.txt"]),
        ("?.json", ["c.json"]),
        ("nothing", []),
        ("*.nothing", []),
    ],
)
def test_a_location_names_a_file_a_folder_or_what_matches_sorted_and_without_hidden_ones(
    tree: Path, location: str, expected: list[str]
) -> None:
    found = [str(Path(name).relative_to(tree)) for name in list_files(tree / location)]
    assert found == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("x")
    assert list(list_files(tmp_path / "a[1].txt")) == [str(tmp_path / "a[1].txt")]


@pytest.mark.parametrize("place", ["gs://bucket/out", "hub:org/name"])
def test_a_place_elsewhere_is_no_folder_to_write(place: str) -> None:
    with pytest.raises(InputError, match="a folder of this machine"):
        local_folder(place)
    assert local_folder("gs/out") == Path("gs/out").absolute()
