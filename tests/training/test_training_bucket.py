"""Training from shards in a bucket: the same run as from a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcsfaults import Fault, ObjectStore, Request
from tinyruns import TinyRuns, job, read_lines, tiny_experiment, train
from tpudeck.config import Home
from tpudeck.errors import ArtefactError
from tpudeck.presets import Experiment, save_experiment
from tpudeck.shards.task import build_shards
from tpudeck.storage import read_json, sets, write_json

pytestmark = [pytest.mark.training, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

PLACE = "gs://bucket/shards/tiny"


def from_bucket(run: Path, tokenizer: Path) -> Experiment:
    """Change a run's experiment to the shards in the bucket, and do its stage `shards`."""
    experiment = tiny_experiment(shards={"source": PLACE}, tokenizer={"source": str(tokenizer)})
    save_experiment(experiment, run / "experiment.toml")
    made = dict(build_shards(job("shards", run)))
    write_json(run / "results" / "shards.json", {"ok": True, "result": made})
    return experiment


def told(run: Path) -> list[dict[str, float]]:
    lines = read_lines(run / "metrics.jsonl")
    return [{key: line[key] for key in ("step", "loss", "grad_norm")} for line in lines]


def test_a_run_from_a_bucket_is_the_run_from_a_folder_whatever_breaks_on_the_way(
    object_store: ObjectStore, tiny_runs: TinyRuns, home: Home
) -> None:
    local, remote = tiny_runs.run(tiny_experiment()), tiny_runs.run(tiny_experiment())
    sets.push(Path(read_json(local / "results" / "shards.json")["result"]["folder"]), PLACE)
    tokenizer = read_json(local / "results" / "tokenizer.json")["result"]
    add_hash(remote, tokenizer["folder"])
    from_bucket(remote, Path(tokenizer["folder"]))
    kinds: list[Fault] = ["503", "cut", "flip"]

    def plan(request: Request) -> Fault | None:
        return kinds[request.index % 3] if request.reads_content and request.index % 4 == 0 else None

    object_store.reset(plan)
    ours, theirs = train(remote), train(local)
    assert read_json(remote / "results" / "shards.json")["result"]["folder"] == PLACE
    assert told(remote) == told(local) and ours["eval_loss"] == theirs["eval_loss"]


def test_shards_of_another_tokenizer_are_refused(object_store: ObjectStore, tiny_runs: TinyRuns, home: Home) -> None:
    run = tiny_runs.run(tiny_experiment())
    sets.push(Path(read_json(run / "results" / "shards.json")["result"]["folder"]), PLACE)
    other = tiny_runs.tokenizer(("<|endoftext|>", "<pad>", "<unk>"))
    add_hash(run, str(other))
    with pytest.raises(ArtefactError, match="were made with the tokenizer"):
        from_bucket(run, other)


def add_hash(run: Path, tokenizer: str) -> None:
    from tpudeck.tokenizer import load

    write_json(
        run / "results" / "tokenizer.json",
        {"ok": True, "result": {"folder": tokenizer, "hash": load(tokenizer).hash}},
    )
