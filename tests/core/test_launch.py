"""Run folders are made whole or not at all, and hold everything that the run depends on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shardsets import build_set, some_documents, tokenizer
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.presets import load_experiment, resolve
from tpudeck.runs.meta import change_meta, move_to_trash, read_meta
from tpudeck.storage import read_json


def test_a_run_folder_holds_the_complete_experiment_and_where_it_came_from(home: Home) -> None:
    experiment = resolve("quickstart", home=home, overrides=["train.steps=7"]).experiment
    folder = launch.create(
        experiment, home=home, name="mine", preset="quickstart", argv=["tpudeck", "run", "quickstart"], tags=["a"]
    )
    about = read_json(folder / "run.json")
    assert load_experiment(folder / "experiment.toml") == experiment
    assert {"format_version", "id", "name", "preset", "argv", "host", "user", "created", "versions", "git"} <= set(
        about
    )
    assert about["id"] == folder.name and about["name"] == "mine"
    assert "tensorflow" in about["versions"]
    assert read_meta(folder)["tags"] == ["a"]


def test_paths_in_the_experiment_hold_from_any_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("some text\n")
    monkeypatch.chdir(tmp_path)
    experiment = resolve("quickstart", home=home, overrides=["corpus.source=text.txt"]).experiment
    folder = launch.create(experiment, home=home)
    assert load_experiment(folder / "experiment.toml").corpus.source == str(tmp_path / "text.txt")


@pytest.mark.parametrize("name", ["", "../up", "a b", ".hidden", "x" * 65])
def test_a_name_that_could_be_a_path_is_refused(home: Home, name: str) -> None:
    with pytest.raises(InputError, match="a run's name is"):
        launch.check_name(name)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("tokenizer.source=nowhere", "there is no tokenizer nowhere"),
        ("tokenizer.source=.", "tokenizer.json"),
        ("shards.source=shards tokenizer.source=words", "hold sequences of 16 tokens, and shards.sequence_length is"),
        ("shards.source=nowhere tokenizer.source=words", "nowhere holds no shards"),
        ("corpus.source=nowhere.txt", "nowhere.txt"),
        ("corpus.source=empty.txt", "holds no text"),
        ("corpus.source=rows.jsonl", "rows.jsonl has no column 'text'"),
        ("device.kind=tpu", "this machine has no TPU"),
        ("device.kind=gpu", "GPU"),
    ],
)
def test_what_can_be_known_at_once_is_refused_and_nothing_is_written(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, words: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    Path("rows.jsonl").write_text('{"words": "other"}\n')
    documents = some_documents(20)
    build_set(Path("shards"), tokenizer(Path("words")), train=documents, validation=documents)
    with pytest.raises(InputError, match=words):
        launch.create(resolve("quickstart", home=home, overrides=override.split()).experiment, home=home)
    assert not home.runs.exists()


def test_web_addresses_are_left_out_of_the_recorded_command(home: Home) -> None:
    folder = launch.create(
        resolve("quickstart", home=home).experiment,
        home=home,
        argv=["tpudeck", "run", "quickstart", "--notify=https://example.test/secret"],
    )
    assert read_json(folder / "run.json")["argv"][-1] == "--notify=https://…"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing(home: Home) -> None:
    home.root.chmod(0o500)
    with pytest.raises(InputError, match="cannot be"):
        launch.create(resolve("quickstart", home=home).experiment, home=home)
    assert not home.runs.exists()


def test_an_interrupted_creation_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tpudeck.launch.creation.write_options", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launch.create(resolve("quickstart", home=home).experiment, home=home)
    assert list(home.runs.iterdir()) == []


def test_changing_one_thing_about_a_run_leaves_the_rest(home: Home) -> None:
    folder = launch.create(resolve("quickstart", home=home).experiment, home=home, tags=["a"])
    change_meta(folder, note="n")
    change_meta(folder, archived=True)
    assert read_meta(folder) == {"name": "quickstart", "tags": ["a"], "priority": 0, "note": "n", "archived": True}


def test_the_trash_keeps_runs_of_the_same_name_apart(home: Home) -> None:
    folder = launch.create(resolve("quickstart", home=home).experiment, home=home)
    (home.trash / folder.name).mkdir(parents=True)
    assert move_to_trash(home, folder) == home.trash / f"{folder.name}.2"
    assert not folder.exists()


def test_now_wins_over_a_plain_stop_whichever_came_first(home: Home) -> None:
    folder = launch.create(resolve("quickstart", home=home).experiment, home=home)
    launch.request_stop(folder, now=True)
    launch.request_stop(folder)
    assert launch.stop_now_requested(folder)
