"""AdamW against its definition in numpy, and what it spares."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tinyruns import tiny_experiment
from tpudeck.training.names import decays
from tpudeck.training.optimizer import AdamW, clip

pytestmark = pytest.mark.training


def test_updates_follow_the_published_rule() -> None:
    settings = tiny_experiment(train={"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}).train
    rng = np.random.default_rng(0)
    names = "layer.dense.weight", "layer.dense.bias"
    weights = {name: tf.Variable(rng.normal(size=(4, 3)).astype(np.float32)) for name in names}
    expected = {name: weight.numpy().astype(np.float64) for name, weight in weights.items()}
    first = {name: np.zeros((4, 3)) for name in names}
    second = {name: np.zeros((4, 3)) for name in names}
    optimizer = AdamW(weights, settings)
    for step in range(5):
        rate = 0.01 * (step + 1)
        gradients = {name: rng.normal(size=(4, 3)).astype(np.float32) for name in names}
        optimizer.update(
            {name: tf.constant(value) for name, value in gradients.items()},
            step=tf.constant(step),
            learning_rate=tf.constant(rate),
        )
        for name, gradient in gradients.items():
            first[name] = 0.8 * first[name] + 0.2 * gradient
            second[name] = 0.95 * second[name] + 0.05 * gradient.astype(np.float64) ** 2
            corrected = first[name] / (1 - 0.8 ** (step + 1)), second[name] / (1 - 0.95 ** (step + 1))
            decay = 0.1 if name.endswith("weight") else 0.0
            expected[name] -= rate * (corrected[0] / (np.sqrt(corrected[1]) + 1e-3) + decay * expected[name])
    for name, weight in weights.items():
        np.testing.assert_allclose(weight.numpy(), expected[name], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert.encoder.layer.0.output.dense.weight", True),
        ("bert.embeddings.word_embeddings.weight", True),
        ("transformer.h.0.attn.c_attn.weight", True),
        ("bert.encoder.layer.0.output.dense.bias", False),
        ("bert.encoder.layer.0.output.LayerNorm.weight", False),
        ("lm_head.layer_norm.weight", False),
        ("distilbert.transformer.layer.0.sa_layer_norm.weight", False),
        ("transformer.h.0.ln_1.weight", False),
        ("transformer.ln_f.weight", False),
        ("lm_head.bias", False),
    ],
)
def test_decay_spares_biases_and_layer_norms(name: str, expected: bool) -> None:
    assert decays(name) is expected


def test_clipping_scales_all_gradients_alike_and_tells_the_norm_they_had() -> None:
    gradients = {"a": tf.constant([3.0, 0.0]), "b": tf.constant([[4.0]])}
    clipped, norm = clip(gradients, 1.0)
    assert norm.numpy() == pytest.approx(5)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], [[0.8]], rtol=1e-6)
    same, _ = clip(gradients, 10.0)
    np.testing.assert_array_equal(same["a"], gradients["a"])
