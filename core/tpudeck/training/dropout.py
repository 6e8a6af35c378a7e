"""Dropout without state: its random bits are a pure function of (seed, layer, step, microstep, replica) and position.

A place in the training gets a key of three words from Philox4x32-10, whose own key is the seed and whose counter is the
rest (step in 32 bits, microstep in 16, replica in 16, layer in 24); the masks of :mod:`tpudeck.masking` use the same
generator under another key. Within a place every value hashes its own position::

    h = position + key[0]
    h = (h ^ h >> 17) · ed5ad4bb  ^ key[1]
    h = (h ^ h >> 11) · ac4c1b51  ^ key[2]
    h = (h ^ h >> 15) · 31848bab
    h =  h ^ h >> 14

This is triple32, the permutation of 32-bit integers with the least bias that a search found (Wellons, "Prospecting for
Hash Functions", 2018), with key between its rounds: two places are two permutations, not two parts of one.

Why not Philox for the values too? It yields four words at a time: an array of four columns, which no compiler fuses
into its use and which a TPU pads to 128 columns. That moved almost three times the bytes of all the rest of
a step. A hash of the position is one elementwise expression, of which nothing is stored; the backward pass computes it
again. Where nothing compiles the step, as on a CPU, XLA compiles this expression alone, to the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import tensorflow as tf
import tf_keras

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Drop: TypeAlias = "Callable[[tf.Tensor], tf.Tensor]"

__all__ = ["Dropout", "Where", "keep_everything", "random_words", "replace_dropout"]

_SEED = 0x6A09E667F3BCC908
"""Keeps the bits apart from those of masks and shuffling (the fraction of the square root of 2)."""
_PHILOX = 1
_LAYER_SHIFT = 40
_ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))
"""Of triple32: shift and multiplier."""
_LAST_SHIFT = 14


class Where:
    """Where in the training something is drawn; the step is a tensor, so that one graph serves all steps."""

    def __init__(self, seed: int, step: tf.Tensor, *, microstep: tf.Tensor | int = 0, replica: tf.Tensor | int = 0):
        self.seed = seed
        self.step = step
        self.microstep = microstep
        self.replica = replica

    def key(self, layer: int) -> tf.Tensor:
        """Three words that no other place has."""
        where = (tf.cast(self.step, tf.int64) * 2**16 + tf.cast(self.microstep, tf.int64)) * 2**16
        where += tf.cast(self.replica, tf.int64)
        return tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[len(_ROUNDS)],
            key=tf.constant([(self.seed ^ _SEED) % 2**64], tf.uint64),
            counter=tf.stack([tf.constant(layer << _LAYER_SHIFT, tf.uint64), tf.cast(where, tf.uint64)]),
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
    # Under TPUStrategy everything is compiled, and XLA must not be asked.
    on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    dropped = _dropped if on_tpu else _compiled
    key = where.key(layer)

    @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow is untyped
    def linear(x: tf.Tensor) -> tuple[tf.Tensor, Drop]:
        """Its own derivative, because which values are kept does not depend on them."""
        return dropped(x, key, rate), lambda upstream: dropped(upstream, key, rate)

    return linear(x)


def _dropped(x: tf.Tensor, key: tf.Tensor, rate: float) -> tf.Tensor:
    keep = random_words(x.shape.as_list(), key) >= _word(round(rate * 2**32))
    return tf.where(keep, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros([], x.dtype))


_compiled = tf.function(_dropped, jit_compile=True, autograph=False)


def random_words(shape: Sequence[int], key: tf.Tensor) -> tf.Tensor:
    """A random 32-bit word for every position of an array."""
    words = _positions(shape, key[0])
    for number, (shift, multiplier) in enumerate(_ROUNDS):
        if number:
            words ^= key[number]
        words = (words ^ _shifted(words, shift)) * _word(multiplier)
    return words ^ _shifted(words, _LAST_SHIFT)


def _positions(shape: Sequence[int], start: tf.Tensor) -> tf.Tensor:
    """Every element's number from ``start`` on, modulo 2**32.

    Summed up over the axes, because a reshaped range would have to be stored; from ``start``, because a sum of ranges
    alone is a constant, which TensorFlow computes and keeps while it builds the program.
    """
    positions, stride = start, 1
    for axis, size in reversed(list(enumerate(shape))):
        along = tf.cast(tf.range(size), tf.uint32) * _word(stride)
        positions += tf.reshape(along, [size] + [1] * (len(shape) - 1 - axis))
        stride *= size
    return positions


def _shifted(words: tf.Tensor, by: int) -> tf.Tensor:
    return tf.bitwise.right_shift(words, _word(by))


def _word(value: int) -> tf.Tensor:
    return tf.constant(value % 2**32, tf.uint32)


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
