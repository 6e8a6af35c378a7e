"""A shard set in a bucket: read as the one it came from, shard by shard, within the limit of the cache."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from gcsfaults import Fault, ObjectStore, Request
from shardsets import build_set, some_documents, tokenizer
from tpudeck.config import Home
from tpudeck.errors import ArtefactError
from tpudeck.shards import ShardSet, open_set, order
from tpudeck.shards.staged import StagedSequences
from tpudeck.storage import bucket, sets

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PLACE = "gs://bucket/shards/one"
GROUP = 30
"""Three shards."""


@pytest.fixture
def local(object_store: ObjectStore, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> ShardSet:
    """About twenty shards of ten sequences, and a cache with room for a few."""
    monkeypatch.setattr(order, "GROUP_SEQUENCES", GROUP)
    monkeypatch.setattr("tpudeck.shards.staged.GROUP_SEQUENCES", GROUP)
    for cached in (order._plan, order._group):
        cached.cache_clear()
    made = build_set(
        tmp_path / "set", tokenizer(tmp_path / "tokenizer"), train=some_documents(160), validation=some_documents(20)
    )
    sets.push(made.folder, PLACE)
    shard_bytes = max(path.stat().st_size for path in made.split("train").files)
    home.settings_file.write_text(f'[storage]\ncache = "{10 * shard_bytes}"\ndeadline = "20 s"\n')
    object_store.reset()
    return made


def train(one: ShardSet, steps: range, *, seed: int = 1, batch: int = 7) -> list[np.ndarray]:
    """What training takes, and how: the shards of the next groups first."""
    sequences, taken = one.split("train"), []
    settings = {"seed": seed, "global_batch": batch, "shard_sizes": sequences.shard_sizes}
    for step in steps:
        sequences.prepare(order.shards_ahead(step, **settings))
        taken.append(sequences.take(order.batch_rows(step, **settings)))
    return taken


def fetched(store: ObjectStore) -> list[str]:
    return [request.path for request in store.requests if request.reads_content and "tfrecord" in request.path]


def test_it_is_the_set_that_was_pushed(local: ShardSet) -> None:
    staged = open_set(PLACE)
    assert (staged.location, staged.tokenizer_hash, staged.vocab_size) == (
        PLACE, local.tokenizer_hash, local.vocab_size,
    )  # fmt: skip
    np.testing.assert_array_equal(staged.token_counts, local.token_counts)
    for name in local.splits:
        everything = np.arange(len(local.split(name)))
        np.testing.assert_array_equal(staged.split(name).take(everything), local.split(name).take(everything))


def test_training_takes_the_same_within_the_limit_of_the_cache(local: ShardSet, home: Home) -> None:
    steps = range(3 * len(local.split("train")) // 7)
    for ours, theirs in zip(train(open_set(PLACE), steps), train(local, steps), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    gc.collect()
    files = [path for path in (home.cache / "objects").rglob("*.tfrecord") if path.is_file()]
    assert 0 < len(files) <= 10 < len(local.split("train").files)


def test_opening_it_fetches_no_shard(object_store: ObjectStore, local: ShardSet) -> None:
    open_set(PLACE).split("train")
    assert fetched(object_store) == []


def test_the_next_group_is_fetched_before_it_is_read(object_store: ObjectStore, local: ShardSet) -> None:
    sequences = open_set(PLACE).split("train")
    assert isinstance(sequences, StagedSequences)
    settings = {"seed": 1, "global_batch": 7, "shard_sizes": sequences.shard_sizes}
    ahead = order.shards_ahead(0, **settings)
    assert len(ahead) == 2 * GROUP // 10
    sequences.prepare(ahead)
    for coming in sequences._coming.values():
        coming.result()
    assert len(fetched(object_store)) == len(ahead)
    object_store.reset()
    for step in range(2 * GROUP // 7):
        sequences.take(order.batch_rows(step, **settings))
    assert fetched(object_store) == []


def test_what_the_next_step_needs_is_known_a_step_before(local: ShardSet) -> None:
    sizes = local.split("train").shard_sizes
    settings = {"seed": 3, "global_batch": 7, "shard_sizes": sizes}
    for step in range(2 * sum(sizes) // 7):
        rows = np.concatenate([order.batch_rows(near, **settings) for near in (step, step + 1)])
        needed = set(np.searchsorted(np.cumsum(sizes), rows, side="right").tolist())
        assert needed <= set(order.shards_ahead(step, **settings))


def test_faults_delay_reading_and_change_nothing(object_store: ObjectStore, local: ShardSet) -> None:
    kinds: list[Fault] = ["503", "cut", "429", "flip", "slow"]
    staged = open_set(PLACE)

    def plan(request: Request) -> Fault | None:
        return kinds[len(object_store.injected) % 5] if request.reads_content and request.index % 3 == 0 else None

    object_store.reset(plan)
    steps = range(40)
    for ours, theirs in zip(train(staged, steps), train(local, steps), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(object_store.injected) >= 5


def test_a_set_that_is_not_whole_is_refused_before_training(local: ShardSet) -> None:
    name = local.split("train").files[3].relative_to(local.folder).as_posix()
    stored = bucket.describe(f"{PLACE}/{name}")
    bucket.remove(stored)
    with pytest.raises(ArtefactError, match=f"{name} is missing"):
        open_set(PLACE)
    bucket.write_bytes(stored.location, b"else")
    with pytest.raises(ArtefactError, match="is not what the set's manifest says"):
        open_set(PLACE)
    with pytest.raises(ArtefactError, match="there is no shard set at gs://bucket/none"):
        open_set("gs://bucket/none")
