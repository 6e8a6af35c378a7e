"""What a person gets for bad input, by the real command: an exit code, words that help, no traceback, nothing left."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shardsets import tokenizer
from tpudeck.cli import main
from tpudeck.config import Home

COMMAND = [sys.executable, "-m", "tpudeck.cli"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with a few good and bad files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (tmp_path / "good.txt").write_text("".join(f"Line {number} of a text that is good.\n" for number in range(400)))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text("\n \n\n")
    (tmp_path / "rows.jsonl").write_text('{"words": "another column"}\n')
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "not.txt.gz").write_bytes(b"this is no gzip")
    (tmp_path / "typo.toml").write_text('extends = "tiny"\n[train]\nstepz = 3\n')
    (tmp_path / "broken.toml").write_text("[train\n")
    (tmp_path / "orphan.toml").write_text('extends = "nobody"\n')
    (tmp_path / "circle.toml").write_text('extends = "circle"\n')
    (tmp_path / "no-tokenizer").mkdir()
    tokenizer(tmp_path / "words")
    return tmp_path


def tpudeck(line: str, **streams: int) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, **streams}
    return subprocess.run(
        [*COMMAND, *shlex.split(line)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=120,
        **streams,
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


WRONG = [
    # experiments
    ("run nowhere", "there is no preset named 'nowhere'"),
    ("run quickstar", "did you mean quickstart?"),
    ("run nowhere.toml", "there is no preset file nowhere.toml"),
    ("run typo.toml", "train.stepz: is not a known key (did you mean steps?)"),
    ("run broken.toml", "broken.toml is not valid TOML"),
    ("run circle.toml", "presets extend each other in a circle: circle → circle"),
    ("run orphan.toml", "orphan extends 'nobody': there is no preset named 'nobody'"),
    ("run tiny --set train.steps", "an override is KEY=VALUE"),
    ("run tiny --set train.steps=0", "train.steps: must be at least 1, got 0"),
    ("run tiny --set train.steps=99999999999999999999", "train.steps: must be at most 10,000,000,000"),
    ("run tiny --set train.learning_rate=inf", "train.learning_rate: must be a finite number, got inf"),
    ("run tiny --set train.learning_rate=nan", "train.learning_rate: must be a finite number, got nan"),
    ("run tiny --set train.duration=5", "must be a time with its unit, such as 10 min"),
    ("run tiny --set 'train.duration=3 parsecs'", "must be a time with its unit, such as 10 min"),
    ("run tiny --set 'train.warmup=3 parsecs'", "must be a number of steps, or text such as 1 epoch"),
    ("run tiny --set model.heads=3", "model.heads: must divide model.width"),
    ("run tiny --set model.max_positions=8", "must be at most model.max_positions (8)"),
    ("run tiny --set model.architecture=TFFooForMaskedLM", "model.architecture: must be one of roberta, bert"),
    ("run tiny --set model.architecture=TFBertForSequenceClassification", "model.architecture: must be one of"),
    ("run tiny --set tokenizer.vocab_size=3", "tokenizer.vocab_size: must be at least 16"),
    ("run tiny --set train.precision=float16", "train.precision: must be 'float32' or 'bfloat16'"),
    ("run tiny --name ''", "a run's name is letters"),
    ("run tiny --name ../up", "a run's name is letters"),
    ("run tiny --tag ''", "a tag is a word"),
    ("run tiny --tag 'two words'", "a tag is a word"),
    ("run tiny --priority 99999999999999999999", "is not in the range"),
    # what an experiment refers to
    ("run tiny --set corpus.source=", "corpus.source: must not be empty"),
    ("run tiny --set corpus.source=b\udcffd.txt", "arguments must be UTF-8"),
    ("fill-mask last 'a <mask> \udcff'", "arguments must be UTF-8"),
    ("run tiny --set 'corpus.source=\"a\\u0000b\"'", "there is no file or folder a\0b"),
    ("run tiny --set corpus.source=nowhere.txt", "nowhere.txt"),
    ("run tiny --set corpus.source=empty.txt", "empty.txt holds no text"),
    ("run tiny --set corpus.source=blank.txt", "blank.txt holds no text"),
    ("run tiny --set corpus.source=rows.jsonl", "rows.jsonl has no column 'text'; it has words"),
    ("run tiny --set corpus.source=cut.parquet", "cut.parquet"),
    ("run tiny --set corpus.source=not.txt.gz", "not.txt.gz"),
    ("run tiny --set corpus.source=hub:a/b/c", "a source on the Hub is hub:ORG/NAME"),
    ("run tiny --set tokenizer.source=hub:", "a source on the Hub is hub:ORG/NAME"),
    ("run tiny --set tokenizer.source=nowhere", "there is no tokenizer nowhere"),
    ("run tiny --set tokenizer.source=no-tokenizer", "tokenizer.json"),
    ("run tiny --set tokenizer.source=good.txt", "good.txt"),
    # the machine
    ("run tiny --device tpu", "this machine has no TPU"),
    ("run tiny --device gpu", "CUDA_VISIBLE_DEVICES=-1 hides every GPU"),
    ("run tiny --device abacus", "device.kind: must be 'auto', 'cpu', 'gpu' or 'tpu'"),
    ("run tiny --mirror ./here", "a run is mirrored to gs://BUCKET/PREFIX"),
    # presets
    ("presets show nowhere", "there is no preset named 'nowhere'"),
    ("presets validate typo.toml", "train.stepz"),
    ("presets copy tiny ../up", "a preset's name is letters"),
    ("presets copy tiny mine.toml", "a preset's name is letters"),
    ("presets copy tiny tiny --set train.stepz=3", "train.stepz"),
    ("presets derive mine --tokens many", "a count is a number"),
    ("presets derive mine", "give either --tokens or --time"),
    ("presets diff tiny nowhere", "there is no preset named 'nowhere'"),
    # data
    ("corpus show nowhere.txt", "nowhere.txt"),
    ("corpus show empty.txt", "holds no text"),
    ("corpus show rows.jsonl", "no column 'text'"),
    ("corpus show hub:a/b/c", "a source on the Hub is hub:ORG/NAME"),
    ("tokenizer train empty.txt --out out", "holds no text"),
    ("tokenizer train good.txt --out good.txt", "good.txt is a file"),
    ("tokenizer train good.txt --out /dev/null/out", "/dev/null is a file"),
    ("shards build good.txt --tokenizer words --out good.txt", "good.txt: File exists"),
    ("shards build good.txt --tokenizer words --out .", "is not empty: it holds"),
    ("shards build blank.txt --tokenizer words --out out", "holds no text"),
    ("shards build good.txt --tokenizer words --out out --sequence-length 60000", "one sequence needs 60000"),
    ("tokenizer train good.txt --out out --kind byte_bpe --vocab-size 100", "must be at least 261"),
    ("tokenizer encode nowhere text", "nowhere"),
    ("shards build good.txt --tokenizer nowhere --out out", "nowhere holds no tokenizer.json"),
    ("shards verify nowhere", "nowhere"),
    # runs
    ("runs show nowhere", "there is no run"),
    ("runs show ''", "there is no run"),
    ("runs show \udcff", "arguments must be UTF-8"),
    ("runs export nowhere", "there is no run"),
    ("runs list --status resting", "a status is one of"),
    ("fill-mask nowhere 'a <mask>'", "there is no run"),
    ("export nowhere out", "there is no run"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_input_ends_with_2_and_says_why_and_leaves_nothing(
    folder: Path,
    home: Home,
    line: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = set(folder.iterdir())
    monkeypatch.setattr(sys, "argv", ["tpudeck", *shlex.split(line)])
    with pytest.raises(SystemExit) as ended:  # any other exception would be a traceback
        main()
    out, told = capfd.readouterr()
    assert ended.value.code == 2, told
    assert words in told
    assert out == ""
    assert set(folder.iterdir()) == before
    left = [path for path in home.root.rglob("*") if path.is_file() and not path.is_relative_to(home.cache)]
    assert left == []


@pytest.mark.parametrize(
    "line",
    ["runs list", "runs show last", "presets list", "corpus show", "run tiny", "tokenizer train good.txt --out out"],
)
def test_a_home_that_is_a_file_is_told_by_every_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("TPUDECK_HOME", str(folder / "good.txt"))
    done = tpudeck(line)
    assert done.returncode == 2
    assert "home must be a folder" in done.stderr and "TPUDECK_HOME" in done.stderr


@pytest.mark.parametrize("line", ["run tiny", "runs queue"])
def test_a_place_for_locks_that_cannot_be_one_is_told_and_nothing_is_written(
    folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("TPUDECK_LOCKS", str(folder / "good.txt"))
    done = tpudeck(line)
    assert done.returncode == 2
    assert "good.txt cannot be one" in done.stderr and "TPUDECK_LOCKS" in done.stderr
    assert not home.runs.exists()


@pytest.mark.parametrize("line", ["tokenizer train good.txt", "corpus show good.txt --statistics"])
def test_a_home_that_cannot_be_written_is_told_with_the_way_out(
    folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (home.root / "cache").touch()  # as good as a file system that is mounted read-only, for root too
    done = tpudeck(line)
    assert done.returncode == 2
    assert str(home.root / "cache") in done.stderr and "TPUDECK_HOME names another place" in done.stderr


@pytest.mark.parametrize("line", ["presets list", "presets list --json", "presets schema", "corpus show good.txt"])
def test_an_output_that_takes_no_more_is_told(folder: Path, line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = tpudeck(line, stdout=full.fileno())
    assert done.returncode == 2
    assert "the disk is full: no room for standard output" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_closed_changes_nothing_else(folder: Path, closed: str) -> None:
    line = f"{shlex.join(COMMAND)} presets list --json {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("[{") == (closed == "2>&-")


def test_the_reader_that_goes_away_is_no_failure(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = tpudeck("presets schema", stdout=writing)
    finally:
        os.close(writing)
    assert done.stderr == ""
