"""``push`` and ``pull`` of tokenizers, shards and runs, between two homes and a real object-store server."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models
from typer.testing import CliRunner

from fakes import runs as fake_runs
from gcsfaults import ObjectStore
from tpudeck.cli.app import app
from tpudeck.cli.tokenizer import find_tokenizer
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError
from tpudeck.runs import locks
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import bucket, sets, write_json

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

KEY = "0123456789abcdef0123456789abcdef"


def run(*arguments: str) -> Any:
    """The command's JSON; its own errors as they are."""
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


@pytest.fixture
def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Home]:
    def move() -> Home:
        monkeypatch.setenv("TPUDECK_HOME", str(tmp_path / "elsewhere"))
        return Home.here()

    return move


@pytest.fixture
def tokenizer(home: Home) -> Path:
    folder = home.tokenizers / KEY
    folder.mkdir(parents=True)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    rust = Tokenizer(models.WordLevel({token: id_ for id_, token in enumerate([*specials, "word"])}, unk_token="<unk>"))
    rust.add_special_tokens([AddedToken(token, special=True) for token in specials])
    rust.save(str(folder / "tokenizer.json"))
    (folder / "manifest.json").write_text(json.dumps({"key": KEY}))
    return folder


def test_a_tokenizer_lands_where_a_run_finds_it(
    object_store: ObjectStore, tokenizer: Path, another_machine: Callable[[], Home]
) -> None:
    run("tokenizer", "push", str(tokenizer), "gs://bucket/somewhere")
    there = another_machine()
    pulled = run("tokenizer", "pull", "gs://bucket/somewhere")
    assert pulled["folder"] == str(there.tokenizers / KEY)
    assert sets.contents_of(there.tokenizers / KEY) == sets.contents_of(tokenizer)


def test_without_a_place_things_go_to_the_store(object_store: ObjectStore, tokenizer: Path, home: Home) -> None:
    with pytest.raises(InputError, match="names no store"):
        run("tokenizer", "push", str(tokenizer))
    home.settings_file.write_text('[storage]\nstore = "gs://bucket/team/"\n')
    assert run("tokenizer", "push", str(tokenizer))["location"] == f"gs://bucket/team/tokenizers/{KEY}"


@pytest.mark.parametrize("key", ["../../outside", "", "x"])
def test_a_manifest_from_outside_chooses_no_folder(
    object_store: ObjectStore, tokenizer: Path, key: str, another_machine: Callable[[], Home]
) -> None:
    (tokenizer / "manifest.json").write_text(json.dumps({"key": key}))
    run("tokenizer", "push", str(tokenizer), "gs://bucket/somewhere")
    another_machine()
    with pytest.raises(ArtefactError, match="no key"):
        run("tokenizer", "pull", "gs://bucket/somewhere")


@pytest.fixture
def ended(home: Home, tokenizer: Path) -> Path:
    """A run that has a checkpoint and used the tokenizer."""
    folder = fake_runs.make(home)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "weights.bin").write_bytes(os.urandom(1000))
    (folder / "run.lock").touch()
    (folder / "results").mkdir(exist_ok=True)
    write_json(folder / "results" / "tokenizer.json", {"ok": True, "result": {"folder": str(tokenizer)}})
    return folder


def test_a_run_that_ended_is_listed_elsewhere_under_its_id(
    object_store: ObjectStore, ended: Path, another_machine: Callable[[], Home]
) -> None:
    run("runs", "push", ended.name, f"gs://bucket/runs/{ended.name}")
    there = another_machine()
    run("runs", "pull", f"gs://bucket/runs/{ended.name}")
    here, copy = sets.contents_of(ended), sets.contents_of(there.runs / ended.name)
    assert here.pop("results/tokenizer.json") != copy.pop("results/tokenizer.json")
    assert here.pop("launch.json")
    assert copy == here
    assert not (there.runs / ended.name / "run.lock").exists()
    assert not (there.runs / ended.name / "launch.json").exists()  # it may hold a secret address
    assert [entry["id"] for entry in run("runs", "list")] == [ended.name]
    with pytest.raises(InputError, match="here already"):
        run("runs", "pull", f"gs://bucket/runs/{ended.name}")


def test_the_tokenizer_travels_with_the_run_and_the_run_knows_where_it_is(
    object_store: ObjectStore, ended: Path, tokenizer: Path, another_machine: Callable[[], Home]
) -> None:
    run("runs", "push", ended.name, f"gs://bucket/runs/{ended.name}")
    there = another_machine()
    shutil.rmtree(tokenizer)
    run("runs", "pull", f"gs://bucket/runs/{ended.name}")
    assert find_tokenizer(ended.name).folder == there.tokenizers / KEY


def test_a_run_that_is_running_is_not_pushed(object_store: ObjectStore, home: Home) -> None:
    folder = fake_runs.make(home)
    lock = locks.acquire(folder / "run.lock")
    assert lock is not None
    with pytest.raises(InputError, match="is running"):
        run("runs", "push", folder.name, "gs://bucket/runs/x")
    locks.release(lock)


def test_a_mirrored_run_is_followed_and_then_taken_over_elsewhere(
    object_store: ObjectStore, ended: Path, another_machine: Callable[[], Home]
) -> None:
    place = f"gs://bucket/mirrors/{ended.name}"
    write_json(ended / "status.json", {"status": "stopped", "reason": "asked to stop"})
    CliRunner().invoke(app, ["runs", "mirror", ended.name, place], catch_exceptions=False)
    there = another_machine()
    CliRunner().invoke(app, ["runs", "follow", place], catch_exceptions=False)
    assert [(entry["id"], entry["status"]) for entry in run("runs", "list")] == [(ended.name, "stopped")]
    run("runs", "pull", place)
    assert (there.runs / ended.name / "experiment.toml").read_bytes() == (ended / "experiment.toml").read_bytes()


def test_what_is_no_run_is_not_pulled_as_one(object_store: ObjectStore, home: Home) -> None:
    bucket.write_bytes("gs://bucket/runs/thing/file.txt", b"x")
    with pytest.raises(ArtefactError, match="there is no run at gs://bucket/runs/thing"):
        run("runs", "pull", "gs://bucket/runs/thing")
    assert not home.runs.exists()


def test_the_runs_of_a_store_are_listed_and_shown_read_only(
    object_store: ObjectStore, home: Home, another_machine: Callable[[], Home]
) -> None:
    there = fake_runs.make(home, name="there")
    with contextlib.closing(RunWriter(there, attempt=1)) as writer:
        for step in range(1, 21):
            writer.metrics(step, loss=1 / step)
    run("runs", "push", there.name, f"gs://bucket/team/runs/{there.name}")
    another_machine()
    store = ("--store", "gs://bucket/team")
    assert [row["id"] for row in run("runs", "list", *store)] == [there.name]
    assert run("runs", "show", "there", *store)["loss"] == 1 / 20
    exported = CliRunner().invoke(app, ["runs", "export", "last", *store], catch_exceptions=False)
    assert len(exported.stdout.splitlines()) == 21
    assert run("runs", "list") == []
    with pytest.raises(InputError, match="a store is gs://"):
        run("runs", "list", "--store", "team")
