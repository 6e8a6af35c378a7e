"""A new run from the checkpoint of an old one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tinyruns import TinyRuns, events, read_lines, tiny_experiment, train
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError
from tpudeck.fork import fork
from tpudeck.runs.checkpoints import Checkpoints
from tpudeck.runs.reader import RunReader

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def trained(tiny_runs: TinyRuns) -> Path:
    """A run of eight steps with a checkpoint at each fourth; the tokenizer and shards are ready for its forks."""
    folder = tiny_runs.run(tiny_experiment(train={"steps": 8, "checkpoint_every": 4, "eval_every": 8}))
    (folder / "run.json").write_text(json.dumps({"id": "the-old-one", "preset": "tiny"}))
    train(folder)
    return folder


def forked(run: Path, home: Home, *changes: str, checkpoint: str) -> Path:
    """The new run, where the stages before training have been."""
    folder = fork(run, home=home, changes=changes, checkpoint=checkpoint)
    shutil.copytree(run / "results", folder / "results", ignore=shutil.ignore_patterns("train.json"))
    return folder


def test_a_fork_goes_on_from_the_weights_and_the_step_with_what_was_changed(trained: Path, home: Home) -> None:
    folder = forked(trained, home, "train.learning_rate=1e-5", "train.steps=10", checkpoint="4")
    before = json.loads((folder / "checkpoints/step-00000004/manifest.json").read_text())
    assert "best_step" not in before and "unlogged" not in before
    train(folder)
    assert events(folder, "attempt_started")[-1]["resume_from_step"] == 4
    assert [line["step"] for line in read_lines(folder / "metrics.jsonl")] == [6, 8, 10]
    assert all(line["learning_rate"] <= 1e-5 for line in read_lines(folder / "metrics.jsonl"))
    old = Checkpoints(trained / "checkpoints").find("4").weights()
    new = Checkpoints(folder / "checkpoints").find("4").weights()
    for name, value in old.items():
        np.testing.assert_array_equal(value, new[name])


def test_with_nothing_changed_a_fork_does_what_its_run_did(trained: Path, home: Home) -> None:
    folder = forked(trained, home, checkpoint="4")
    train(folder)
    old, new = (Checkpoints(run / "checkpoints").find("8").weights() for run in (trained, folder))
    for name, value in old.items():
        np.testing.assert_array_equal(value, new[name])


def test_a_fork_says_where_it_comes_from_and_the_old_run_stays_as_it_is(trained: Path, home: Home) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*"))
    folder = fork(trained, home=home, changes=["train.steps=20"], checkpoint="last", name="lower")
    summary = RunReader(folder).refresh().summary
    assert (summary.name, summary.preset) == ("lower", "tiny")
    assert summary.forked_from == {"run": trained.name, "step": 8}
    assert sorted((path, path.stat().st_mtime_ns) for path in trained.rglob("*")) == before
    best = Checkpoints(folder / "checkpoints").find("best")
    assert best.step == best.best_step == 8


def test_without_a_checkpoint_a_fork_begins_anew_and_may_change_anything(trained: Path, home: Home) -> None:
    folder = fork(trained, home=home, changes=["model.layers=2"])
    assert not (folder / "checkpoints").exists()
    assert RunReader(folder).refresh().summary.forked_from == {"run": trained.name, "step": 0}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("model.layers=2", "keeps its model and its text, got another model.layers"),
        ("corpus.max_documents=7", "got another corpus.max_documents"),
        ("tokenizer.vocab_size=600", "got another tokenizer.vocab_size"),
        ("train.steps=8", "nothing would be left to do"),
    ],
)
def test_what_does_not_go_with_the_checkpoint_is_refused_and_nothing_is_written(
    trained: Path, home: Home, change: str, error: str
) -> None:
    with pytest.raises(InputError, match=error):
        fork(trained, home=home, changes=[change], checkpoint="last")
    assert not home.runs.exists()


def test_a_damaged_checkpoint_is_refused(trained: Path, home: Home, tmp_path: Path) -> None:
    damaged = tmp_path / "run"
    shutil.copytree(trained, damaged)
    weights = damaged / "checkpoints/step-00000008/weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(ArtefactError, match="does not match its checksum"):
        fork(damaged, home=home, checkpoint="last", changes=["train.steps=9"])
