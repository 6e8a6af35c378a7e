"""Evaluation on the validation set: fixed masks, every target hidden, every sequence once.

Beside the model's loss stands that of a model that knows only how often each token occurs in the training set; a model
that isn't below it has learned nothing about context.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tpudeck.training.loop import on_replicas
from tpudeck.training.step import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpudeck.training.model import LanguageModel
    from tpudeck.training.strategy import Machine

__all__ = ["Evaluator", "Score", "surprise"]

Surprise = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """Means over the predicted positions."""

    loss: float
    accuracy: float
    baseline_loss: float
    """Of predicting by token frequency alone."""
    targets: int

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss) if self.loss < 700 else math.inf


class Evaluator:
    """The compiled evaluation of a model."""

    def __init__(self, machine: Machine, model: LanguageModel, surprise_V: Surprise) -> None:
        self._machine = machine
        self._model = model
        self._surprise_V = surprise_V
        single = tf.function(self._sums, jit_compile=True, autograph=False) if machine.xla else self._sums
        self._run = tf.function(lambda batch: on_replicas(machine, single, (batch,)), autograph=False)

    def __call__(self, batches: Iterable[Batch], *, between: Callable[[], None] = lambda: None) -> Score:
        """The score over all batches; ``between`` is called after each."""
        sums, surprise = np.zeros(3, np.float64), 0.0
        for batch in batches:
            sums += self._run(Batch(*(tf.constant(part) for part in batch))).numpy()
            surprise += float(self._surprise_V[batch.labels[batch.weights > 0]].sum())
            between()
        loss, hits, targets = sums
        return Score(float(loss / targets), float(hits / targets), surprise / float(targets), int(targets))

    @property
    def compilations(self) -> int:
        """How often the evaluation was traced, and with it compiled."""
        return int(self._run.experimental_get_tracing_count())

    def _sums(self, batch: Batch) -> tf.Tensor:
        """Cross-entropy, hits and targets of a batch, each summed."""
        context = tf.distribute.get_replica_context()
        ids, positions, labels, weights = (part[context.replica_id_in_sync_group] for part in batch)
        logits_BPV = self._model.logits(ids, positions)
        losses_BP = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits_BPV)
        hits_BP = tf.cast(tf.argmax(logits_BPV, -1, tf.int32) == labels, tf.float32)
        sums = tf.stack([tf.reduce_sum(part * weights) for part in (losses_BP, hits_BP, tf.ones_like(weights))])
        return sums if self._machine.replicas == 1 else context.all_reduce(tf.distribute.ReduceOp.SUM, sums)


def surprise(token_counts: npt.NDArray[np.int64], *, never_predicted: Collection[int]) -> Surprise:
    """The loss of each token when tokens are predicted by their frequency alone, in nats.

    One is added to every count, so that a token the training set lacks isn't impossible (Laplace 1814).
    """
    counts = token_counts.astype(np.float64) + 1
    counts[list(never_predicted)] = 0
    with np.errstate(divide="ignore"):
        surprise_V: Surprise = -np.log(counts / counts.sum())
    return surprise_V
