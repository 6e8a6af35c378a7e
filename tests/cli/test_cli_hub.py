"""Tokenizers, shards and weights by way of the Hub, with its real client, in child processes: the client reads where
the Hub is when it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hubserver import HubServer
from shardsets import build_set, contents, some_documents, tokenizer
from tpudeck.config import Home

Answer = subprocess.CompletedProcess[str]
CONFIG = {
    "model_type": "roberta", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 66, "vocab_size": 65,
}  # fmt: skip


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with HubServer(tmp_path / "hub") as server:
        yield server


@pytest.fixture
def tpudeck(hub: HubServer, tmp_path: Path, home: Home) -> Callable[..., Answer]:
    """Runs a command where the Hub is ours; what it prints never holds the token."""

    def run(*arguments: str, **environ: str) -> Answer:
        known = dict(os.environ) | hub.environ(tmp_path / "cache") | {"HF_TOKEN": hub.token}
        command = [sys.executable, "-c", "from tpudeck.cli import main; main()", *arguments]
        done = subprocess.run(command, env=known | environ, capture_output=True, text=True, check=False)
        assert hub.token not in done.stdout + done.stderr and "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    made = build_set(
        tmp_path / "set",
        tokenizer(tmp_path / "tokenizer"),
        train=some_documents(60),
        validation=some_documents(20),
        key="0123456789abcdef" * 2,
    )
    return made.folder


def test_a_tokenizer_goes_through_the_hub(
    tpudeck: Callable[..., Answer], hub: HubServer, tmp_path: Path, home: Home
) -> None:
    folder = tokenizer(tmp_path / "tokenizer").folder
    (folder / "manifest.json").write_text(json.dumps({"key": "0123456789abcdef"}))
    pushed = tpudeck("tokenizer", "push", str(folder), "hub:org/tokens")
    assert pushed.returncode == 0, pushed.stderr
    assert (tmp_path / "hub" / "models" / "org" / "tokens" / ".private").exists()
    pulled = tpudeck("tokenizer", "pull", "hub:org/tokens")
    assert pulled.returncode == 0, pulled.stderr
    assert contents(home.tokenizers / "0123456789abcdef") == contents(folder)


def test_shards_go_through_the_hub_as_a_private_data_set(
    tpudeck: Callable[..., Answer], hub: HubServer, shards: Path, tmp_path: Path, home: Home
) -> None:
    pushed = tpudeck("shards", "push", str(shards), "hub:org/shards", "--json")
    assert json.loads(pushed.stdout)["private"], pushed.stderr
    assert (tmp_path / "hub" / "datasets" / "org" / "shards" / "manifest.json").exists()
    pulled = tpudeck("shards", "pull", "hub:org/shards")
    assert pulled.returncode == 0, pulled.stderr
    there = home.shards / ("0123456789abcdef" * 2)
    assert contents(there) == contents(shards)
    verified = tpudeck("shards", "verify", str(there))
    assert verified.returncode == 0, verified.stderr
    again = tpudeck("shards", "pull", "hub:org/shards")
    assert again.returncode == 2 and "exists already" in again.stderr


def test_a_revision_is_what_is_pulled(tpudeck: Callable[..., Answer], hub: HubServer, shards: Path) -> None:
    tpudeck("shards", "push", str(shards), "hub:org/shards")
    repository = hub.repository("datasets", "org/shards")
    assert repository is not None
    wrong = tpudeck("shards", "pull", "hub:org/shards", "--revision", "v9")
    assert wrong.returncode == 2 and "has no such revision" in wrong.stderr
    right = tpudeck("shards", "pull", "hub:org/shards", "--revision", repository.commit())
    assert right.returncode == 0, right.stderr


@pytest.mark.parametrize(
    ("name", "environ", "code", "said"),
    [
        ("org/gated", {}, 2, "is gated"),
        ("org/missing", {}, 2, "there is no repository org/missing on the Hub"),
        ("org/plain", {"HF_HUB_OFFLINE": "1"}, 2, "the Hub is switched off (HF_HUB_OFFLINE)"),
        ("org/plain", {"HF_ENDPOINT": "http://127.0.0.1:9"}, 3, "the Hub could not be reached"),
        ("a/b/c", {}, 2, "a source on the Hub is hub:ORG/NAME"),
    ],
)
def test_what_cannot_be_pulled_is_explained(
    tpudeck: Callable[..., Answer], hub: HubServer, name: str, environ: dict[str, str], code: int, said: str
) -> None:
    for kind in ("org/gated", "org/plain"):
        hub.add("datasets", kind, {"manifest.json": b"{}"}, gated=kind == "org/gated")
    done = tpudeck("shards", "pull", f"hub:{name}", **environ)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.fixture
def weights(hub: HubServer) -> HubServer:
    files = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": b"weights"}
    hub.add("models", "org/model", files)
    hub.add("models", "org/gated", files, gated=True)
    return hub


def find(weights: str, **more: str) -> str:
    """A program that says which weights an experiment starts from."""
    return f"""
from tpudeck import pretrained
from tpudeck.presets import experiment_from, merge
plain = {{"shards": {{"sequence_length": 32}}, "train": {{"steps": 1, "global_batch_size": 8}}}}
changes = pretrained.as_changes(pretrained.describe({weights!r}))
print(pretrained.find(experiment_from(merge(merge(plain, changes), {{"model": {more!r}}}))).record()["commit"])
"""


def test_weights_come_from_the_hub_at_their_revision_and_from_its_cache(weights: HubServer, tmp_path: Path) -> None:
    repository = weights.repository("models", "org/model")
    assert repository is not None
    environ = dict(os.environ) | weights.environ(tmp_path / "cache")
    for more, offline in (({}, "0"), ({"weights_revision": repository.commit()}, "0"), ({}, "1")):
        command = [sys.executable, "-c", find("hub:org/model", **more)]
        done = subprocess.run(
            command, env=environ | {"HF_HUB_OFFLINE": offline}, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == repository.commit(), done.stderr


@pytest.mark.parametrize(
    ("name", "environ", "code", "said"),
    [
        ("org/gated", {}, 2, "is gated"),
        ("org/none", {}, 2, "there is no folder of weights org/none on the Hub"),
        ("org/model", {"HF_HUB_OFFLINE": "1"}, 2, "the Hub is switched off (HF_HUB_OFFLINE)"),
        ("org/model", {"HF_ENDPOINT": "http://127.0.0.1:9"}, 3, "the Hub could not be reached"),
    ],
)
def test_weights_that_cannot_be_had_stop_a_run_before_it_is_made(
    tpudeck: Callable[..., Answer], weights: HubServer, home: Home,
    name: str, environ: dict[str, str], code: int, said: str,
) -> None:  # fmt: skip
    done = tpudeck("run", "tiny", "--weights", f"hub:{name}", **environ)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not list(home.runs.glob("*"))
