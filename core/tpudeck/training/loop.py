"""Many steps in one call of a compiled function, on all replicas.

Between two calls Python looks for requests and writes what happened; inside a call nothing comes back to it. The number
of steps in a call is a dimension of the arguments, so one compiled function serves any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tpudeck.training.step import Batch, Outcome, TrainStep
from tpudeck.training.strategy import Machine

__all__ = ["StepLoop", "on_replicas"]


class StepLoop:
    """The compiled loop."""

    def __init__(self, machine: Machine, step: TrainStep, specs: Batch) -> None:
        self._machine = machine
        self._step = _compiled(step, machine)
        stacked = Batch(*(tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in specs))
        signature = [stacked, tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32)]
        self._run = tf.function(self._steps, input_signature=signature, autograph=False)

    def __call__(self, batches: Batch, first_step: int, learning_rates: npt.NDArray[np.float32]) -> Outcome:
        """Do the stacked steps, the first of which is ``first_step`` (from 0); the outcomes, each part [K].

        What comes back are tensors that may not be computed yet: read them as late as possible.
        """
        stacked = Batch(*(tf.constant(part) for part in batches))
        return Outcome(*self._run(stacked, tf.constant(first_step, tf.int32), tf.constant(learning_rates)))

    @property
    def compilations(self) -> int:
        """How often the loop was traced, and with it compiled: once, as long as all shapes are static."""
        return int(self._run.experimental_get_tracing_count())

    def _steps(self, batches: Batch, first_step: tf.Tensor, learning_rates: tf.Tensor) -> Outcome:
        count = tf.shape(learning_rates)[0]

        def one_more(
            index: tf.Tensor, losses: tf.TensorArray, norms: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.TensorArray, tf.TensorArray]:
            batch = Batch(*(part[index] for part in batches))
            outcome = on_replicas(self._machine, self._step, (batch, first_step + index, learning_rates[index]))
            return index + 1, losses.write(index, outcome.loss), norms.write(index, outcome.gradient_norm)

        # Not a `for` over a tensor: AutoGraph, which would turn it into this, does not know Python 3.13.
        empty = tf.TensorArray(tf.float32, count, element_shape=[])
        also_empty = tf.TensorArray(tf.float32, count, element_shape=[])
        _, losses, norms = tf.while_loop(
            lambda index, *_: index < count,
            one_more,
            (tf.constant(0), empty, also_empty),
            maximum_iterations=count,
        )
        return Outcome(losses.stack(), norms.stack())


def on_replicas(machine: Machine, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function on every replica; what it gives is the same on all of them, and comes back once."""
    results = machine.strategy.run(function, args=arguments)
    return tf.nest.map_structure(lambda value: machine.strategy.experimental_local_results(value)[0], results)


def _compiled(step: TrainStep, machine: Machine) -> Callable[..., Outcome]:
    """One replica's whole step becomes one program; the sum over several replicas must stay outside of it."""
    if machine.xla and machine.replicas == 1:
        whole: Callable[..., Outcome] = tf.function(step, jit_compile=True, autograph=False)
        return whole
    if machine.xla:
        step.compile_gradients()
    return step
