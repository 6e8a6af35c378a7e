"""How large a model is: parameters, arithmetic per token, and memory, from its shape alone.

Nothing here builds a model; the counts are those of the classes that Transformers builds from the same configuration,
which a test compares for every family.

::

    L  layers          d  width             f  feed-forward size      s  sequence length
    V  vocabulary, padded                   P  entries of the position table
    e  width of the embeddings: d, but for ELECTRA
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = [
    "VOCAB_MULTIPLE",
    "Memory",
    "flops_per_token",
    "layer_parameter_count",
    "memory_per_replica",
    "padded_vocab_size",
    "parameter_count",
]

VOCAB_MULTIPLE = 128
"""A TPU's matrix unit is 128 wide: a vocabulary that is not a multiple wastes a tile of every projection."""


def padded_vocab_size(vocab_size: int) -> int:
    """The size of the embedding table; the logits of the padding are masked, and exports leave it out."""
    return -(-vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE


@dataclass(frozen=True)
class _Shape:
    L: int
    d: int
    e: int
    f: int
    V: int
    P: int

    @property
    def block(self) -> int:
        """One transformer layer: four projections and two feed-forward products with biases, two LayerNorms."""
        return 4 * (self.d**2 + self.d) + 2 * self.d * self.f + self.f + self.d + 2 * 2 * self.d

    def encoder(self, *, token_types: int) -> int:
        """Embeddings with their LayerNorm, their projection to the width, and the layers."""
        projection = self.e * self.d + self.d if self.e != self.d else 0
        return (self.V + self.P + token_types + 2) * self.e + projection + self.L * self.block

    @property
    def masked_head(self) -> int:
        """Dense, LayerNorm, and a bias per token; the projection is the embedding table."""
        return self.d * self.e + self.e + 2 * self.e + self.V


_PARAMETERS: dict[str, Callable[[_Shape], int]] = {
    "bert": lambda shape: shape.encoder(token_types=2) + shape.masked_head,
    "roberta": lambda shape: shape.encoder(token_types=1) + shape.masked_head,
    "distilbert": lambda shape: shape.encoder(token_types=0) + shape.masked_head,
    "electra": lambda shape: shape.encoder(token_types=2) + shape.masked_head,
    "gpt2": lambda shape: shape.encoder(token_types=0),
}
"""Family → trainable parameters. GPT-2 has its LayerNorm at the end instead of the embeddings, and no head."""


def parameter_count(experiment: Experiment, *, vocab_size: int) -> int:
    """Trainable parameters of the model as it is built, for a tokenizer of `vocab_size` tokens.

    Exact for the five families; a class given by its full name is counted as RoBERTa.
    """
    return _PARAMETERS[experiment.family.name](_shape(experiment, vocab_size))


def layer_parameter_count(experiment: Experiment) -> int:
    """Parameters of the layers alone, without embeddings and head."""
    return experiment.model.layers * _shape(experiment, 0).block


def _shape(experiment: Experiment, vocab_size: int) -> _Shape:
    return _Shape(
        L=experiment.model.layers,
        d=experiment.model.width,
        e=experiment.embedding_width,
        f=experiment.feed_forward,
        V=padded_vocab_size(vocab_size),
        P=experiment.max_positions + experiment.family.position_offset,
    )


def flops_per_token(experiment: Experiment, *, vocab_size: int) -> float:
    """Floating-point operations per token of input in one training step.

    Matrix products only, two operations per multiply-add: ``L·(8d² + 4df)`` for the layers, ``4Lsd`` for attention, and
    the head ``2(de + eV)`` for the predicted share of the positions; the backward pass is twice the forward (Kaplan et
    al. 2020, "Scaling Laws for Neural Language Models", table 1, with the attention term kept and the head added).
    """
    d, f, L = experiment.model.width, experiment.feed_forward, experiment.model.layers
    s, e, V = experiment.shards.sequence_length, experiment.embedding_width, padded_vocab_size(vocab_size)
    transform = 0 if experiment.objective == "causal" else d * e
    head = _predicted_per_sequence(experiment) / s * 2 * (transform + e * V)
    return 3 * (L * (8 * d**2 + 4 * d * f) + 4 * L * s * d + head)


def _predicted_per_sequence(experiment: Experiment) -> int:
    """Positions that go through the vocabulary projection; a class given by its full name sends all of them."""
    from tpudeck.presets import FAMILIES

    known = experiment.model.architecture in FAMILIES
    return experiment.masked_per_sequence if known else experiment.shards.sequence_length


@dataclass(frozen=True)
class Memory:
    """Bytes on one replica during a training step."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int

    @property
    def state_bytes(self) -> int:
        """What does not grow with the batch."""
        return self.weights_bytes + self.gradients_bytes + self.optimizer_bytes

    @property
    def total_bytes(self) -> int:
        return self.state_bytes + self.activations_bytes


def memory_per_replica(experiment: Experiment, *, vocab_size: int, replica_batch: int) -> Memory:
    """What a training step keeps on one replica, for `replica_batch` sequences in a microstep.

    Weights, gradients and Adam's two moments are float32. Activations are an upper estimate: per layer and token
    ``34d + 5·heads·s`` bytes in 16-bit, twice that in float32 (Korthikanti et al. 2022, "Reducing Activation
    Recomputation in Large Transformer Models", equation 1), and two float32 copies of the logits. The compiler fuses
    and recomputes, and mostly needs less: `tpudeck preflight` asks it.
    """
    count = parameter_count(experiment, vocab_size=vocab_size)
    model, s = experiment.model, experiment.shards.sequence_length
    width = 1 if experiment.train.precision == "bfloat16" else 2
    per_token = width * (34 * model.width + 5 * model.heads * s)
    logits = _predicted_per_sequence(experiment) * padded_vocab_size(vocab_size) * 2 * 4
    return Memory(
        weights_bytes=4 * count,
        gradients_bytes=4 * count,
        optimizer_bytes=8 * count,
        activations_bytes=replica_batch * (model.layers * s * per_token + logits),
    )
