"""Statistics as jobs: kept by content, so that what was inspected once is known at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardsets import build_set, some_documents, tokenizer
from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.errors import ArtefactError
from tpudeck.inspection.task import known_shards
from tpudeck.presets import Experiment, experiment_from


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    (tmp_path / "text.txt").write_text("\n".join(document for document in some_documents(400) if document))
    return experiment_from(
        {"corpus": {"source": str(tmp_path / "text.txt")}, "train": {"steps": 1, "global_batch_size": 1}}
    )


def test_a_corpus_is_inspected_once(experiment: Experiment, tmp_path: Path) -> None:
    first = jobs.run("inspect-corpus", experiment)
    again = jobs.run("inspect-corpus", experiment)
    documents = (tmp_path / "text.txt").read_text().split("\n")
    assert sum(side["documents"] for side in first["splits"].values()) == len(documents)
    assert (first["cached"], again["cached"]) == (False, True)
    assert again["splits"] == first["splits"]


def test_a_tokenizer_is_tried_on_the_whole_of_a_small_text_or_a_sample(experiment: Experiment, tmp_path: Path) -> None:
    folder = str(tokenizer(tmp_path / "tokenizer").folder)
    whole = jobs.run("inspect-tokenizer", experiment, request={"tokenizer": folder})
    assert whole["whole_text"]
    part = jobs.run("inspect-tokenizer", experiment, request={"tokenizer": folder, "sample_mb": 0.005})
    assert not part["whole_text"]
    assert part["documents"] < whole["documents"] / 2
    assert abs(part["characters_per_token"] - whole["characters_per_token"]) <= 2 * part["characters_per_token_error"]


def test_the_statistics_of_a_set_are_known_wherever_it_is_moved(
    experiment: Experiment, tmp_path: Path, home: Home
) -> None:
    documents = some_documents(100)
    build_set(tmp_path / "set", tokenizer(tmp_path / "t"), train=documents, validation=documents)
    assert known_shards(home, tmp_path / "set") is None
    found = jobs.run("inspect-shards", experiment, request={"shards": str(tmp_path / "set")})
    (tmp_path / "set").rename(tmp_path / "moved")
    known = known_shards(home, tmp_path / "moved")
    assert known is not None
    assert known["splits"] == found["splits"]
    assert known["folder"] == str(tmp_path / "moved")


def test_a_damaged_set_is_the_jobs_error(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"no record")
    with pytest.raises(ArtefactError, match="not a TFRecord file"):
        jobs.run("inspect-shards", experiment, request={"shards": str(tmp_path)})
