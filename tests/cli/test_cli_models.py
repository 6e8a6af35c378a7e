"""`tpudeck fill-mask`, `generate` and `export` from the outside, on a run that was really trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tinyruns import TinyRuns, tiny_experiment
from tpudeck import jobs
from tpudeck.cli.app import app
from tpudeck.errors import InputError
from tpudeck.tokenizer import load

pytestmark = [pytest.mark.training, pytest.mark.slow]


def tpudeck(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    experiment = tiny_experiment(train={"steps": 4, "checkpoint_every": 2})
    folder = TinyRuns(tmp_path_factory.mktemp("tiny")).run(experiment)
    (folder / "run.json").write_text(json.dumps({"format_version": 1, "id": folder.name, "name": "tiny"}))
    jobs.start("train", folder).result()
    yield folder


def test_fill_mask_prints_the_answers_of_each_mask(run: Path) -> None:
    done = tpudeck("fill-mask", str(run), "the <mask> of <mask>", "a <mask>", "--top", "2", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["run"] == run.name and result["step"] == 4
    assert [[len(answers) for answers in sample["answers"]] for sample in result["samples"]] == [[2, 2], [2]]


def test_export_writes_a_model_folder_of_the_checkpoint_that_is_named(run: Path, tmp_path: Path) -> None:
    done = tpudeck("export", str(run), str(tmp_path / "model"), "--checkpoint", "2")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "model")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in (tmp_path / "model").iterdir()
    }
    assert (
        load(tmp_path / "model").hash
        == load(json.loads((run / "results" / "tokenizer.json").read_text())["result"]["folder"]).hash
    )


def test_a_checkpoint_that_is_not_there_is_an_input_error_that_names_those_that_are(run: Path, tmp_path: Path) -> None:
    done = tpudeck("export", str(run), str(tmp_path / "model"), "--checkpoint", "3")
    assert isinstance(done.exception, InputError)
    assert "one of the steps 4, 2, got '3'" in str(done.exception)
    assert not (tmp_path / "model").exists()


def test_a_masked_model_cannot_go_on_with_a_text_and_says_what_can(run: Path) -> None:
    done = tpudeck("generate", str(run), "the")
    assert isinstance(done.exception, InputError)
    assert "fill-mask" in done.exception.hint
