"""A language model: weights made by Transformers' class, and the logits they give at the predicted positions.

The five families go through :mod:`~tpudeck.training.transformer`. Any other class is called as it is, with its dropout
replaced by a stateless one; it projects all positions onto the vocabulary, and the predicted ones are picked from the
logits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf
import tf_keras

from tpudeck.presets import FAMILIES
from tpudeck.training.configuration import Vocabulary, configuration, model_class
from tpudeck.training.dropout import Dropout, Where, keep_everything, replace_dropout
from tpudeck.training.names import by_name
from tpudeck.training.transformer import Shape, Transformer

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["LanguageModel", "build_model"]


class _Logits(Protocol):
    def __call__(self, ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor: ...


class LanguageModel:
    """Weights by name, and the function from token ids to logits."""

    def __init__(
        self,
        config: Any,
        weights: dict[str, tf.Variable],
        vocabulary: Vocabulary,
        logits: _Logits,
        *,
        position_offset: int,
    ) -> None:
        self.config = config
        self.weights = weights
        self.vocabulary = vocabulary
        self.most_tokens = int(config.max_position_embeddings) - position_offset
        """The longest sequence."""
        self._logits = logits

    def logits(self, ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None = None) -> tf.Tensor:
        """Logits in float32, [B, P, V], at the positions given; those of the vocabulary's padding are out of reach.

        `where` says which dropout to draw; none: nothing is dropped.
        """
        return self._logits(ids_BS, positions_BP, where) + _padding(self.vocabulary)


def build_model(experiment: Experiment, vocabulary: Vocabulary) -> LanguageModel:
    """The experiment's model with fresh weights, drawn from its seed."""
    config = configuration(experiment, vocabulary)
    tf_keras.utils.set_random_seed(experiment.train.seed % 2**32)
    with _policy(experiment):
        model = model_class(experiment.model.architecture)(config)
    passing = replace_dropout(model)
    model.build_in_name_scope()
    weights = by_name(model.trainable_variables)

    if experiment.model.architecture in FAMILIES:
        transformer = Transformer(experiment.model.architecture, _shape(experiment, config), weights)

        def logits(ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor:
            drop = keep_everything if where is None else Dropout(experiment.model.dropout, where)
            hidden_BSD = transformer.hidden(ids_BS, drop)
            return transformer.logits(tf.gather(hidden_BSD, positions_BP, batch_dims=1))

    else:

        def logits(ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor:
            passing.where = where
            logits_BSV = model(ids_BS, training=where is not None).logits
            return tf.cast(tf.gather(logits_BSV, positions_BP, batch_dims=1), tf.float32)

    return LanguageModel(config, weights, vocabulary, logits, position_offset=experiment.family.position_offset)


def _shape(experiment: Experiment, config: Any) -> Shape:
    return Shape(
        layers=experiment.model.layers,
        heads=experiment.model.heads,
        epsilon=_epsilon(config),
        position_offset=experiment.family.position_offset,
        compute_type=tf.as_dtype(experiment.train.precision),
    )


def _epsilon(config: Any) -> float:
    """Of the LayerNorms; DistilBERT's is written into its class."""
    for key in ("layer_norm_eps", "layer_norm_epsilon"):
        if hasattr(config, key):
            return float(getattr(config, key))
    return 1e-12


def _padding(vocabulary: Vocabulary) -> tf.Tensor:
    """Zero for the tokens there are, hugely negative for those that only fill the table up."""
    return tf.where(tf.range(vocabulary.padded_size) < vocabulary.size, 0.0, -1e9)


@contextlib.contextmanager
def _policy(experiment: Experiment) -> Iterator[None]:
    """What Keras layers made in here compute in; their variables are float32."""
    before = tf_keras.mixed_precision.global_policy()
    mixed = experiment.train.precision == "bfloat16" and experiment.model.architecture not in FAMILIES
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16" if mixed else "float32")
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)
