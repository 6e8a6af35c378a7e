"""``tpudeck tokenizer`` as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tpudeck.config import Home
from tpudeck.tokenizer import load

TPUDECK = [sys.executable, "-c", "from tpudeck.cli import main; main()"]


def tpudeck(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TPUDECK, *arguments], capture_output=True, text=True, input=stdin)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"the {number}th line returns a string or raises an error" for number in range(300)))
    return path


@pytest.fixture
def folder(text: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    made = tpudeck("tokenizer", "train", str(text), "--out", str(out), "--kind", "bpe", "--vocab-size", "90")
    assert made.returncode == 0, made.stderr
    return out


def test_train_writes_a_folder_and_says_what_came(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("tokenizer", "train", str(text), "--out", str(out), "--kind", "wordpiece", "--vocab-size", "120")
    made = tpudeck(*arguments, "--set", "model.architecture=bert", "--json")
    told = json.loads(made.stdout)
    assert (told["kind"], told["vocab_size"], told["cached"]) == ("wordpiece", 120, False)
    assert load(out).hash == told["hash"]
    assert load(out).mask_id == 4
    assert "looking at the text" in made.stderr
    assert json.loads(tpudeck(*arguments, "--set", "model.architecture=bert", "--json").stdout)["cached"] is True


def test_train_takes_a_preset(text: Path) -> None:
    source = f"corpus.source={text}"
    made = tpudeck("tokenizer", "train", "quickstart", "--set", source, "--vocab-size", "80", "--json")
    assert json.loads(made.stdout)["kind"] == "unigram"
    shown = tpudeck("tokenizer", "encode", "preset:quickstart", "the")
    assert shown.returncode == 2
    assert "tpudeck tokenizer train preset:quickstart" in shown.stderr


def test_train_on_a_sample_sees_less_text(text: Path) -> None:
    made = tpudeck("tokenizer", "train", str(text), "--sample-mb", "0.005", "--vocab-size", "80", "--json")
    assert 5000 <= json.loads(made.stdout)["trained_on"]["bytes"] < 5200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vocab-size", "20"), "a vocabulary of 20 cannot be"),
        (("--vocab-size", "3"), "tokenizer.vocab_size: must be at least 16"),
        (("--kind", "sentencepiece"), "tokenizer.kind: must be 'unigram', 'bpe', 'byte_bpe' or 'wordpiece'"),
        (("--sample-mb", "-1"), "tokenizer.sample_mb"),
        (("--set", "tokenizer.vocabsize=5"), "did you mean vocab_size?"),
        (("--set", "tokenizer.source=/no/such/folder"), "there is no tokenizer /no/such/folder"),
    ],
)
def test_what_cannot_be_is_explained_with_exit_code_2(text: Path, arguments: tuple[str, ...], message: str) -> None:
    out = text.parent / "out"
    made = tpudeck("tokenizer", "train", str(text), "--out", str(out), *arguments)
    assert made.returncode == 2, made.stderr
    assert message in made.stderr
    assert "Traceback" not in made.stderr
    assert not out.exists()


def test_an_out_that_is_a_file_is_refused_before_training(text: Path) -> None:
    made = tpudeck("tokenizer", "train", str(text), "--out", str(text))
    assert made.returncode == 2
    assert "is a file" in made.stderr


def test_encode_tells_ids_tokens_and_what_they_stand_for(folder: Path) -> None:
    shown = tpudeck("tokenizer", "encode", str(folder), "the string", "error")
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert rows[0] == ["text", "id", "token", "stands for"]
    assert "".join(row[3] for row in rows[1:] if row[0] == "1") == "the string"
    assert {row[0] for row in rows[1:]} == {"1", "2"}


def test_encode_reads_lines_of_standard_input(folder: Path) -> None:
    told = json.loads(tpudeck("tokenizer", "encode", str(folder), "--json", stdin="the\n\nstring\n").stdout)
    assert [item["text"] for item in told] == ["the", "", "string"]
    assert told[0]["ids"] == load(folder).rust.encode("the").ids


def test_special_tokens_are_text_unless_asked_otherwise(folder: Path) -> None:
    [plain] = json.loads(tpudeck("tokenizer", "encode", str(folder), "the <mask>", "--json").stdout)
    [special] = json.loads(tpudeck("tokenizer", "encode", str(folder), "the <mask>", "--special", "--json").stdout)
    assert 4 not in plain["ids"]
    assert 4 in special["ids"]


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_lines_that_are_not_unicode_are_encoded_all_the_same(folder: Path, errors: str) -> None:
    words = ["tokenizer", "encode", str(folder), "--json"]
    environ = {**os.environ, "PYTHONIOENCODING": f"utf-8:{errors}"}
    shown = subprocess.run([*TPUDECK, *words], capture_output=True, input=b"caf\xe9\n", env=environ)
    assert json.loads(shown.stdout)[0]["text"] == "caf\ufffd"


def test_encode_takes_a_run(folder: Path, home: Home) -> None:
    run = home.runs / "20260101-000000-name-abcd"
    (run / "results").mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"format_version": 1, "id": run.name, "name": "name"}))
    missing = tpudeck("tokenizer", "encode", "last", "the")
    assert missing.returncode == 2
    assert "has no tokenizer yet" in missing.stderr
    result = {"ok": True, "result": {"folder": str(folder)}}
    (run / "results" / "tokenizer.json").write_text(json.dumps(result))
    assert "the" in tpudeck("tokenizer", "encode", "last", "the").stdout


def test_encode_without_a_tokenizer_names_what_it_takes() -> None:
    shown = tpudeck("tokenizer", "encode", "nosuch", "the")
    assert shown.returncode == 2
    assert "neither a folder with a tokenizer nor a run" in shown.stderr


def _begun(tmp_path: Path, home: Home) -> subprocess.Popen[str]:
    """A training that takes a while, once its child speaks."""
    lines = (" ".join(f"{(a * b * 7919) % 99991:x}" for b in range(40)) for a in range(20_000))
    (tmp_path / "large.txt").write_text("\n".join(lines))
    command = [*TPUDECK, "tokenizer", "train", str(tmp_path / "large.txt"), "--vocab-size", "8000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not [*(home.cache / "jobs").glob("*/progress.json")]:
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.faults
def test_ctrl_c_ends_training_at_once_and_leaves_nothing(tmp_path: Path, home: Home) -> None:
    process = _begun(tmp_path, home)
    os.kill(process.pid, signal.SIGINT)
    _, narration = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in narration
    assert not [*(home.cache / "jobs").iterdir()]
    assert not home.tokenizers.exists() or not [*home.tokenizers.iterdir()]


@pytest.mark.faults
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_child_trains_on_when_the_command_was_killed(tmp_path: Path, home: Home, how: signal.Signals) -> None:
    process = _begun(tmp_path, home)
    [child] = psutil.Process(process.pid).children()
    process.send_signal(how)
    process.communicate()
    child.wait(timeout=20)
    assert not home.tokenizers.exists() or not [*home.tokenizers.iterdir()]
