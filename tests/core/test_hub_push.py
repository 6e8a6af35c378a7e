"""A folder to the Hub: over HTTP, in a child process, against a server that can fail and hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubserver import HubServer
from tpudeck.hub import redact

PUSH = """
import json, sys
from pathlib import Path
from tpudeck.errors import TpudeckError
from tpudeck.hub import push_folder

folder, name, settings = sys.argv[1:]
try:
    pushed = push_folder(Path(folder), name, narrate=lambda line: print(line, file=sys.stderr), **json.loads(settings))
    print(json.dumps(pushed.to_dict()))
except TpudeckError as error:
    print(json.dumps(error.to_dict()))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with HubServer(tmp_path / "hub") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(os.urandom(50_000))
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("---\nlibrary_name: transformers\n---\n# Model\n")
    (folder / ".hidden").touch()
    return folder


class Outcome:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode == 0, done.stderr
        self.result: dict[str, Any] = json.loads(done.stdout)
        self.output = done.stdout + done.stderr


def push(hub: HubServer, folder: Path, *, name: str = "org/name", token: str | None = "", **settings: Any) -> Outcome:
    environ = dict(os.environ) | hub.environ(folder.parent / "cache")
    environ.pop("HF_TOKEN", None)
    if token is not None:
        environ["HF_TOKEN"] = token or hub.token
    settings = {"deadline_s": 30.0} | settings
    command = [sys.executable, "-c", PUSH, str(folder), name, json.dumps(settings)]
    return Outcome(subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False))


def on_the_hub(hub: HubServer) -> dict[str, bytes]:
    root = hub.root / "models" / "org" / "name"
    return {path.name: path.read_bytes() for path in root.iterdir() if not path.name.startswith(".")}


def local(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_folder_becomes_one_commit_in_a_private_repository(hub: HubServer, folder: Path) -> None:
    pushed = push(hub, folder).result
    assert on_the_hub(hub) == local(folder)
    assert pushed["private"] and pushed["files"] == 3
    assert sum("/commit/" in request for request in hub.requests) == 1


def test_a_public_repository_is_never_written_to_by_accident(hub: HubServer, folder: Path) -> None:
    hub.add("models", "org/name", {"README.md": b"seen by all"})
    refused = push(hub, folder).result
    assert refused["type"] == "InputError" and "is public" in refused["message"] and "--public" in refused["hint"]
    assert on_the_hub(hub) == {"README.md": b"seen by all"}
    assert push(hub, folder, public=True).result["private"] is False
    assert on_the_hub(hub) == local(folder)


def test_an_interrupted_push_sends_only_the_rest(hub: HubServer, folder: Path) -> None:
    hub.plan = lambda request: 503 if "/commit/" in request else None
    failed = push(hub, folder, deadline_s=3.0).result
    assert failed["type"] == "RetryLaterError" and "sends what is missing" in failed["hint"]
    assert on_the_hub(hub) == {}
    hub.plan = lambda request: None
    push(hub, folder)
    assert on_the_hub(hub) == local(folder)
    assert sum(request.startswith("PUT /lfs/") for request in hub.requests) == 1


@pytest.mark.parametrize("where", ["/api/repos/create", "/preupload/", "/objects/batch", "PUT /lfs/", "/commit/"])
def test_a_failure_that_passes_is_tried_again(hub: HubServer, folder: Path, where: str) -> None:
    failures = iter([503, 500])
    hub.plan = lambda request: next(failures, None) if where in request else None
    assert push(hub, folder).result["name"] == "org/name"
    assert on_the_hub(hub) == local(folder)


def test_a_hub_that_hangs_holds_nobody_beyond_the_deadline(hub: HubServer, folder: Path) -> None:
    hub.plan = lambda request: "hang" if "PUT /lfs/" in request else None
    failed = push(hub, folder, deadline_s=2.0).result
    assert failed["type"] == "RetryLaterError" and "does not answer" in failed["message"]


@pytest.mark.parametrize("token", ["hf_somebodyElsesToken", None])
def test_a_refusal_says_how_to_log_in_and_never_names_the_token(
    hub: HubServer, folder: Path, token: str | None
) -> None:
    outcome = push(hub, folder, token=token)
    assert outcome.result["type"] == "InputError" and "hf auth login" in outcome.result["hint"]
    assert "hf_somebodyElsesToken" not in outcome.output


def test_an_impossible_name_is_explained(hub: HubServer, folder: Path) -> None:
    refused = push(hub, folder, name="a/b/c").result
    assert refused["type"] == "InputError" and "ORG/NAME" in refused["hint"]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("token hf_AbCdEfGhIjKl refused", "token *** refused"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("at https://user:password@host/x", "at https://***@host/x"),
        ("PUT https://host/x?X-Signature=abc&y=1 failed", "PUT https://host/x?*** failed"),
        ("nothing secret: https://host/x?page=2", "nothing secret: https://host/x?page=2"),
        ("the known one: s3cret", "the known one: ***"),
    ],
)
def test_secrets_are_taken_out_of_text(text: str, safe: str) -> None:
    assert redact(text, "s3cret") == safe
