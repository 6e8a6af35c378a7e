"""GELU and LayerNorm with their derivatives written out.

Automatic differentiation keeps every intermediate result and walks back through each; on a CPU every one of these
operations is a pass over memory. Written out, forward and backward take about half as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["gelu", "gelu_tanh", "layer_norm"]

Gradient = Callable[[tf.Tensor], Any]


@tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow is untyped
def gelu(x: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """``x·Φ(x)`` with the normal distribution's Φ (Hendrycks and Gimpel 2016), exact as in BERT and its relatives."""
    half = tf.constant(0.5, x.dtype)
    below = half * tf.math.erfc(x * tf.constant(-math.sqrt(0.5), x.dtype))

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-half * x * x) * tf.constant(1 / math.sqrt(2 * math.pi), x.dtype)
        return upstream * (below + x * density)

    return x * below, gradient


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """The approximation of GELU by a hyperbolic tangent that GPT-2 uses."""
    return tf.nn.gelu(x, approximate=True)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def layer_norm(x: tf.Tensor, gain: tf.Tensor, bias: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, Gradient]:
    """Normalise the last axis to mean 0 and variance 1, then scale and shift (Ba, Kiros and Hinton 2016)."""
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + epsilon)
    normal = centred * inverse

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, None]:
        outer = list(range(len(x.shape) - 1))
        scaled = upstream * gain
        along = tf.reduce_mean(scaled * normal, -1, keepdims=True)
        to_x = inverse * (scaled - tf.reduce_mean(scaled, -1, keepdims=True) - normal * along)
        return to_x, tf.reduce_sum(upstream * normal, outer), tf.reduce_sum(upstream, outer), None

    return normal * gain + bias, gradient
