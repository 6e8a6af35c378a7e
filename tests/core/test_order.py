"""The order of sequences in training: epochs are permutations, and any step can be found from nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpudeck.shards import order
from tpudeck.shards.order import batch_rows


def stream(steps: int, *, seed: int, global_batch: int, shard_sizes: tuple[int, ...], first: int = 0) -> list[int]:
    rows = [
        batch_rows(step, seed=seed, global_batch=global_batch, shard_sizes=shard_sizes)
        for step in range(first, first + steps)
    ]
    return [int(row) for row in np.concatenate(rows)]


def forget() -> None:
    order._plan.cache_clear()
    order._group.cache_clear()


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) > 0),
    global_batch=st.integers(1, 70),
    group=st.integers(1, 50),
)
@settings(max_examples=80, deadline=None)
def test_every_epoch_is_a_permutation_and_batches_straddle_epochs(
    sizes: list[int], global_batch: int, group: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "GROUP_SEQUENCES", group)
        forget()
        total = sum(sizes)
        steps = -(-3 * total // global_batch)
        rows = stream(steps, seed=5, global_batch=global_batch, shard_sizes=tuple(sizes))
        for epoch in range(3):
            assert sorted(rows[epoch * total : (epoch + 1) * total]) == list(range(total))
        forget()


def test_a_step_is_the_same_from_a_fresh_process_state_and_in_any_order() -> None:
    asked = {"seed": 3, "global_batch": 7, "shard_sizes": (20, 30, 11)}
    forward = [batch_rows(step, **asked) for step in range(30)]  # type: ignore[arg-type]
    for step in (29, 0, 13, 8, 9):
        forget()
        np.testing.assert_array_equal(batch_rows(step, **asked), forward[step])  # type: ignore[arg-type]


def test_the_global_batch_does_not_change_the_stream() -> None:
    one = stream(60, seed=3, global_batch=1, shard_sizes=(20, 30, 11))
    assert stream(12, seed=3, global_batch=5, shard_sizes=(20, 30, 11)) == one


def test_epochs_and_seeds_differ() -> None:
    first = stream(1, seed=1, global_batch=100, shard_sizes=(60, 40))
    assert first != stream(1, seed=1, global_batch=100, shard_sizes=(60, 40), first=1)
    assert first != stream(1, seed=2, global_batch=100, shard_sizes=(60, 40))
    assert first != list(range(100))


def test_a_group_mixes_its_shards_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "GROUP_SEQUENCES", 300)
    forget()
    sizes = (100,) * 12
    rows = np.array(stream(4, seed=1, global_batch=300, shard_sizes=sizes)).reshape(4, 300)
    shards = [set((group // 100).tolist()) for group in rows]
    assert all(len(group) == 3 for group in shards)
    assert set.union(*shards) == set(range(12))
    assert len(set((rows[0][:30] // 100).tolist())) == 3  # mixed from the start
    forget()


def test_every_place_is_equally_likely_for_a_sequence() -> None:
    places = np.zeros(10)
    for seed in range(2000):
        places[stream(1, seed=seed, global_batch=10, shard_sizes=(10,)).index(0)] += 1
    assert (abs(places - 200) < 5 * np.sqrt(200)).all()


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ValueError, match="no sequences"):
        batch_rows(0, seed=0, global_batch=1, shard_sizes=(0,))
