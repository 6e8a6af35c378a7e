"""``tpudeck corpus`` as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tpudeck.config import Home


def tpudeck(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tpudeck.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=stdin)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"line {number} [of] text" for number in range(500)) + "\n\n")
    return path


def test_show_tells_both_sides_and_a_few_documents(text: Path) -> None:
    shown = tpudeck("corpus", "show", str(text), "--samples", "3")
    assert shown.returncode == 0
    table, samples = shown.stdout.split("\n\n")
    rows = [line.split("\t") for line in table.splitlines()]
    assert rows[0] == ["split", "documents", "characters", "bytes"]
    assert int(rows[1][1]) + int(rows[2][1]) == 500
    assert len(samples.splitlines()) == 4
    assert shown.stderr == ""


def test_show_as_json_is_one_document_with_the_fingerprint(text: Path) -> None:
    told = json.loads(tpudeck("corpus", "show", str(text), "--json").stdout)
    assert told["source"] == str(text)
    assert len(told["fingerprint"]) == 64
    assert told["splits"]["train"]["documents"] == told["splits"]["validation"]["held_out"]
    assert len(told["samples"]) == 5


def test_samples_come_from_all_over_the_text(text: Path) -> None:
    told = json.loads(tpudeck("corpus", "show", str(text), "--json", "--samples", "4").stdout)
    numbers = [int(sample.split()[1]) for sample in told["samples"]]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 250


def test_presets_and_settings_choose_the_corpus(text: Path) -> None:
    override = f"corpus.source={text}"
    for source in ("quickstart", "preset:quickstart"):
        told = json.loads(tpudeck("corpus", "show", source, "--set", override, "--json").stdout)
        assert told["source"] == str(text)
    limited = json.loads(tpudeck("corpus", "show", str(text), "--limit", "10", "--json").stdout)
    assert sum(split["documents"] for split in limited["splits"].values()) == 10


def test_what_was_left_out_is_narrated_beside_the_data(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "one"}\n{bad\n{"body": 3}\n')
    shown = tpudeck(
        "corpus", "show", str(tmp_path / "a.jsonl"), "--column", "body", "--set", "corpus.validation_fraction=1e-9"
    )
    assert "malformed lines skipped: 1" in shown.stderr
    assert "rows that are not text skipped: 1" in shown.stderr
    assert "malformed" not in shown.stdout


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/no/such/file.txt", "there is no file or folder /no/such/file.txt"),
        ("nosuchword", "nosuchword is neither a file, a preset nor a run"),
        ("preset:nosuch", "there is no preset named 'nosuch'"),
        ("hub:a/b/c", "a source on the Hub is hub:ORG/NAME"),
    ],
)
def test_wrong_sources_are_explained_with_exit_code_2(source: str, message: str) -> None:
    shown = tpudeck("corpus", "show", source)
    assert shown.returncode == 2
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""


def test_control_characters_in_a_text_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\x1b[31mred\x07 [bold]text[/bold]\n" * 3)
    shown = tpudeck("corpus", "show", str(tmp_path / "a.txt"), "--set", "corpus.validation_fraction=1e-9")
    assert "\x1b" not in shown.stdout
    assert "[bold]text[/bold]" in shown.stdout


def test_every_command_and_group_says_what_it_is_for() -> None:
    for group, commands in {"corpus": ["show"], "tokenizer": ["train", "encode"]}.items():
        for arguments in ([group], *([group, command] for command in commands)):
            shown = tpudeck(*arguments, "--help")
            assert shown.returncode == 0
            assert len(shown.stdout.splitlines()[2].strip()) > 10, arguments


def test_the_text_of_a_run_is_that_of_its_experiment(tmp_path: Path, home: Home) -> None:
    (tmp_path / "text.txt").write_text("one\ntwo\nthree\n")
    run = home.runs / "20260101-000000-tiny-0000"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "experiment.toml").write_text(
        f'[corpus]\nsource = "{tmp_path}/text.txt"\nvalidation_fraction = 1e-9\n'
        "[train]\nsteps = 1\nglobal_batch_size = 1\n"
    )
    for name in ("last", run.name, str(run)):
        shown = tpudeck("corpus", "show", name, "--json")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["splits"]["train"]["documents"] == 3
