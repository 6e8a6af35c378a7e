"""Masks: how many, where, what replaces them, and what they depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpudeck.masking import MaskedBatch, mask_batch

VOCAB = 200
SPECIALS = (0, 1, 2, 3, 4)
MASK = 4
COMMON: dict[str, Any] = {
    "seed": 7,
    "step": 3,
    "microstep": 0,
    "first_row": 0,
    "mask_id": MASK,
    "special_ids": SPECIALS,
    "vocab_size": VOCAB,
    "count": 6,
}


def some_ids(rows: int, length: int, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Ordinary tokens between a beginning and an end token."""
    ids = np.random.default_rng(seed).integers(len(SPECIALS), VOCAB, (rows, length)).astype(np.int32)
    ids[:, 0], ids[:, -1] = 0, 2
    return ids


def mask(ids: np.ndarray[Any, Any], **changed: Any) -> MaskedBatch:
    return mask_batch(ids, **(COMMON | changed))


def assert_equal(left: MaskedBatch, right: MaskedBatch) -> None:
    for name, one, other in zip(left._fields, left, right, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_every_row_has_exactly_the_count_of_distinct_ordinary_positions_in_order() -> None:
    ids = some_ids(50, 40)
    batch = mask(ids)
    assert batch.positions_BP.shape == (50, 6)
    assert (np.diff(batch.positions_BP, axis=1) > 0).all()
    assert (batch.weights_BP == 1).all()
    assert not np.isin(batch.labels_BP, SPECIALS).any()
    np.testing.assert_array_equal(batch.labels_BP, np.take_along_axis(ids, batch.positions_BP, axis=1))


def test_what_is_not_predicted_is_left_alone() -> None:
    ids = some_ids(50, 40)
    batch = mask(ids)
    untouched = np.ones(ids.shape, dtype=bool)
    np.put_along_axis(untouched, batch.positions_BP, False, axis=1)
    np.testing.assert_array_equal(batch.inputs_BS[untouched], ids[untouched])


@pytest.mark.parametrize("policy", ["train", "evaluate"])
@pytest.mark.parametrize("split", [1, 3, 8, 24])
def test_a_rows_masks_do_not_depend_on_how_the_batch_is_split(policy: str, split: int) -> None:
    ids = some_ids(24, 33)
    whole = mask(ids, policy=policy, first_row=100)
    parts = [mask(ids[at : at + split], policy=policy, first_row=100 + at) for at in range(0, 24, split)]
    assert_equal(whole, MaskedBatch(*map(np.concatenate, zip(*parts, strict=True))))


@pytest.mark.parametrize("changed", [{"seed": 8}, {"step": 4}, {"microstep": 1}, {"first_row": 1}])
def test_training_masks_change_with_seed_step_microstep_and_row(changed: dict[str, int]) -> None:
    ids = np.tile(some_ids(1, 64), (16, 1))
    assert (mask(ids).positions_BP != mask(ids, **changed).positions_BP).any(axis=1).all()


def test_evaluation_masks_are_the_same_at_every_step_and_other_than_those_of_training() -> None:
    ids = some_ids(16, 64)
    evaluated = mask(ids, policy="evaluate")
    assert_equal(evaluated, mask(ids, policy="evaluate", step=9, microstep=2))
    trained = mask(ids, step=0)
    assert (evaluated.positions_BP != trained.positions_BP).any(axis=1).all()


def test_in_evaluation_every_target_is_hidden() -> None:
    batch = mask(some_ids(16, 64), policy="evaluate")
    assert (np.take_along_axis(batch.inputs_BS, batch.positions_BP, axis=1) == MASK).all()


def test_in_training_targets_are_masked_replaced_and_kept_8_to_1_to_1() -> None:
    ids = some_ids(1000, 64)
    batch = mask(ids, count=20)
    shown = np.take_along_axis(batch.inputs_BS, batch.positions_BP, axis=1)
    targets = shown.size
    masked, kept = (shown == MASK).sum(), (shown == batch.labels_BP).sum()
    # 20,000 targets: a standard deviation is 57 of the masked and 42 of the others.
    assert abs(masked - 0.8 * targets) < 240
    assert abs(kept - (0.1 + 0.1 / (VOCAB - 5)) * targets) < 180


def test_replacements_are_drawn_evenly_from_the_ordinary_tokens_only() -> None:
    ids = some_ids(4000, 64)
    specials = (0, 1, 2, 3, 4, 50, VOCAB - 1, VOCAB + 7)
    ids[np.isin(ids, specials)] = 60
    batch = mask(ids, count=20, special_ids=specials)
    shown = np.take_along_axis(batch.inputs_BS, batch.positions_BP, axis=1)
    drawn = shown[(shown != MASK) & (shown != batch.labels_BP)]
    counts = np.bincount(drawn, minlength=VOCAB)
    assert len(counts) == VOCAB
    ordinary = np.setdiff1d(np.arange(VOCAB), specials)
    assert counts[list(specials[:-1])].sum() == 0
    expected = len(drawn) / len(ordinary)
    assert (abs(counts[ordinary] - expected) < 6 * np.sqrt(expected)).all()


def test_every_ordinary_position_is_chosen_equally_often() -> None:
    batch = mask(some_ids(20_000, 20), count=3)
    counts = np.bincount(batch.positions_BP.ravel(), minlength=20)
    assert counts[[0, 19]].sum() == 0
    expected = 60_000 / 18
    assert (abs(counts[1:19] - expected) < 5 * np.sqrt(expected)).all()


def test_a_row_with_few_candidates_predicts_them_all_and_fills_up_with_weight_zero() -> None:
    ids = np.zeros((3, 16), dtype=np.int32)
    ids[1, 9] = 77
    ids[2, 3:5] = 88
    batch = mask(ids, policy="evaluate")
    assert batch.weights_BP.tolist() == [[0] * 6, [1] + [0] * 5, [1, 1] + [0] * 4]
    assert batch.positions_BP[1, 0] == 9
    assert batch.positions_BP[2, :2].tolist() == [3, 4]
    assert batch.inputs_BS[1].nonzero()[0].tolist() == [9]
    assert (np.diff(batch.positions_BP, axis=1) >= 0).all()
    assert batch.positions_BP.max() < 16


def test_a_slot_of_weight_zero_never_undoes_a_mask() -> None:
    ids = np.zeros((1, 8), dtype=np.int32)
    ids[0, 7] = 99  # the position that empty slots point at
    batch = mask(ids, policy="evaluate")
    assert batch.inputs_BS[0, 7] == MASK


@given(
    rows=st.integers(1, 5),
    length=st.integers(1, 40),
    data=st.data(),
    seed=st.integers(0, 2**63 - 1),
    step=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_the_choice_is_the_smallest_random_numbers_whatever_the_shape(
    rows: int, length: int, data: st.DataObject, seed: int, step: int
) -> None:
    count = data.draw(st.integers(1, length))
    ids = np.random.default_rng(seed % 1000).integers(0, 12, (rows, length)).astype(np.int32)
    batch = mask(ids, seed=seed, step=step, count=count, vocab_size=12)
    for row in range(rows):
        candidates = (ids[row] > MASK).sum()
        assert batch.weights_BP[row].sum() == min(count, candidates)
        chosen = batch.positions_BP[row][batch.weights_BP[row] == 1]
        assert (ids[row][chosen] > MASK).all()
        assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 41}, {"step": 2**32}, {"first_row": -1}])
def test_arguments_outside_their_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"count|32-bit"):
        mask(some_ids(2, 40), **wrong)
