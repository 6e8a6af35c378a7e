"""Batches are a pure function of (seed, step), however they are split."""

from __future__ import annotations

import numpy as np
import pytest

from tinyruns import TinyRuns, tiny_experiment
from tpudeck.shards.order import batch_rows
from tpudeck.training.batches import Ahead, Batches
from tpudeck.training.evaluate import surprise
from tpudeck.training.inputs import Inputs, read_inputs

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def inputs(tiny_runs: TinyRuns) -> Inputs:
    experiment = tiny_experiment(train={"global_batch_size": 8})
    return read_inputs(tiny_runs.run(experiment), experiment)


def open_batches(inputs: Inputs, *, microsteps: int = 1, replicas: int = 1) -> Batches:
    experiment = tiny_experiment(train={"global_batch_size": 8, "accumulation_steps": microsteps})
    training, validation = inputs.shards.split("train"), inputs.shards.split("validation")
    return Batches(experiment, inputs.tokenizer, training, validation, global_batch=8, replicas=replicas)


def test_row_r_is_the_same_on_any_number_of_replicas_and_microsteps(inputs: Inputs) -> None:
    whole = open_batches(inputs).training(3, 2)
    split = open_batches(inputs, microsteps=2, replicas=4).training(3, 2)
    assert split.ids.shape == (2, 2, 4, 1, 16)
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_array_equal(one.reshape(2, 8, -1), other.reshape(2, 8, -1))


def test_a_stack_holds_what_each_step_would_get_alone(inputs: Inputs) -> None:
    batches = open_batches(inputs)
    stack = batches.training(5, 3)
    for index in range(3):
        for part, alone in zip(stack, batches.training(5 + index, 1), strict=True):
            np.testing.assert_array_equal(part[index], alone[0])


def test_labels_are_the_tokens_of_the_sequences_that_the_order_names(inputs: Inputs) -> None:
    batch = open_batches(inputs).training(7, 1)
    training = inputs.shards.split("train")
    rows = batch_rows(7, seed=0, global_batch=8, shard_sizes=training.shard_sizes)
    tokens = np.take_along_axis(training.take(rows), batch.positions.reshape(8, -1), axis=1)
    np.testing.assert_array_equal(batch.labels.reshape(8, -1), tokens)


def test_evaluation_hides_every_target_and_counts_every_sequence_once(inputs: Inputs) -> None:
    batches = list(open_batches(inputs).evaluation())
    validation = inputs.shards.split("validation")
    assert len(validation) % 8, "the case of a partial last batch"
    assert batches[-1].ids.shape == batches[0].ids.shape
    counted = sum(int((batch.weights.reshape(8, -1).max(axis=1) > 0).sum()) for batch in batches)
    assert counted == len(validation)
    for batch in batches:
        shown = np.take_along_axis(batch.ids, batch.positions, axis=-1)
        assert (shown[batch.weights > 0] == inputs.tokenizer.mask_id).all()
        assert not np.isin(batch.labels[batch.weights > 0], inputs.tokenizer.special_ids).any()


def test_what_was_prepared_is_what_is_taken_and_anything_else_is_made(inputs: Inputs) -> None:
    batches = open_batches(inputs)
    ahead = Ahead(batches)
    ahead.prepare(2, 2)
    np.testing.assert_array_equal(ahead.take(2, 2).ids, batches.training(2, 2).ids)
    ahead.prepare(4, 2)
    np.testing.assert_array_equal(ahead.take(6, 1).ids, batches.training(6, 1).ids)
    ahead.close()


def test_the_surprise_at_a_token_follows_from_its_frequency_among_those_that_are_predicted() -> None:
    values = surprise(np.array([50, 3, 5]), never_predicted=(0,))
    assert values[1:] == pytest.approx([-np.log(0.4), -np.log(0.6)])
    assert np.isinf(values[0])
