"""GELU and LayerNorm: values and written-out derivatives against TensorFlow's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tpudeck.training.functions import gelu, layer_norm

pytestmark = pytest.mark.training


def value_and_gradients(function: Callable[..., tf.Tensor], *arguments: tf.Tensor) -> list[np.ndarray]:
    upstream = tf.reshape(tf.cos(tf.range(3.0 * 5 * 8)), [3, 5, 8])
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = function(*arguments)
        total = tf.reduce_sum(value * upstream)
    return [value.numpy(), *(gradient.numpy() for gradient in tape.gradient(total, arguments))]


def random(*shape: int, seed: int) -> tf.Tensor:
    return tf.random.stateless_normal(shape, [seed, 0]) * 3


def test_gelu_and_its_derivative_are_exact() -> None:
    x = random(3, 5, 8, seed=1)
    for ours, theirs in zip(value_and_gradients(gelu, x), value_and_gradients(tf.nn.gelu, x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_layer_norm_and_its_derivatives_are_exact() -> None:
    def plain(x: tf.Tensor, gain: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-5) * gain + bias

    def ours(x: tf.Tensor, gain: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        return layer_norm(x, gain, bias, 1e-5)

    arguments = random(3, 5, 8, seed=2), random(8, seed=3), random(8, seed=4)
    for got, expected in zip(
        value_and_gradients(ours, *arguments), value_and_gradients(plain, *arguments), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=2e-5)
