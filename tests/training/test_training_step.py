"""The step: what a compiler gets to see, and sums that don't depend on how a batch is cut."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tinyruns import tiny_experiment
from tpudeck.presets import FAMILIES, Experiment
from tpudeck.training.configuration import Vocabulary
from tpudeck.training.model import build_model
from tpudeck.training.optimizer import AdamW
from tpudeck.training.step import Batch, TrainStep, build_step

pytestmark = pytest.mark.training

VOCABULARY = Vocabulary(size=500, pad_id=1, bos_id=0, eos_id=2)


def batch(experiment: Experiment, microsteps: int) -> Batch:
    """Four sequences, cut into so many microsteps."""
    rng, predicted = np.random.default_rng(1), experiment.masked_per_sequence
    ids = rng.integers(5, 500, (4, 16)).astype(np.int32)
    positions = np.sort(np.argsort(rng.random((4, 16)), axis=1)[:, :predicted], axis=1).astype(np.int32)
    labels = np.take_along_axis(ids, positions, axis=1)
    weights = np.ones((4, predicted), np.float32)
    return Batch(*(tf.reshape(part, [microsteps, 1, -1, part.shape[1]]) for part in (ids, positions, labels, weights)))


def train_steps(experiment: Experiment, given: Batch, count: int = 3) -> tuple[list[float], dict[str, np.ndarray]]:
    model = build_model(experiment, VOCABULARY)
    step = tf.function(TrainStep(experiment, model, AdamW(model.weights, experiment.train), replicas=1))
    losses = [float(step(given, tf.constant(number), tf.constant(1e-3)).loss) for number in range(count)]
    return losses, {name: weight.numpy() for name, weight in model.weights.items()}


@pytest.mark.parametrize(
    ("family", "settings"),
    [*((family, {}) for family in FAMILIES), ("roberta", {"precision": "bfloat16", "accumulation_steps": 2})],
)
def test_a_step_lowers_to_a_program_of_static_shapes(family: str, settings: dict[str, object]) -> None:
    step, specs = build_step(tiny_experiment(model={"architecture": family}, train=settings), VOCABULARY)
    program = tf.function(step, jit_compile=True).experimental_get_compiler_ir(*specs)(stage="hlo")
    assert "while" in program or "accumulation_steps" not in settings
    assert re.search(r"[a-z0-9]+\[[0-9,]*<=", program) is None, "a dimension with an upper bound is dynamic"
    for name in ("set-dimension-size", "get-dimension-size", "dynamic-reshape", "pad-to-static", "custom-call"):
        assert f" {name}(" not in program


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    # Adam divides by the size of a gradient: a large epsilon keeps it from blowing up rounding where that is zero.
    whole = tiny_experiment(model={"dropout": 0.0}, train={"epsilon": 0.01})
    halves = tiny_experiment(model={"dropout": 0.0}, train={"epsilon": 0.01, "accumulation_steps": 2})
    losses, weights = train_steps(whole, batch(whole, 1))
    accumulated_losses, accumulated_weights = train_steps(halves, batch(halves, 2))
    np.testing.assert_allclose(accumulated_losses, losses, rtol=1e-6)
    for name, weight in weights.items():
        np.testing.assert_allclose(accumulated_weights[name], weight, atol=1e-6, err_msg=name)


def test_the_loss_is_divided_by_the_predictions_of_a_full_batch() -> None:
    experiment = tiny_experiment(model={"dropout": 0.0})
    full = batch(experiment, 1)
    half = full._replace(weights=tf.concat([full.weights[:, :, :2], full.weights[:, :, 2:] * 0], 2))
    rest = full._replace(weights=full.weights - half.weights)
    whole, first, second = (train_steps(experiment, part, 1)[0][0] for part in (full, half, rest))
    assert first + second == pytest.approx(whole, rel=1e-6)
    assert whole == pytest.approx(np.log(500), rel=0.1)


def test_a_batch_in_which_nothing_can_be_predicted_gives_zero_and_no_nan() -> None:
    experiment = tiny_experiment(train={"clip_norm": 1.0})
    full = batch(experiment, 1)
    losses, weights = train_steps(experiment, full._replace(weights=full.weights * 0), 2)
    assert losses == [0.0, 0.0]
    assert all(np.isfinite(weight).all() for weight in weights.values())


def test_dropout_changes_with_the_step_and_with_nothing_else() -> None:
    experiment = tiny_experiment(model={"dropout": 0.5}, train={"accumulation_steps": 2})
    given = batch(experiment, 2)
    twice = Batch(*(tf.concat([part[:1], part[:1]], 0) for part in given))
    model = build_model(experiment, VOCABULARY)
    step = TrainStep(experiment, model, AdamW(model.weights, experiment.train), replicas=1)
    first, again, later = (float(step(twice, tf.constant(number), tf.constant(0.0)).loss) for number in (0, 0, 1))
    assert first == again != later
