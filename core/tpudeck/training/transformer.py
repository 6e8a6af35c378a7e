"""The arithmetic of the five families: from token ids to logits, over the weights that Transformers' class made.

Why not call that class? Its layers project every position onto the vocabulary although one in seven is predicted,
take three matrix products where one gives query, key and value, do their softmax in the precision of the activations,
and draw dropout from a state. What comes out is the same to rounding, which a test shows for every family.

Products and activations are in the compute type; LayerNorm, softmax and logits in float32.

Shapes: B sequences, S positions, P predicted positions, D width, H heads, K width of a head, F feed-forward, V padded
vocabulary; N = B·S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from tpudeck.training.functions import gelu, gelu_tanh, layer_norm

__all__ = ["Shape", "Transformer"]

Weights = Mapping[str, tf.Tensor]
Drop = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Shape:
    """What the arithmetic must know besides the weights."""

    layers: int
    heads: int
    epsilon: float
    """Of the LayerNorms."""
    position_offset: int
    """Entries of the position table before the first token's."""
    compute_type: tf.DType


@dataclass(frozen=True)
class _Names:
    """Where a family keeps its weights; ``{}`` stands for the number of the layer."""

    word: str
    position: str
    token_type: str
    """Empty where a family has none."""
    embeddings_norm: str
    attention: tuple[str, ...]
    """Query, key and value, each for itself or all in one."""
    attention_output: str
    attention_norm: str
    expand: str
    contract: str
    output_norm: str
    head: str
    head_norm: str
    head_bias: str
    projection: str = ""
    """From the width of the embeddings to that of the layers, in models where they differ."""


def _bert_names(model: str, head: str, head_norm: str, head_bias: str, projection: str = "") -> _Names:
    layer = f"{model}.encoder.layer.{{}}"
    return _Names(
        word=f"{model}.embeddings.word_embeddings.weight",
        position=f"{model}.embeddings.position_embeddings.weight",
        token_type=f"{model}.embeddings.token_type_embeddings.weight",
        embeddings_norm=f"{model}.embeddings.LayerNorm",
        attention=tuple(f"{layer}.attention.self.{part}" for part in ("query", "key", "value")),
        attention_output=f"{layer}.attention.output.dense",
        attention_norm=f"{layer}.attention.output.LayerNorm",
        expand=f"{layer}.intermediate.dense",
        contract=f"{layer}.output.dense",
        output_norm=f"{layer}.output.LayerNorm",
        head=head,
        head_norm=head_norm,
        head_bias=head_bias,
        projection=projection,
    )


_NAMES = {
    "bert": _bert_names(
        "bert", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
    ),
    "roberta": _bert_names("roberta", "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "electra": _bert_names(
        "electra",
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        "generator_lm_head.bias",
        projection="electra.embeddings_project",
    ),
    "distilbert": _Names(
        word="distilbert.embeddings.word_embeddings.weight",
        position="distilbert.embeddings.position_embeddings.weight",
        token_type="",
        embeddings_norm="distilbert.embeddings.LayerNorm",
        attention=tuple(f"distilbert.transformer.layer.{{}}.attention.{part}" for part in ("q_lin", "k_lin", "v_lin")),
        attention_output="distilbert.transformer.layer.{}.attention.out_lin",
        attention_norm="distilbert.transformer.layer.{}.sa_layer_norm",
        expand="distilbert.transformer.layer.{}.ffn.lin1",
        contract="distilbert.transformer.layer.{}.ffn.lin2",
        output_norm="distilbert.transformer.layer.{}.output_layer_norm",
        head="vocab_transform",
        head_norm="vocab_layer_norm",
        head_bias="vocab_projector.bias",
    ),
    "gpt2": _Names(
        word="transformer.wte.weight",
        position="transformer.wpe.weight",
        token_type="",
        embeddings_norm="",
        attention=("transformer.h.{}.attn.c_attn",),
        attention_output="transformer.h.{}.attn.c_proj",
        attention_norm="transformer.h.{}.ln_1",
        expand="transformer.h.{}.mlp.c_fc",
        contract="transformer.h.{}.mlp.c_proj",
        output_norm="transformer.h.{}.ln_2",
        head="",
        head_norm="transformer.ln_f",
        head_bias="",
    ),
}


