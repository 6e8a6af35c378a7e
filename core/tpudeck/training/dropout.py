"""Dropout without state: its random bits are a pure function of (seed, layer, step, microstep, replica).

The bits come from Philox4x32-10, asked for explicitly, so that every kind of device draws the same ones. Its key is the
seed; its counter of 128 bits says where in the training the bits are used (step in 32 bits, microstep in 16, replica in
16, layer in 24) and, below that, counts them. The masks of :mod:`tpudeck.masking` use the same generator under another
key.

One 32-bit word serves two values: an activation is kept where its 16 bits are at or above ``rate x 2^16``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import tensorflow as tf
import tf_keras

if TYPE_CHECKING:
    from collections.abc import Callable

    Drop: TypeAlias = "Callable[[tf.Tensor], tf.Tensor]"

__all__ = ["Dropout", "Where", "keep_everything", "replace_dropout"]

_KEY = 0x6A09E667F3BCC908
"""Keeps the bits apart from those of masks and shuffling (the fraction of the square root of 2)."""
_PHILOX = 1
_COUNT_BITS = 40


class Where:
    """Where in the training something is drawn; the step is a tensor, so that one graph serves all steps."""

    def __init__(self, seed: int, step: tf.Tensor, *, microstep: tf.Tensor | int = 0, replica: tf.Tensor | int = 0):
        self.seed = seed
        self.step = step
        self.microstep = microstep
        self.replica = replica

    def bits(self, layer: int, count: int) -> tf.Tensor:
        """``count`` random 32-bit words."""
        where = (tf.cast(self.step, tf.int64) * 2**16 + tf.cast(self.microstep, tf.int64)) * 2**16
        where += tf.cast(self.replica, tf.int64)
        key = (self.seed ^ _KEY) % 2**64
        return tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[count],
            key=tf.constant([key], tf.uint64),
            counter=tf.stack([tf.constant(layer << _COUNT_BITS, tf.uint64), tf.cast(where, tf.uint64)]),
            alg=_PHILOX,
            dtype=tf.uint32,
        )


class Dropout:
    """The dropout layers of one forward pass, numbered in the order in which they are called."""

    def __init__(self, rate: float, where: Where) -> None:
        self._rate = rate
        self._where = where
        self._layer = 0

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        layer = self._layer
        self._layer += 1
        return drop(x, self._rate, self._where, layer)


def keep_everything(x: tf.Tensor) -> tf.Tensor:
    """What stands in place of dropout when nothing is learned."""
    return x


def drop(x: tf.Tensor, rate: float, where: Where, layer: int) -> tf.Tensor:
    """Set a share ``rate`` of the values to zero and scale the rest, so that the mean stays."""
    if rate == 0:
        return x
    shape = x.shape.as_list()
    count = math.prod(shape)
    halves = tf.bitcast(where.bits(layer, -(-count // 2)), tf.uint16)
    bits = tf.reshape(tf.reshape(halves, [-1])[:count], shape)
    keep = tf.cast(bits, tf.int32) >= round(rate * 2**16)
    return x * (tf.cast(keep, x.dtype) * tf.cast(1 / (1 - rate), x.dtype))


class _StatelessDropout(tf_keras.layers.Layer):  # type: ignore[misc]  # Keras is untyped
    """Takes the place of a Keras dropout layer inside a model of Transformers."""

    def __init__(self, rate: float, layer: int, passing: Passing) -> None:
        super().__init__(name=f"stateless_dropout_{layer}")
        self._rate = rate
        self._layer_number = layer
        self._passing = passing

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        where = self._passing.where
        return inputs if where is None else drop(inputs, self._rate, where, self._layer_number)


class Passing:
    """Tells the replaced layers where in the training the current forward pass is; none: keep everything.

    A plain object, because Keras would wrap and track a container.
    """

    where: Where | None = None


def replace_dropout(model: tf_keras.Model) -> Passing:
    """Replace every Keras dropout layer of a model that has not been called yet."""
    passing = Passing()
    count = 0
    for module in model.submodules:
        for name, value in list(vars(module).items()):
            if isinstance(value, tf_keras.layers.Dropout):
                setattr(module, name, _StatelessDropout(value.rate, count, passing))
                count += 1
    return passing
