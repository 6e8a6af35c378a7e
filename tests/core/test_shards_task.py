"""The shards stage in a process of its own: threads, kills, wrong tokenizers, and what it reports."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from shardsets import Reporter, contents, some_documents, tokenizer
from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, CorpusError, InputError
from tpudeck.presets import Experiment, experiment_from, save_experiment
from tpudeck.shards import checked, open_set
from tpudeck.shards.ledger import file_crc32c
from tpudeck.shards.task import packing_of, set_key
from tpudeck.storage import write_json


def experiment(text: Path, **shards: Any) -> Experiment:
    return experiment_from(
        {
            "corpus": {"source": str(text), "validation_fraction": 0.1},
            "shards": {"sequence_length": 16, "shard_sequences": 50} | shards,
            "train": {"steps": 1, "global_batch_size": 4},
        }
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(some_documents(2000)))
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return tokenizer(tmp_path / "tokenizer").folder


def job_folder(tmp_path: Path, name: str, experiment: Experiment, **request: Any) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    save_experiment(experiment, folder / "experiment.toml")
    write_json(folder / "request.json", request)
    return folder


def test_the_set_is_kept_under_its_key_and_found_the_second_time(text: Path, words: Path, home: Home) -> None:
    made = jobs.run("shards", experiment(text), request={"tokenizer": str(words)})
    assert made["folder"] == str(home.shards / made["key"])
    assert made["train"]["sequences"] == len(open_set(made["folder"]).split("train")) > 1000
    assert made["train"]["documents"] + made["validation"]["documents"] < 2000 + 1
    again = jobs.run("shards", experiment(text), request={"tokenizer": str(words)})
    assert (made["cached"], again["cached"]) == (False, True)
    assert again == made | {"cached": True}


def flip_a_byte(path: Path, offset: int) -> None:
    """Damage a file without changing its size."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_damaged_set_is_found_before_anything_is_trained_on_it(text: Path, words: Path) -> None:
    made = jobs.run("shards", experiment(text), request={"tokenizer": str(words)})
    shard = Path(made["folder"]) / "train" / "shard-00001.tfrecord"
    flip_a_byte(shard, 100)
    with pytest.raises(ArtefactError, match=r"shard-00001\.tfrecord is corrupted at offset \d+") as caught:
        jobs.run("shards", experiment(text), request={"tokenizer": str(words)})
    assert f"remove {made['folder']}" in caught.value.hint
    flip_a_byte(shard, 100)
    assert jobs.run("shards", experiment(text), request={"tokenizer": str(words)}) == made | {"cached": True}


def test_a_set_is_read_whole_once_and_again_only_where_a_file_has_changed(
    text: Path, words: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = open_set(jobs.run("shards", experiment(text), request={"tokenizer": str(words)})["folder"])
    read: list[str] = []
    monkeypatch.setattr(checked, "file_crc32c", lambda path: read.append(path.name) or file_crc32c(path))
    checked.check_once(made, home, Reporter())
    assert read == []  # it was just written
    (home.cache / "checked").rename(home.cache / "lost")
    checked.check_once(made, home, Reporter())
    everything = len(read)
    assert everything == sum(len(split.files) for split in made.manifest.splits.values()) > 10
    checked.check_once(made, home, Reporter())
    os.utime(made.folder / "train" / "shard-00003.tfrecord")
    checked.check_once(made, home, Reporter())
    assert read[everything:] == ["shard-00003.tfrecord"]


def test_any_other_input_is_another_set(text: Path, words: Path, tmp_path: Path) -> None:
    packing = packing_of(experiment(text))
    keys = {
        set_key("text", "tokenizer", packing),
        set_key("other text", "tokenizer", packing),
        set_key("text", "other tokenizer", packing),
        set_key("text", "tokenizer", packing_of(experiment(text, sequence_length=32))),
        set_key("text", "tokenizer", packing_of(experiment(text, layout="published"))),
    }
    assert len(keys) == 5
    causal = experiment(text).model_copy(
        update={"model": experiment(text).model.model_copy(update={"architecture": "gpt2"})}
    )
    assert not packing_of(causal).enclosed


def test_the_bytes_do_not_depend_on_the_number_of_threads(text: Path, words: Path, tmp_path: Path) -> None:
    for threads in ("1", "2", "5"):
        out = tmp_path / f"out-{threads}"
        folder = job_folder(tmp_path, f"job-{threads}", experiment(text), tokenizer=str(words), out=str(out))
        jobs.start("shards", folder, environ={"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}).result()
    assert contents(tmp_path / "out-1") == contents(tmp_path / "out-2") == contents(tmp_path / "out-5")


@pytest.mark.slow
@pytest.mark.faults
def test_a_killed_build_goes_on_to_the_same_bytes_and_its_helpers_end_with_it(tmp_path: Path, words: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text("\n".join(some_documents(100_000)))  # long enough for several processes
    settings = experiment(text, shard_sequences=500)
    whole = job_folder(tmp_path, "whole", settings, tokenizer=str(words), out=str(tmp_path / "out-whole"))
    jobs.start("shards", whole).result()
    shards_in_all = len(list((tmp_path / "out-whole").glob("train/*.tfrecord")))
    out = tmp_path / "out"
    killed = job_folder(tmp_path, "killed", settings, tokenizer=str(words), out=str(out))
    kills = 0
    for share in (0.01, 0.4, 0.7, 0.8):
        job = jobs.start("shards", killed)
        while job.running() and len(list(out.glob("train/*.tfrecord"))) < share * shards_in_all:
            time.sleep(0.001)
        helpers = psutil.Process(job.process.pid).children(recursive=True)
        if job.running():
            os.kill(job.process.pid, signal.SIGKILL)
            kills += 1
        job.process.wait()
        assert not psutil.wait_procs(helpers, timeout=30)[1]
    assert kills >= 3
    jobs.start("shards", killed).result()
    assert contents(out) == contents(tmp_path / "out-whole")


def test_a_run_uses_the_tokenizer_that_it_made(text: Path, words: Path, tmp_path: Path) -> None:
    run = job_folder(tmp_path, "run", experiment(text))
    (run / "results").mkdir()
    with pytest.raises(InputError, match="need a tokenizer"):
        jobs.start("shards", run).result()
    made = {"folder": str(words), "hash": "f" * 64}
    write_json(run / "results" / "tokenizer.json", {"ok": True, "result": made})
    with pytest.raises(ArtefactError, match="and this run made ffffffffffff"):
        jobs.start("shards", run).result()


def test_too_little_text_is_the_users_error_and_leaves_no_set(tmp_path: Path, words: Path, home: Home) -> None:
    text = tmp_path / "little.txt"
    text.write_text("w1 w2\n")
    with pytest.raises(CorpusError, match=r"the (train|validation) text gives|holds no text"):
        jobs.run("shards", experiment(text), request={"tokenizer": str(words)})
    assert not list(home.shards.glob("*"))
