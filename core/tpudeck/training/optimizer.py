"""AdamW (Loshchilov and Hutter 2019): Adam with weight decay taken from the weights directly.

TensorFlow's fused kernel does a weight's whole update in one pass over memory. It divides by ``sqrt(v) + ε̂``; with
``ε̂ = ε·sqrt(1 − β2^t)`` that is the published rule with bias correction, ``m̂ / (sqrt(v̂) + ε)``.

The kernel works on a variable's handle, which inside a replica is that replica's own copy: gradients arrive summed over
the replicas, so all copies change alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from tpudeck.training.names import decays

if TYPE_CHECKING:
    from tpudeck.presets.schema import Train

__all__ = ["AdamW", "clip"]


class AdamW:
    """The moments of every weight, and their update."""

    def __init__(self, weights: Mapping[str, tf.Variable], settings: Train) -> None:
        self._weights = weights
        self._settings = settings
        self.first = {name: _zeros(weight, f"{name}/m") for name, weight in weights.items()}
        self.second = {name: _zeros(weight, f"{name}/v") for name, weight in weights.items()}

    def update(self, gradients: Mapping[str, tf.Tensor], *, step: tf.Tensor, learning_rate: tf.Tensor) -> None:
        """Apply the gradients of a step (counted from 0)."""
        settings = self._settings
        count = tf.cast(step + 1, tf.float32)
        power1, power2 = tf.pow(settings.beta1, count), tf.pow(settings.beta2, count)
        epsilon = settings.epsilon * tf.sqrt(1 - power2)
        for name, weight in self._weights.items():
            if decays(name) and settings.weight_decay:
                decay = learning_rate * settings.weight_decay
                tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=decay, delta=weight.read_value())
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=self.first[name].handle,
                v=self.second[name].handle,
                beta1_power=power1,
                beta2_power=power2,
                lr=learning_rate,
                beta1=settings.beta1,
                beta2=settings.beta2,
                epsilon=epsilon,
                grad=gradients[name],
            )

    def reset(self) -> None:
        """Forget all moments."""
        for moments in (self.first, self.second):
            for variable in moments.values():
                variable.assign(tf.zeros_like(variable))

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Every moment by name: ``m/WEIGHT`` and ``v/WEIGHT``."""
        first = {f"m/{name}": variable for name, variable in self.first.items()}
        return first | {f"v/{name}": variable for name, variable in self.second.items()}


def clip(gradients: dict[str, tf.Tensor], most: float | None) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Scale all gradients so that their common norm is at most so much (Pascanu et al. 2013); and what it was."""
    norm = tf.linalg.global_norm(list(gradients.values()))
    if most is None:
        return gradients, norm
    scale = tf.minimum(1.0, most / norm)
    return {name: gradient * scale for name, gradient in gradients.items()}, norm


def _zeros(weight: tf.Variable, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros(weight.shape), trainable=False, name=name)
