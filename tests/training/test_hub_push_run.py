"""``tpudeck push RUN ORG/NAME`` from a trained run to the Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from gcsfaults import ObjectStore
from hubserver import HubServer
from tinyruns import TinyRuns, events, tiny_experiment, train
from tpudeck.cli.app import app
from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.storage import write_json

pytestmark = [pytest.mark.training, pytest.mark.slow]


def test_a_trained_run_becomes_a_private_model_with_its_card(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    run = tiny_runs.run(tiny_experiment(train={"eval_every": 3}))
    write_json(run / "run.json", {"format_version": 1, "id": run.name, "name": "tiny", "created": 0.0})
    train(run)
    with HubServer(tmp_path / "hub") as hub:
        environ = dict(os.environ) | hub.environ(tmp_path / "cache") | {"HF_TOKEN": hub.token}
        command = [sys.executable, "-c", "from tpudeck.cli import main; main()", "push", str(run), "org/tiny", "--json"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pushed = json.loads(done.stdout)
    assert pushed["private"] and hub.token not in done.stdout + done.stderr
    model = tmp_path / "hub" / "models" / "org" / "tiny"
    names = {path.name for path in model.iterdir()}
    assert names >= {"model.safetensors", "config.json", "tokenizer.json", "README.md", "training-loss.svg"}
    assert "roberta.embeddings.word_embeddings.weight" in load_file(model / "model.safetensors")
    assert f"step {pushed['step']}" in (model / "README.md").read_text()


def test_a_trained_run_goes_to_a_bucket_and_others_start_from_there(
    tiny_runs: TinyRuns, object_store: ObjectStore, home: Home
) -> None:
    run = tiny_runs.run(tiny_experiment())
    write_json(run / "run.json", {"format_version": 1, "id": run.name, "name": "tiny", "created": 0.0})
    result = train(run)
    told = CliRunner().invoke(app, ["push", str(run), "gs://bucket/model", "--json"], catch_exceptions=False)
    assert json.loads(told.stdout)["location"] == "gs://bucket/model"
    other = tiny_runs.run(tiny_experiment(model={"weights": "gs://bucket/model"}))
    train(other)
    assert events(other, "evaluated")[0]["eval_loss"] == result["eval_loss"]
    with pytest.raises(InputError, match="a folder of this machine"):
        CliRunner().invoke(app, ["export", str(run), "gs://bucket/model"], catch_exceptions=False)
