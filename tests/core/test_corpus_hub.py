"""Data sets and tokenizers on the Hub: streamed from a server of our own, by the real client libraries."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from hubserver import HubServer
from tpudeck.config import Home
from tpudeck.errors import TpudeckError, from_dict

PROGRAM = """
import json, sys
from tpudeck.corpus import fingerprint, open_corpus
from tpudeck.errors import TpudeckError
from tpudeck.presets.schema import Corpus
from tpudeck.tokenizer import existing, load

def answer(question):
    what, settings = question
    try:
        if what == "fingerprint":
            return {"answer": fingerprint(Corpus(**settings))}
        if what == "tokenizer":
            folder = existing.fetch(settings["source"], settings.get("revision", ""))
            return {"answer": load(folder).rust.encode("a b").tokens}
        documents = open_corpus(Corpus(**settings), what)
        return {"answer": [text for batch in documents for text in batch], "counts": documents.counts.to_dict()}
    except TpudeckError as error:
        return {"error": error.to_dict()}

print(json.dumps([answer(question) for question in json.loads(sys.argv[1])]))
"""


def as_parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    with HubServer(tmp_path / "hub") as server:
        yield server


class Asking:
    """Puts questions to the corpus in a child process that knows the server."""

    def __init__(self, hub: HubServer, cache: Path) -> None:
        self.environ = {**os.environ, **hub.environ(cache)}

    def __call__(self, *questions: tuple[str, dict[str, Any]], **environ: str) -> list[Any]:
        command = [sys.executable, "-c", PROGRAM, json.dumps(questions)]
        done = subprocess.run(command, capture_output=True, text=True, env={**self.environ, **environ})
        assert done.returncode == 0, done.stderr
        return [
            from_dict(answer["error"]) if "error" in answer else answer["answer"] for answer in json.loads(done.stdout)
        ]


@pytest.fixture
def ask(hub: HubServer, tmp_path: Path, home: Home) -> Asking:
    return Asking(hub, tmp_path / "cache")


def test_a_data_set_is_streamed_by_split_column_and_configuration(hub: HubServer, ask: Asking) -> None:
    rows = as_parquet(text=["one", None, "", "two"], title=["a", "b", "c", "d"])
    hub.add(
        "datasets", "org/plain", {"train.parquet": rows, "validation.parquet": as_parquet(text=["held"], title=["e"])}
    )
    card = b"---\nconfigs:\n- config_name: a\n  data_files: a.jsonl\n- config_name: b\n  data_files: b.jsonl\n---\n"
    lines = {"a.jsonl": b'{"text": "of a"}\n', "b.jsonl": b'{"text": "of b"}\n'}
    hub.add("datasets", "org/two", {**lines, "README.md": card})
    plain = {"source": "hub:org/plain", "validation_split": "validation"}
    answers = ask(
        ("train", plain),
        ("validation", plain),
        ("train", {**plain, "column": "title"}),
        ("train", {"source": "hub:org/two", "config": "b", "validation_fraction": 1e-9}),
    )
    assert answers == [["one", "two"], ["held"], ["a", "b", "c", "d"], ["of b"]]
    assert not [request for request in hub.requests if request.startswith("GET") and request.endswith(".py")]


def test_without_a_validation_split_a_part_is_held_out(hub: HubServer, ask: Asking) -> None:
    texts = [f"document {number}" for number in range(300)]
    hub.add("datasets", "org/one", {"train.parquet": as_parquet(text=texts)})
    settings = {"source": "hub:org/one", "validation_fraction": 0.2}
    train, validation = ask(("train", settings), ("validation", settings))
    assert sorted(train + validation) == sorted(texts)
    assert 30 < len(validation) < 90


def test_what_cannot_be_read_is_explained(hub: HubServer, ask: Asking) -> None:
    rows = as_parquet(text=["one"], title=["a"])
    hub.add("datasets", "org/plain", {"train.parquet": rows})
    hub.add("datasets", "org/gated", {"train.parquet": rows}, gated=True)
    hub.add("datasets", "org/script", {"script.py": b"print('never run')"})
    hub.add("datasets", "org/nothing", {"notes.bin": b""})
    hub.add("datasets", "org/broken", {"train.parquet": rows[:-20]})
    card = b"---\nconfigs:\n- config_name: a\n  data_files: a.jsonl\n- config_name: b\n  data_files: b.jsonl\n---\n"
    hub.add("datasets", "org/two", {"a.jsonl": b"{}", "b.jsonl": b"{}", "README.md": card})
    cases = {
        "there is no data set org/missing on the Hub, or it is private": {"source": "hub:org/missing"},
        "the data set org/gated is gated": {"source": "hub:org/gated"},
        "org/script is a script, and code that comes with a data set is never run": {"source": "hub:org/script"},
        "the data set org/nothing cannot be read": {"source": "hub:org/nothing"},
        "the data set org/broken cannot be read": {"source": "hub:org/broken"},
        "among the available configs: ['a', 'b']": {"source": "hub:org/two"},
        "BuilderConfig 'c' not found. Available: ['a', 'b']": {"source": "hub:org/two", "config": "c"},
        "Available splits: ['train']": {"source": "hub:org/plain", "split": "test"},
        "org/plain has no column 'body'; it has text, title": {"source": "hub:org/plain", "column": "body"},
        "the data set org/plain has no such revision": {"source": "hub:org/plain", "revision": "v9"},
        "a source on the Hub is hub:ORG/NAME, got 'hub:'": {"source": "hub:"},
        "got 'hub:../escape/x'": {"source": "hub:../escape/x"},
    }
    answers = ask(*(("train", settings) for settings in cases.values()))
    for expected, answer in zip(cases, answers, strict=True):
        assert isinstance(answer, TpudeckError), (expected, answer)
        assert expected in answer.message
        assert answer.exit_code == 2
        assert hub.url not in answer.show()


def test_a_fingerprint_follows_the_commit_and_is_remembered_without_the_network(hub: HubServer, ask: Asking) -> None:
    folder = hub.add("datasets", "org/one", {"train.parquet": as_parquet(text=["one"])})
    settings = {"source": "hub:org/one"}
    before, other_split = ask(("fingerprint", settings), ("fingerprint", {**settings, "split": "test"}))
    assert before != other_split
    assert ask(("fingerprint", settings), HF_HUB_OFFLINE="1") == [before]
    (folder / "train.parquet").write_bytes(as_parquet(text=["two"]))
    assert ask(("fingerprint", settings)) != [before]


def test_without_the_network_the_way_out_is_told(hub: HubServer, ask: Asking) -> None:
    [answer] = ask(("train", {"source": "hub:org/one"}), HF_HUB_OFFLINE="1")
    assert "the Hub is switched off" in answer.message
    assert "download the files" in answer.hint


def test_a_folder_of_the_same_name_is_not_mistaken_for_the_hub(
    hub: HubServer, ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("datasets", "org/one", {"train.parquet": as_parquet(text=["one"])})
    (tmp_path / "org" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    [answer] = ask(("train", {"source": "hub:org/one"}))
    assert "is also a folder here" in answer.message


def test_tokenizers_come_from_the_hub_and_from_its_cache_without_the_network(hub: HubServer, ask: Asking) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    rust = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3, "<unk>": 4}, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["<s>", "</s>", "<unk>"])
    hub.add("models", "org/words", {"tokenizer.json": rust.to_str().encode(), "model.safetensors": b"large"})
    wanted = ("tokenizer", {"source": "hub:org/words"})
    assert ask(wanted) == [["a", "b"]]
    assert not [request for request in hub.requests if "safetensors" in request]
    assert ask(wanted, HF_HUB_OFFLINE="1") == [["a", "b"]]
    missing, wrong = ask(("tokenizer", {"source": "hub:org/none"}), ("tokenizer", {**wanted[1], "revision": "v9"}))
    assert "there is no tokenizer org/none on the Hub" in missing.message
    assert "has no such revision" in wrong.message
