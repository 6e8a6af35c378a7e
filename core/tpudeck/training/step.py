"""One optimizer step as every replica does it: forward, backward, sum over the replicas, update.

The loss is the sum of the cross-entropies over all predicted positions, divided by how many predictions a whole global
batch has. A constant, so that neither the number of replicas nor that of microsteps changes what is computed, and a
batch in which nothing can be predicted gives zero instead of NaN.

A batch comes whole to every replica, which takes its part: [A, R, B, …] for A microsteps, R replicas, B sequences each.
All shapes are static, as XLA and a TPU want them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from tpudeck.plan import global_batch_size
from tpudeck.training.dropout import Where
from tpudeck.training.model import build_model
from tpudeck.training.optimizer import AdamW, clip

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.training.configuration import Vocabulary
    from tpudeck.training.model import LanguageModel

__all__ = ["Batch", "Outcome", "TrainStep", "batch_specs", "build_step"]


class Batch(NamedTuple):
    """What a step (or an evaluation) is fed; the shapes are those of :func:`batch_specs`."""

    ids: tf.Tensor
    positions: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    """1 where a prediction counts, else 0."""


class Outcome(NamedTuple):
    """What a step has to tell."""

    loss: tf.Tensor
    gradient_norm: tf.Tensor
    """Before clipping."""


class TrainStep:
    """The step of an experiment, to be called inside a replica."""

    def __init__(self, experiment: Experiment, model: LanguageModel, optimizer: AdamW, *, replicas: int) -> None:
        train = experiment.train
        self._model = model
        self._optimizer = optimizer
        self._seed = train.seed
        self._clip_norm = train.clip_norm
        self._microsteps = train.accumulation_steps
        self._replicas = replicas
        self._predictions = global_batch_size(experiment, replicas=replicas) * experiment.masked_per_sequence

        self._compute: Callable[..., tuple[tf.Tensor, list[tf.Tensor]]] = self._accumulated

    def compile_gradients(self) -> None:
        """Compile forward and backward pass with XLA, without the sum over the replicas and the update."""
        self._compute = tf.function(self._accumulated, jit_compile=True, autograph=False)

    def __call__(self, batch: Batch, step: tf.Tensor, learning_rate: tf.Tensor) -> Outcome:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        loss, gradients = self._compute(Batch(*(part[:, replica] for part in batch)), step, replica)
        if self._replicas > 1:
            loss, *gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, [loss, *gradients])
        clipped, norm = clip(dict(zip(self._model.weights, gradients, strict=True)), self._clip_norm)
        self._optimizer.update(clipped, step=step, learning_rate=learning_rate)
        return Outcome(loss, norm)

    def _accumulated(
        self, batch: Batch, step: tf.Tensor, replica: tf.Tensor | int
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss and gradients, summed over the microsteps."""
        if self._microsteps == 1:
            return self._gradients(Batch(*(part[0] for part in batch)), Where(self._seed, step, replica=replica))

        def add(microstep: tf.Tensor, loss: tf.Tensor, gradients: list[tf.Tensor]) -> tuple[tf.Tensor, ...]:
            where = Where(self._seed, step, microstep=microstep, replica=replica)
            more_loss, more = self._gradients(Batch(*(part[microstep] for part in batch)), where)
            return microstep + 1, loss + more_loss, [old + new for old, new in zip(gradients, more, strict=True)]

        nothing = [tf.zeros(weight.shape) for weight in self._model.weights.values()]
        _, loss, gradients = tf.while_loop(
            lambda microstep, *_: microstep < self._microsteps,
            add,
            (tf.constant(0), tf.constant(0.0), nothing),
            maximum_iterations=self._microsteps,
        )
        return loss, gradients

    def _gradients(self, batch: Batch, where: Where) -> tuple[tf.Tensor, list[tf.Tensor]]:
        weights = list(self._model.weights.values())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            logits_BPV = self._model.logits(batch.ids, batch.positions, where)
            losses_BP = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.labels, logits_BPV)
            loss = tf.reduce_sum(losses_BP * batch.weights) / self._predictions
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def batch_specs(experiment: Experiment, *, replicas: int) -> Batch:
    """The shapes of a step's batch."""
    A, R = experiment.train.accumulation_steps, replicas
    B = global_batch_size(experiment, replicas=replicas) // (A * R)
    S, P = experiment.shards.sequence_length, experiment.masked_per_sequence
    ids = tf.TensorSpec([A, R, B, S], tf.int32)
    predicted = tf.TensorSpec([A, R, B, P], tf.int32)
    return Batch(ids, predicted, predicted, tf.TensorSpec([A, R, B, P], tf.float32))


def build_step(experiment: Experiment, vocabulary: Vocabulary) -> tuple[Callable[..., Outcome], list[tf.TensorSpec]]:
    """One replica's whole step, with fresh weights and without data, and the specifications of its arguments.

    This is what a compiler needs: ``tf.function(step, jit_compile=True).experimental_get_compiler_ir(*specs)``.
    """
    model = build_model(experiment, vocabulary)
    whole = TrainStep(experiment, model, AdamW(model.weights, experiment.train), replicas=1)

    def step(
        ids: tf.Tensor,
        positions: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        number: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> Outcome:
        return whole(Batch(ids, positions, labels, weights), number, learning_rate)

    scalars = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)]
    return step, [*batch_specs(experiment, replicas=1), *scalars]
