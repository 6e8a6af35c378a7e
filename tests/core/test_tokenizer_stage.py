"""The tokenizer stage: made once, found again, whole or not there."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
import tokenizers

from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, InterruptedRunError
from tpudeck.presets import FAMILIES, Experiment, experiment_from, merge
from tpudeck.presets.schema import Tokenizer as Settings
from tpudeck.storage import hash_file, read_json, write_json
from tpudeck.tokenizer import artefacts, load
from tpudeck.tokenizer.recipes import untrained
from tpudeck.tokenizer.stage import ready


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"the {number}th line returns a string or raises an error" for number in range(400)))
    return path


def experiment(source: Path | str, **changes: Any) -> Experiment:
    plain = {
        "corpus": {"source": str(source)},
        "tokenizer": {"kind": "bpe", "vocab_size": 100},
        "train": {"steps": 1, "global_batch_size": 8},
    }
    return experiment_from(merge(plain, changes))


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def run_in(home: Home, wanted: Experiment) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with jobs.temporary_folder(home, wanted, {}) as folder:
        result = jobs.start("tokenizer", folder).result()
        return result, events(folder)


def test_what_was_made_from_the_same_text_is_found_again_wherever_the_text_lies(home: Home, text: Path) -> None:
    first = jobs.run("tokenizer", experiment(text))
    moved = text.rename(text.parent / "moved.txt")
    second = jobs.run("tokenizer", experiment(moved))
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["folder"] == first["folder"]
    assert first["hash"] == hash_file(Path(first["folder"]) / "tokenizer.json") == load(first["folder"]).hash
    assert ready(experiment(moved), home) == Path(first["folder"])


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer": {"vocab_size": 101}},
        {"tokenizer": {"kind": "unigram"}},
        {"tokenizer": {"lowercase": True}},
        {"tokenizer": {"sample_mb": 1.0}},
        {"model": {"architecture": "bert"}},
        {"corpus": {"validation_fraction": 0.2}},
    ],
)
def test_other_settings_are_another_tokenizer(home: Home, text: Path, change: dict[str, Any]) -> None:
    assert ready(experiment(text), home) is None
    assert jobs.run("tokenizer", experiment(text))["folder"]
    assert ready(experiment(text, **change), home) is None


def test_settings_that_do_not_matter_to_it_find_the_same_tokenizer(home: Home, text: Path) -> None:
    jobs.run("tokenizer", experiment(text))
    for change in ({"shards": {"sequence_length": 32}}, {"train": {"seed": 7}}, {"corpus": {"config": "hub-only"}}):
        assert ready(experiment(text, **change), home) is not None


def test_the_manifest_says_what_was_asked_for_what_came_and_from_what(home: Home, text: Path) -> None:
    result = jobs.run("tokenizer", experiment(text))
    manifest = read_json(Path(result["folder"]) / "manifest.json")
    assert {key: result[key] for key in manifest} == manifest
    assert (manifest["requested_vocab_size"], manifest["vocab_size"]) == (100, 100)
    assert manifest["minimum_vocab_size"] < 100
    assert manifest["trained_on"]["documents"] > 300
    assert set(manifest["versions"]) == {"tpudeck", "python", "tokenizers"}


def test_asked_and_got_are_compared_and_literal_special_tokens_are_counted(home: Home, text: Path) -> None:
    text.write_text(text.read_text() + "".join(f"\n<mask> and <mask> are text {n}" for n in range(40)))
    wanted = experiment(text, tokenizer={"vocab_size": 5000})
    result, said = run_in(home, wanted)
    warned = [event["message"] for event in said if event["event"] == "noticed" and event["level"] == "warning"]
    assert any(f"vocabulary of {result['vocab_size']:,} only, of 5,000 asked for" in message for message in warned)
    assert any("the text spells special tokens (<mask>" in message for message in warned)
    held_out = 80 - result["trained_on"]["literal_specials"]["<mask>"]
    assert 0 <= held_out < 20
    assert held_out % 2 == 0
    again, said = run_in(home, wanted)
    assert again["cached"]
    assert [event["message"] for event in said if event["event"] == "noticed"] == result["warnings"]


def test_the_minimum_is_said_before_training(home: Home, text: Path) -> None:
    _, said = run_in(home, experiment(text))
    kinds = [event["event"] for event in said]
    assert kinds[0] == "phase_changed"
    assert "needs" in said[1]["message"]
    assert "100 asked for" in said[1]["message"]


def test_a_vocabulary_that_cannot_be_is_an_input_error_and_leaves_nothing(home: Home, text: Path) -> None:
    with pytest.raises(InputError, match="a vocabulary of 20 cannot be") as caught:
        jobs.run("tokenizer", experiment(text, tokenizer={"vocab_size": 20}), request={"out": str(text.parent / "out")})
    assert caught.value.exit_code == 2
    assert not (text.parent / "out").exists()
    assert not home.tokenizers.exists() or not list(home.tokenizers.iterdir())


def test_an_out_folder_gets_a_copy_with_the_longest_sequence(home: Home, text: Path) -> None:
    out = text.parent / "deep" / "out"
    result = jobs.run("tokenizer", experiment(text, shards={"sequence_length": 64}), request={"out": str(out)})
    assert load(out).hash == result["hash"]
    assert read_json(out / "tokenizer_config.json")["model_max_length"] == 64
    assert "model_max_length" not in read_json(Path(result["folder"]) / "tokenizer_config.json")


def test_a_changed_artefact_is_refused_and_not_replaced(home: Home, text: Path) -> None:
    folder = Path(jobs.run("tokenizer", experiment(text))["folder"])
    damaged = (folder / "tokenizer.json").read_text().replace('"version"', '"Version"')
    (folder / "tokenizer.json").write_text(damaged)
    with pytest.raises(ArtefactError, match="is not the file that was made here"):
        jobs.run("tokenizer", experiment(text))
    assert (folder / "tokenizer.json").read_text() == damaged


def test_a_folder_without_a_manifest_is_nothing_and_is_made_again(home: Home, text: Path) -> None:
    folder = Path(jobs.run("tokenizer", experiment(text))["folder"])
    (folder / "manifest.json").unlink()
    assert ready(experiment(text), home) is None
    assert jobs.run("tokenizer", experiment(text))["cached"] is False
    assert (folder / "manifest.json").exists()


def test_whoever_finishes_second_takes_what_is_there(home: Home) -> None:
    def write(text: str) -> Any:
        return lambda folder: (folder / "tokenizer.json").write_text(text)

    first = artefacts.keep(home, "key", write("first"), {"vocab_size": 1})
    second = artefacts.keep(home, "key", write("second"), {"vocab_size": 2})
    assert second == first
    assert [path.name for path in home.tokenizers.iterdir()] == ["key"]


def test_a_failure_while_writing_leaves_nothing(home: Home) -> None:
    def write(folder: Path) -> None:
        (folder / "tokenizer.json").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        artefacts.keep(home, "key", write, {})
    assert list(home.tokenizers.iterdir()) == []


def test_existing_tokenizers_are_copied_so_that_runs_keep_theirs(home: Home, text: Path) -> None:
    out = text.parent / "theirs"
    jobs.run("tokenizer", experiment(text), request={"out": str(out)})
    wanted = experiment(text, tokenizer={"source": str(out)})
    brought = jobs.run("tokenizer", wanted)
    assert brought["cached"] is False
    assert load(brought["folder"]).rust.encode("the string").ids == load(out).rust.encode("the string").ids
    assert jobs.run("tokenizer", wanted)["cached"] is True
    (out / "tokenizer.json").write_text((out / "tokenizer.json").read_text().replace("\n", "\n "))
    assert load(brought["folder"]).hash == brought["hash"]
    assert jobs.run("tokenizer", wanted)["folder"] != brought["folder"]


def _long_training(home: Home, tmp_path: Path) -> tuple[jobs.JobProcess, Path]:
    """A training that takes a while, caught in the part that cannot be interrupted."""
    lines = (" ".join(f"{(a * b * 7919) % 99991:x}" for b in range(40)) for a in range(20_000))
    (tmp_path / "large.txt").write_text("\n".join(lines))
    wanted = experiment(tmp_path / "large.txt", tokenizer={"kind": "unigram", "vocab_size": 8000})
    folder = tmp_path / "job"
    folder.mkdir()
    from tpudeck.presets import save_experiment

    save_experiment(wanted, folder / "experiment.toml")
    job = jobs.start("tokenizer", folder, own_session=True)
    while job.progress().get("phase") != "training":
        assert job.running(), (folder / "console.log").read_text()
        time.sleep(0.05)
    return job, folder


@pytest.mark.faults
@pytest.mark.parametrize("how", ["sigterm", "sigint", "request"])
def test_a_stop_during_training_is_prompt_and_leaves_nothing(home: Home, tmp_path: Path, how: str) -> None:
    job, folder = _long_training(home, tmp_path)
    if how == "request":
        (folder / "requests").mkdir(exist_ok=True)
        (folder / "requests" / "stop.json").write_text("{}")
    else:
        os.kill(job.process.pid, signal.SIGTERM if how == "sigterm" else signal.SIGINT)
    assert job.process.wait(timeout=20) == 130
    with pytest.raises(InterruptedRunError):
        job.result()
    assert not home.tokenizers.exists() or not list(home.tokenizers.iterdir())


@pytest.mark.faults
def test_a_kill_during_training_leaves_nothing(home: Home, tmp_path: Path) -> None:
    job, _ = _long_training(home, tmp_path)
    job.process.kill()
    job.process.wait()
    assert not home.tokenizers.exists() or not list(home.tokenizers.iterdir())


def test_progress_tells_the_phases_in_order(home: Home, text: Path) -> None:
    seen: list[str] = []
    jobs.run("tokenizer", experiment(text), on_progress=lambda progress: seen.append(progress["phase"]), poll_s=0.01)
    order = ["surveying", "reading", "training"]
    assert seen == sorted(seen, key=order.index)


def test_the_task_imports_neither_transformers_nor_tensorflow(home: Home) -> None:
    program = (
        "import sys, tpudeck.tokenizer.stage; print({'transformers', 'tensorflow', 'datasets'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "set()"


@pytest.mark.skipif(not tokenizers.__version__.startswith("0.22."), reason="another library writes another file")
def test_a_recipe_that_changes_makes_other_keys_so_that_what_the_old_one_made_is_not_found() -> None:
    recipes = hashlib.sha256()
    for kind, family, lowercase in itertools.product(
        get_args(Settings.model_fields["kind"].annotation), FAMILIES.values(), (False, True)
    ):
        settings = Settings(kind=kind, lowercase=lowercase)
        recipes.update(untrained(settings, family.specials).to_str().encode())
    told = "a recipe has changed: raise artefacts._RECIPE_VERSION, and note the new pair here"
    assert (artefacts._RECIPE_VERSION, recipes.hexdigest()[:16]) == (2, "a51673123e810931"), told


def test_a_run_that_goes_on_does_not_ask_where_its_tokenizer_came_from(home: Home, text: Path, tmp_path: Path) -> None:
    made = jobs.run("tokenizer", experiment(text))
    lone = tmp_path / "lone"
    lone.mkdir()
    load(made["folder"]).save(lone)
    wanted = experiment(text, tokenizer={"source": str(lone)})
    with jobs.temporary_folder(home, wanted, {}) as folder:
        first = jobs.start("tokenizer", folder).result()
        write_json(folder / "plan.json", {"tokenizer_hash": first["hash"]})
        shutil.rmtree(lone)
        again = jobs.start("tokenizer", folder).result()
    assert (again["folder"], again["hash"], again["cached"]) == (first["folder"], first["hash"], True)
