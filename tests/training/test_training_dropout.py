"""Dropout is a pure function of where it happens, on every device and compiler, and as good as chance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from tinyruns import TinyRuns, read_lines, tiny_experiment
from tpudeck import jobs
from tpudeck.training.dropout import Dropout, Where, drop, random_words

pytestmark = pytest.mark.training

ONES = tf.ones([64, 33])
WORDS_OF_A_PLACE = tf.function(random_words, jit_compile=True, autograph=False)
PLACES: tuple[dict[str, int], ...] = (
    {}, {"seed": 8}, {"seed": 2**63 + 7}, {"layer": 1}, {"layer": 24}, {"step": 4}, {"step": 100_000},
    {"microstep": 1}, {"replica": 1}, {"step": 0, "replica": 3},
)  # fmt: skip


def where(*, seed: int = 7, step: int = 3, microstep: int = 0, replica: int = 0) -> Where:
    return Where(seed, tf.constant(step), microstep=microstep, replica=replica)


def dropped(layer: int = 0, *, rate: float = 0.25, **place: int) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = drop(ONES, rate, where(**place), layer).numpy()
    return array


def words(*shape: int, layer: int = 0, **place: int) -> npt.NDArray[np.uint32]:
    """What is drawn at a place."""
    drawn: npt.NDArray[np.uint32] = WORDS_OF_A_PLACE(shape, where(**place).key(layer)).numpy()
    return drawn


def deviations(observed: Any, expected: Any, deviation: Any) -> float:
    """By how many standard deviations the worst of them is off."""
    return float(np.max(np.abs((np.asarray(observed) - expected) / deviation)))


# ---- what is dropped


def test_the_same_place_drops_the_same() -> None:
    np.testing.assert_array_equal(dropped(), dropped())


def test_seed_layer_step_microstep_and_replica_each_change_what_is_dropped() -> None:
    for one, other in itertools.combinations([dropped(**place) for place in PLACES], 2):
        agreement = np.mean((one == 0) == (other == 0))
        assert 0.55 < agreement < 0.7, "two independent choices at a rate of 0.25 agree in 62.5 %"


def test_the_share_is_the_rate_and_the_mean_stays() -> None:
    value = drop(tf.ones([1000, 1000]), 0.1, where(), 0).numpy()
    assert np.mean(value == 0) == pytest.approx(0.1, abs=2e-3)
    assert value.mean() == pytest.approx(1, abs=2e-3)
    assert set(np.unique(value)) == {np.float32(0), np.float32(1 / 0.9)}


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_the_gradient_goes_where_values_were_kept(dtype: tf.DType) -> None:
    x = tf.cast(ONES, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = drop(x, 0.25, where(), 0)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), y.numpy())


def test_each_layer_of_a_forward_pass_drops_differently() -> None:
    dropout = Dropout(0.5, where())
    assert not np.array_equal(dropout(ONES).numpy(), dropout(ONES).numpy())


def test_a_rate_of_zero_changes_nothing() -> None:
    assert drop(ONES, 0.0, where(), 0) is ONES


# ---- the same bits everywhere


def in_plain_integers(position: int, key: tuple[int, int, int]) -> int:
    """The definition, a second time."""
    word = (position + key[0]) % 2**32
    word = (word ^ word >> 17) * 0xED5AD4BB % 2**32 ^ key[1]
    word = (word ^ word >> 11) * 0xAC4C1B51 % 2**32 ^ key[2]
    word = (word ^ word >> 15) * 0x31848BAB % 2**32
    return word ^ word >> 14


def test_words_are_those_of_the_definition_with_xla_and_without() -> None:
    shape = (3, 5, 7)
    key = where().key(2)
    expected = [in_plain_integers(position, tuple(key.numpy().tolist())) for position in range(3 * 5 * 7)]
    for drawn in (random_words(shape, key), WORDS_OF_A_PLACE(shape, key)):
        assert drawn.numpy().ravel().tolist() == expected


def test_a_step_that_xla_compiles_drops_the_same() -> None:
    compiled = tf.function(lambda step: drop(ONES, 0.25, Where(7, step), 0), jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(3)).numpy(), dropped())


def test_positions_are_computed_and_not_stored_in_the_program() -> None:
    step = tf.function(lambda x, number: drop(x, 0.1, Where(7, number), 0), jit_compile=True, autograph=False)
    specs = tf.TensorSpec([8, 12, 512, 512], tf.float32), tf.TensorSpec([], tf.int32)
    program = step.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="CPU")
    assert len(program) < 100_000


def test_several_replicas_train_with_dropout(tiny_runs: TinyRuns) -> None:
    settings = {"steps": 4, "log_every": 1}
    folder = tiny_runs.run(tiny_experiment(model={"dropout": 0.1}, train=settings, device={"replicas": 2}))
    assert jobs.start("train", folder).result()["device"] == "2 cpu"
    losses = [line["loss"] for line in read_lines(folder / "metrics.jsonl")]
    assert len(losses) == 4 and np.isfinite(losses).all()


# ---- as good as chance: bounds are five standard deviations, over more than ten million draws


def test_every_bit_and_every_byte_comes_as_often_as_any_other() -> None:
    drawn = words(4096, 4096)
    bits = np.array([np.count_nonzero(drawn & np.uint32(1 << bit)) for bit in range(32)])
    assert deviations(bits, drawn.size / 2, np.sqrt(drawn.size) / 2) < 5
    for bytes_ in drawn.view(np.uint8).reshape(-1, 4).T:
        counts = np.bincount(bytes_, minlength=256)
        chi_squared = np.sum((counts - drawn.size / 256) ** 2) / (drawn.size / 256)
        assert deviations(chi_squared, 255, np.sqrt(2 * 255)) < 5


def test_the_number_of_kept_values_varies_from_place_to_place_as_a_coins_does() -> None:
    """Counts of too even a generator would vary less, those of related keys more."""
    count, rate, places = 32 * 1024, 0.1, 400
    threshold = round(rate * 2**32)
    counts = [
        np.count_nonzero(words(count, layer=layer, step=step) < threshold) for layer in range(20) for step in range(20)
    ]
    normal = (np.array(counts) - count * rate) / np.sqrt(count * rate * (1 - rate))
    assert abs(normal.mean()) < 5 / np.sqrt(places)
    assert deviations(np.sum(normal**2), places, np.sqrt(2 * places)) < 5


def test_neighbours_on_every_axis_are_independent() -> None:
    uniform = words(8, 12, 384, 384) / 2**32 - 0.5
    for axis, distance in itertools.product(range(4), (1, 2, 3)):
        here = np.take(uniform, range(uniform.shape[axis] - distance), axis)
        there = np.take(uniform, range(distance, uniform.shape[axis]), axis)
        assert abs(np.mean(here * there) * 12) < 5 / np.sqrt(here.size), (axis, distance)


def test_pairs_of_neighbours_fill_the_square_evenly() -> None:
    drawn = (words(2, 4096, 2048) >> 26).astype(np.int64).reshape(-1, 2)
    counts = np.bincount(drawn[:, 0] * 64 + drawn[:, 1], minlength=4096)
    chi_squared = np.sum((counts - len(drawn) / 4096) ** 2) / (len(drawn) / 4096)
    assert deviations(chi_squared, 4095, np.sqrt(2 * 4095)) < 5


def test_two_places_are_independent_and_no_part_of_one_sequence() -> None:
    size = 2**18
    drawn = [words(size, **place) for place in PLACES]
    for one, other in itertools.combinations(drawn, 2):
        different = np.array([np.count_nonzero((one ^ other) & np.uint32(1 << bit)) for bit in range(32)])
        assert deviations(different, size / 2, np.sqrt(size) / 2) < 5
        shared = len(np.intersect1d(one, other, assume_unique=True))
        expected = size**2 / 2**32
        assert deviations(shared, expected, np.sqrt(expected)) < 6, "shifted copies of one sequence share far more"


def test_a_bit_of_the_position_decides_over_every_bit_of_the_word() -> None:
    drawn = words(2**20)
    positions = np.arange(2**20)
    for bit in range(20):
        changed = drawn ^ drawn[positions ^ (1 << bit)]
        flips = np.array([np.count_nonzero(changed & np.uint32(1 << out)) for out in range(32)])
        assert np.all(np.abs(flips / drawn.size - 0.5) < 0.02), bit