class Transformer:
    """The forward pass of a family with given weights."""

    def __init__(self, family: str, shape: Shape, weights: Weights) -> None:
        self._names = _NAMES[family]
        self._causal = family == "gpt2"
        self._shape = shape
        self._weights = weights

    def hidden(self, ids_BS: tf.Tensor, drop: Drop) -> tf.Tensor:
        """The hidden states of all positions, [B, S, D]."""
        hidden_BSD = drop(self._embed(ids_BS))
        if f"{self._names.projection}.weight" in self._weights:
            hidden_BSD = self._dense(hidden_BSD, self._names.projection)
        layer = self._causal_layer if self._causal else self._layer
        for number in range(self._shape.layers):
            hidden_BSD = layer(hidden_BSD, number, drop)
        return hidden_BSD

    def logits(self, hidden_BPD: tf.Tensor) -> tf.Tensor:
        """The logits of positions picked from the hidden states, [B, P, V] in float32."""
        names = self._names
        if names.head:
            hidden_BPD = gelu(self._dense(hidden_BPD, names.head))
        hidden_BPD = self._norm(hidden_BPD, names.head_norm)
        B, P, E = hidden_BPD.shape  # as wide as the embeddings
        logits_NV = tf.matmul(tf.reshape(hidden_BPD, [B * P, E]), self._weight(names.word), transpose_b=True)
        logits_BPV = tf.cast(tf.reshape(logits_NV, [B, P, -1]), tf.float32)
        return logits_BPV + self._weights[names.head_bias] if names.head_bias else logits_BPV

    def _embed(self, ids_BS: tf.Tensor) -> tf.Tensor:
        """Token, position and (where there are any) first type, summed and normalised, [B, S, D]."""
        names, weights = self._names, self._weights
        first = self._shape.position_offset
        embedded = tf.gather(weights[names.word], ids_BS) + weights[names.position][first : first + ids_BS.shape[1]]
        if names.token_type:
            embedded += weights[names.token_type][0]
        return self._norm(embedded, names.embeddings_norm) if names.embeddings_norm else self._cast(embedded)

    def _layer(self, x_BSD: tf.Tensor, number: int, drop: Drop) -> tf.Tensor:
        """LayerNorm after each residual sum, as in the original transformer and BERT (Devlin et al. 2018)."""
        names = self._names
        attended = drop(self._dense(self._attend(x_BSD, number, drop), names.attention_output.format(number)))
        x_BSD = self._norm(attended + x_BSD, names.attention_norm.format(number))
        expanded = gelu(self._dense(x_BSD, names.expand.format(number)))
        contracted = drop(self._dense(expanded, names.contract.format(number)))
        return self._norm(contracted + x_BSD, names.output_norm.format(number))

    def _causal_layer(self, x_BSD: tf.Tensor, number: int, drop: Drop) -> tf.Tensor:
        """LayerNorm before each branch, and the tanh approximation of GELU, as in GPT-2 (Radford et al. 2019)."""
        names = self._names
        attended = self._attend(self._norm(x_BSD, names.attention_norm.format(number)), number, drop)
        x_BSD += drop(self._dense(attended, names.attention_output.format(number)))
        expanded = gelu_tanh(
            self._dense(self._norm(x_BSD, names.output_norm.format(number)), names.expand.format(number))
        )
        return x_BSD + drop(self._dense(expanded, names.contract.format(number)))

    def _attend(self, x_BSD: tf.Tensor, number: int, drop: Drop) -> tf.Tensor:
        """``softmax(Q·Kᵀ / sqrt(K))·V`` of every head (Vaswani et al. 2017), the heads side by side, [B, S, D]."""
        B, S, D = x_BSD.shape
        H = self._shape.heads
        kernel, bias = self._joined([name.format(number) for name in self._names.attention])
        parts = tf.reshape(_affine(x_BSD, kernel, bias), [B, S, 3, H, D // H])
        query_BHSK, key_BHSK, value_BHSK = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        query_BHSK *= tf.cast(1 / math.sqrt(D // H), query_BHSK.dtype)
        scores_BHSS = tf.cast(tf.matmul(query_BHSK, key_BHSK, transpose_b=True), tf.float32)
        if self._causal:
            scores_BHSS += _future(S)
        shares_BHSS = drop(self._cast(tf.nn.softmax(scores_BHSS)))
        return tf.reshape(tf.transpose(tf.matmul(shares_BHSS, value_BHSK), [0, 2, 1, 3]), [B, S, D])

    def _joined(self, layers: list[str]) -> tuple[tf.Tensor, tf.Tensor]:
        """Kernel and bias of several layers with one input, as one."""
        kernels = [self._weight(f"{layer}.weight") for layer in layers]
        biases = [tf.reshape(self._weight(f"{layer}.bias"), [-1]) for layer in layers]
        return (tf.concat(kernels, 1), tf.concat(biases, 0)) if len(layers) > 1 else (kernels[0], biases[0])

    def _dense(self, x: tf.Tensor, layer: str) -> tf.Tensor:
        """[…, in] → […, out]."""
        return _affine(x, self._weight(f"{layer}.weight"), tf.reshape(self._weight(f"{layer}.bias"), [-1]))

    def _norm(self, x: tf.Tensor, layer: str) -> tf.Tensor:
        # As tensors: a function with a gradient of its own takes no variables that live on several replicas.
        gain, bias = (tf.convert_to_tensor(self._weights[f"{layer}.{part}"]) for part in ("weight", "bias"))
        return self._cast(layer_norm(tf.cast(x, tf.float32), gain, bias, self._shape.epsilon))

    def _weight(self, name: str) -> tf.Tensor:
        return self._cast(self._weights[name])

    def _cast(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, self._shape.compute_type)


def _affine(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """``x @ kernel + bias`` over the last axis: a product of matrices and a sum right after it, which a CPU fuses."""
    *outer, inner = x.shape
    sums = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, inner]), kernel), bias)
    return tf.reshape(sums, [*outer, sums.shape[-1]])


def _future(length: int) -> tf.Tensor:
    """What takes the future out of a softmax: zero where a position (row) may look, hugely negative after it."""
    visible = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
    return (1 - visible) * -1e9
