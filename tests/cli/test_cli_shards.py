"""``tpudeck shards`` as people type it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from shardsets import some_documents, tokenizer


def tpudeck(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from tpudeck.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(some_documents(500)))
    tokenizer(tmp_path / "tokenizer")
    return path


def build(text: Path, *more: str) -> subprocess.CompletedProcess[str]:
    folder = text.parent
    asked = ["--tokenizer", str(folder / "tokenizer"), "--sequence-length", "16", "--out", str(folder / "out")]
    return tpudeck("shards", "build", text, *asked, *more)


def test_build_and_verify(text: Path) -> None:
    built = build(text, "--json")
    assert built.returncode == 0, built.stderr
    result = orjson.loads(built.stdout)
    assert result["folder"] == str(text.parent / "out")
    verified = tpudeck("shards", "verify", text.parent / "out", "--json")
    found = orjson.loads(verified.stdout)
    assert verified.returncode == 0
    assert found["ok"]
    assert found["sequences"] == result["train"]["sequences"] + result["validation"]["sequences"]


def test_the_published_layout_has_its_file_names(text: Path) -> None:
    assert build(text, "--layout", "published").returncode == 0
    names = sorted(path.name for path in (text.parent / "out" / "train").iterdir())
    assert len(names) == 1
    assert names[0].startswith("dataset-0-")


def test_verify_says_what_is_wrong_and_exits_with_2(text: Path) -> None:
    build(text)
    (shard,) = (text.parent / "out" / "train").iterdir()
    data = bytearray(shard.read_bytes())
    data[1000] ^= 1
    shard.write_bytes(data)
    verified = tpudeck("shards", "verify", text.parent / "out")
    assert verified.returncode == 2
    assert f"{shard} is corrupted at offset" in verified.stderr
    assert ": 1 fault;" in verified.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "neither a folder nor a run"), ("preset:quickstart", "not made yet"), (".", "holds no shards")],
)
def test_shards_that_are_not_there_are_an_error_without_a_traceback(
    tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verified = tpudeck("shards", "verify", name)
    assert verified.returncode == 2
    assert message in verified.stderr
    assert "Traceback" not in verified.stderr


def test_a_missing_text_or_tokenizer_is_an_error_and_nothing_is_written(text: Path) -> None:
    for arguments in (
        ("shards", "build", text.parent / "absent.txt", "--tokenizer", text.parent / "tokenizer"),
        ("shards", "build", text, "--tokenizer", text.parent / "absent"),
    ):
        done = tpudeck(*arguments, "--sequence-length", "16", "--out", text.parent / "out")
        assert done.returncode == 2, done.stderr
        assert "absent" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (text.parent / "out").exists()


def test_show_gives_the_numbers_of_the_set_and_keeps_them(text: Path) -> None:
    result = orjson.loads(build(text, "--json").stdout)
    first = orjson.loads(tpudeck("shards", "show", text.parent / "out", "--json").stdout)
    assert first["splits"]["train"]["sequences"] == result["train"]["sequences"]
    assert not first.pop("cached")
    assert orjson.loads(tpudeck("shards", "show", text.parent / "out", "--json").stdout) == first
    shown = tpudeck("shards", "show", text.parent / "out")
    assert shown.returncode == 0, shown.stderr
    assert "document lengths in tokens" in shown.stdout


def test_head_decodes_records_and_jumps_to_one(text: Path) -> None:
    build(text)
    arguments = ("--tokenizer", text.parent / "tokenizer", "--json")
    many = orjson.loads(tpudeck("shards", "head", text.parent / "out", "-n", "5", *arguments).stdout)
    assert [record["index"] for record in many] == [0, 1, 2, 3, 4]
    assert many[0]["tokens"][0] == "<s>"
    one = orjson.loads(
        tpudeck("shards", "head", text.parent / "out", "--shard", "0", "--from", "3", "-n", "1", *arguments).stdout
    )
    assert one == [many[3]]
    beyond = tpudeck("shards", "head", text.parent / "out", "--from", "999999")
    assert beyond.returncode == 2
    assert "has the sequences 0 to" in beyond.stderr


def test_head_shows_the_masks_that_training_draws_at_a_step(text: Path) -> None:
    from tpudeck.masking import mask_batch
    from tpudeck.shards import open_set
    from tpudeck.shards.order import batch_rows

    build(text)
    done = tpudeck(
        "shards",
        "head",
        text.parent / "out",
        "--step",
        "7",
        "-n",
        "4",
        "--tokenizer",
        text.parent / "tokenizer",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    shown = orjson.loads(done.stdout)
    # A plain text is trained with seed 0, batches of 32, and 15 % of the positions of a preset's sequences.
    sequences = open_set(text.parent / "out").split("train")
    rows = batch_rows(7, seed=0, global_batch=32, shard_sizes=sequences.shard_sizes)
    masked = mask_batch(
        sequences.take(rows),
        seed=0,
        step=7,
        microstep=0,
        first_row=0,
        mask_id=4,
        special_ids=range(5),
        vocab_size=65,
        count=2,
    )
    assert [record["index"] for record in shown] == rows[:4].tolist()
    assert [record["inputs"] for record in shown] == masked.inputs_BS[:4].tolist()
    assert [record["masked_positions"] for record in shown] == masked.positions_BP[:4].tolist()
