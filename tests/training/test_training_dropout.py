"""Dropout is a pure function of where it happens, on every device and compiler."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tpudeck.training.dropout import Dropout, Where, drop

pytestmark = pytest.mark.training

ONES = tf.ones([64, 33])


def dropped(layer: int = 0, *, rate: float = 0.25, seed: int = 7, step: int = 3, microstep: int = 0, replica: int = 0):
    where = Where(seed, tf.constant(step), microstep=microstep, replica=replica)
    return drop(ONES, rate, where, layer).numpy()


def test_the_same_place_drops_the_same() -> None:
    np.testing.assert_array_equal(dropped(), dropped())


def test_seed_layer_step_microstep_and_replica_each_change_what_is_dropped() -> None:
    places = [dropped(), dropped(seed=8), dropped(1), dropped(step=4), dropped(microstep=1), dropped(replica=1)]
    for one, other in itertools.combinations(places, 2):
        agreement = np.mean((one == 0) == (other == 0))
        assert 0.55 < agreement < 0.7, "two independent choices at a rate of 0.25 agree in 62.5 %"


def test_the_share_is_the_rate_and_the_mean_stays() -> None:
    value = drop(tf.ones([1000, 1000]), 0.1, Where(1, tf.constant(1)), 0).numpy()
    assert np.mean(value == 0) == pytest.approx(0.1, abs=2e-3)
    assert value.mean() == pytest.approx(1, abs=2e-3)
    assert set(np.unique(value)) == {np.float32(0), np.float32(1 / 0.9)}


def test_xla_drops_the_same() -> None:
    compiled = tf.function(lambda step: drop(ONES, 0.25, Where(7, step), 0), jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(3)).numpy(), dropped())


def test_each_layer_of_a_forward_pass_drops_differently() -> None:
    dropout = Dropout(0.5, Where(1, tf.constant(1)))
    assert not np.array_equal(dropout(ONES).numpy(), dropout(ONES).numpy())


def test_a_rate_of_zero_changes_nothing() -> None:
    assert drop(ONES, 0.0, Where(1, tf.constant(1)), 0) is ONES
