"""A language model: weights made by Transformers' class, and the logits they give at the predicted positions.

The five families go through :mod:`~tpudeck.training.transformer`. Any other class is called as it is, with its dropout
replaced by a stateless one; it projects all positions onto the vocabulary, and the predicted ones are picked from the
logits.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf
import tf_keras

from tpudeck.errors import InputError
from tpudeck.presets import FAMILIES
from tpudeck.training.configuration import Vocabulary, configuration, model_class
from tpudeck.training.dropout import Dropout, Passing, Where, keep_everything, replace_dropout
from tpudeck.training.names import by_name
from tpudeck.training.transformer import Shape, Transformer

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["LanguageModel", "build_model"]


class _Logits(Protocol):
    def __call__(self, ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor: ...


@dataclass(frozen=True)
class LanguageModel:
    """Weights by name, and the function from token ids to logits."""

    class_name: str
    config: Any
    vocabulary: Vocabulary
    most_tokens: int
    """The longest sequence."""
    weights: dict[str, tf.Variable]
    per_token: frozenset[str]
    """The weights whose first axis counts the tokens of the vocabulary."""
    causal: bool
    """Whether it predicts the next token instead of hidden ones."""
    unpadded_logits: _Logits

    def logits(self, ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None = None) -> tf.Tensor:
        """Logits in float32, [B, P, V], at the positions given; those of the vocabulary's padding are out of reach.

        `where` says which dropout to draw; none: nothing is dropped.
        """
        return self.unpadded_logits(ids_BS, positions_BP, where) + _padding(self.vocabulary)

    @functools.cached_property
    def traced_logits(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """:meth:`logits` as one function of TensorFlow: traced once for each shape, then without Python."""
        traced: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = tf.function(self.logits, autograph=False)
        return traced


def build_model(experiment: Experiment, vocabulary: Vocabulary) -> LanguageModel:
    """The experiment's model with fresh weights, drawn from its seed."""
    tf_keras.utils.set_random_seed(experiment.train.seed % 2**32)
    known = experiment.model.architecture in FAMILIES
    vocabulary = replace(vocabulary, padded=known)  # of any other class nobody knows which axes count tokens
    model, passing = _keras_model(experiment, vocabulary)
    weights = by_name(model.trainable_variables)
    return LanguageModel(
        class_name=type(model).__name__,
        config=model.config,
        vocabulary=vocabulary,
        most_tokens=experiment.max_positions,
        weights=weights,
        per_token=_per_token(model, weights),
        causal=experiment.objective == "causal",
        unpadded_logits=_family_logits(experiment, model.config, weights) if known else _class_logits(model, passing),
    )


def _keras_model(experiment: Experiment, vocabulary: Vocabulary) -> tuple[Any, Passing]:
    """Transformers' model, built, with stateless dropout."""
    name = experiment.model.architecture
    try:
        with _policy(experiment):
            model = model_class(name)(configuration(experiment, vocabulary))
        passing = replace_dropout(model)
        model.build_in_name_scope()
    except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
        raise InputError(
            f"{name} cannot be built from layers, width, heads and feed_forward: {error}",
            hint=f"one of {', '.join(FAMILIES)} always works",
        ) from error
    return model, passing


def _family_logits(experiment: Experiment, config: Any, weights: dict[str, tf.Variable]) -> _Logits:
    """Through our own arithmetic: only predicted positions reach the vocabulary."""
    transformer = Transformer(experiment.model.architecture, _shape(experiment, config), weights)

    def logits(ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor:
        drop = keep_everything if where is None else Dropout(experiment.model.dropout, where)
        hidden_BSD = transformer.hidden(ids_BS, drop)
        return transformer.logits(tf.gather(hidden_BSD, positions_BP, batch_dims=1))

    return logits


def _class_logits(model: Any, passing: Passing) -> _Logits:
    """Through Transformers' class as it is."""

    def logits(ids_BS: tf.Tensor, positions_BP: tf.Tensor, where: Where | None) -> tf.Tensor:
        passing.where = where
        logits_BSV = model(ids_BS, training=where is not None).logits
        return tf.cast(tf.gather(logits_BSV, positions_BP, batch_dims=1), tf.float32)

    return logits


def _per_token(model: Any, weights: dict[str, tf.Variable]) -> frozenset[str]:
    """The embedding table and the biases of the projection, as Transformers' own code for resizing them finds them."""
    embeddings = model.get_input_embeddings()
    table = embeddings.weight if hasattr(embeddings, "weight") else embeddings.embeddings
    found = {id(variable) for variable in (table, *(model.get_bias() or {}).values())}
    return frozenset(name for name, variable in weights.items() if id(variable) in found)


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
