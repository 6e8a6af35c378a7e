"""``tpudeck tokenizer show|compare`` and ``corpus show --statistics`` as people type them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from shardsets import WORDS, some_documents, tokenizer


def tpudeck(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    code = "from tpudeck.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=stdin)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(document for document in some_documents(300) if document))
    return path


def test_tokenizer_show_tries_it_on_a_text(text: Path, tmp_path: Path) -> None:
    folder = tokenizer(tmp_path / "t").folder
    done = tpudeck("tokenizer", "show", folder, "--on", text, "--json")
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["tokens_per_word"] == 1.0
    shown = tpudeck("tokenizer", "show", folder, "--on", text)
    assert "tokens per word\t1.000" in shown.stdout
    assert "are the unknown token" in shown.stdout


def test_tokenizer_compare_shows_where_two_differ(tmp_path: Path) -> None:
    one, other = tokenizer(tmp_path / "one").folder, tokenizer(tmp_path / "other", WORDS[:10]).folder
    done = tpudeck("tokenizer", "compare", one, other, "w1 w2 w50", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = orjson.loads(done.stdout)
    assert found["left"]["tokens"] == ["w1", "w2", "w50"]
    assert found["right"]["tokens"] == ["w1", "w2", "<unk>"]
    assert "characters per token" in tpudeck("tokenizer", "compare", one, other, stdin="w1 w2\nw3\n").stdout


def test_corpus_show_can_tell_what_is_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(["the same line"] * 50 + [f"line {word}" for word in WORDS]))
    done = tpudeck("corpus", "show", tmp_path / "text.txt", "--statistics", "--json")
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)["statistics"]
    assert sum(side["documents"] for side in found["splits"].values()) == 110
    shown = tpudeck("corpus", "show", tmp_path / "text.txt", "--statistics")
    assert "document lengths in characters" in shown.stdout
    assert "of the documents are copies of another" in shown.stdout
