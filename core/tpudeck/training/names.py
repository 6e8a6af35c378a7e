"""TensorFlow's variables under the names of PyTorch's state dicts: ``roberta.encoder.layer.0.output.dense.weight``.

Checkpoints, the forward pass and the export all speak of weights by these names. The values keep the orientation that
TensorFlow gives them; :func:`to_pytorch` turns a copy around where PyTorch's layers hold it the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck.errors import InputError

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["by_name", "decays", "from_pytorch", "to_pytorch"]


def by_name(variables: list[tf.Variable]) -> dict[str, tf.Variable]:
    """Variables by their PyTorch name."""
    named = {_convert(variable)[0]: variable for variable in variables}
    if len(named) != len(variables):
        raise InputError("this model has two weights of one name", hint="use another model.architecture")
    return named


def to_pytorch(variable: tf.Variable, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A variable's value as PyTorch's layer of that name holds it."""
    from transformers.modeling_tf_pytorch_utils import apply_transpose

    name, transpose = _convert(variable)
    turned = np.ascontiguousarray(apply_transpose(transpose, value, pt_to_tf=False))
    return turned.reshape(-1) if name.endswith(".bias") else turned  # TensorFlow's GPT-2 has biases of shape [1, n]


def from_pytorch(variable: tf.Variable, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What PyTorch's layer of that name holds, as this variable does; the inverse of :func:`to_pytorch`."""
    from transformers.modeling_tf_pytorch_utils import apply_transpose

    name, transpose = _convert(variable)
    turned = value if name.endswith(".bias") else apply_transpose(transpose, value, pt_to_tf=True)
    return np.ascontiguousarray(turned).reshape(variable.shape)


def decays(name: str) -> bool:
    """Whether weight decay applies: to matrices and embeddings, not to biases and what belongs to a LayerNorm."""
    *path, kind = name.lower().split(".")
    layer = path[-1] if path else ""
    return kind != "bias" and "norm" not in layer and not layer.startswith("ln_")


def _convert(variable: tf.Variable) -> tuple[str, Any]:
    from transformers.modeling_tf_pytorch_utils import convert_tf_weight_name_to_pt_weight_name

    name, transpose = convert_tf_weight_name_to_pt_weight_name(variable.name, tf_weight_shape=tuple(variable.shape))
    return str(name), transpose
