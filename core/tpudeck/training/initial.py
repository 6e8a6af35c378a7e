"""Existing weights into a fresh model: every name in its place, every shape the same, or an error that says which.

Published files differ in a few ways that mean nothing: models saved without their head have no prefix, old ones call
the parts of a LayerNorm gamma and beta, some hold the projection onto the vocabulary beside the embedding table that it
is, and most hold heads for other purposes. A model without the head that is trained gets a fresh one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError
from tpudeck.training.names import from_pytorch, to_pytorch

if TYPE_CHECKING:
    from tpudeck.pretrained import Weights
    from tpudeck.training.model import LanguageModel

__all__ = ["Started", "start_from"]

_BODY = {family: family for family in ("bert", "roberta", "distilbert", "electra")} | {"gpt2": "transformer"}
"""Family → the prefix of all names but those of the head."""

_PROJECTION = {
    "bert": "cls.predictions.decoder.weight",
    "roberta": "lm_head.decoder.weight",
    "distilbert": "vocab_projector.weight",
    "electra": "generator_lm_head.weight",
    "gpt2": "lm_head.weight",
}
"""Family → where files hold the projection onto the vocabulary; in the model it is the embedding table."""

_TABLE = {"gpt2": "transformer.wte.weight"} | {
    family: f"{family}.embeddings.word_embeddings.weight" for family in ("bert", "roberta", "distilbert", "electra")
}


@dataclass(frozen=True)
class Started:
    """What became of a model's weights."""

    taken: int
    fresh: tuple[str, ...]
    """Names of the head that the files do not hold: these stay random."""
    new_tokens: int
    """Rows of the embedding table that the files do not hold."""

    def in_words(self) -> str:
        parts = [f"{self.taken} weights taken over"]
        if self.fresh:
            parts.append(f"fresh, as the files hold no such head: {', '.join(self.fresh)}")
        if self.new_tokens:
            parts.append(f"{self.new_tokens} tokens are new and start from random embeddings")
        return "; ".join(parts)


def start_from(weights: Weights, model: LanguageModel) -> Started:
    """Put the weights into the model; :class:`ArtefactError` where one is missing, not finite, or of another shape."""
    with _opened(weights) as files:
        _require_tied(files, weights)
        fresh, taken, new_tokens = [], 0, 0
        for name, variable in model.weights.items():
            stored = files.name_of(name)
            if stored is None:
                _require_head(name, weights)
                fresh.append(name)
                continue
            value, before = files.read(stored), to_pytorch(variable, variable.numpy())
            if name in model.per_token:
                new_tokens = max(new_tokens, model.vocabulary.size - len(value))
                value = _with_fresh_rows(value, before, model.vocabulary.size)
            _require_shape(stored, value, before, weights)
            variable.assign(from_pytorch(variable, value))
            taken += 1
    return Started(taken, tuple(fresh), new_tokens)


class _Files:
    """The tensors of one or several safetensors files, by name; read when they are asked for."""

    def __init__(self, opened: list[Any], body: str) -> None:
        self._file_of = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (not a mapping)
        self._body = body
        self._prefixed = any(name.startswith(f"{body}.") for name in self._file_of)

    def name_of(self, name: str) -> str | None:
        """How the files call a weight; none where they don't hold it."""
        plain = name if self._prefixed else name.removeprefix(f"{self._body}.")
        old = plain.removesuffix(".weight") + ".gamma" if plain.endswith(".weight") else plain
        old = old.removesuffix(".bias") + ".beta" if old.endswith(".bias") else old
        tied = plain.removesuffix(".bias") + ".decoder.bias"
        return next((known for known in (plain, old, tied) if known in self._file_of), None)

    def read(self, name: str) -> npt.NDArray[np.float32]:
        value = np.asarray(self._file_of[name].get_tensor(name)).astype(np.float32)
        if not np.isfinite(value).all():
            raise ArtefactError(f"the weight {name} is not finite")
        return value


@contextlib.contextmanager
def _opened(weights: Weights) -> Iterator[_Files]:
    from safetensors import SafetensorError, safe_open

    with contextlib.ExitStack() as stack:
        try:
            opened = [stack.enter_context(safe_open(path, "np")) for path in weights.files]
        except (SafetensorError, OSError) as error:
            raise ArtefactError(f"the weights of {weights.name} are damaged: {error}") from error
        yield _Files(opened, _BODY[weights.family])


def _require_tied(files: _Files, weights: Weights) -> None:
    projection, table = _PROJECTION[weights.family], files.name_of(_TABLE[weights.family])
    stored = files.name_of(projection)
    if stored and table and not np.array_equal(files.read(stored), files.read(table)):
        raise ArtefactError(
            f"{weights.name} projects onto the vocabulary with {stored}, and not with its embedding table {table}: "
            "the models that are trained here share them"
        )


def _require_head(name: str, weights: Weights) -> None:
    if name.startswith(f"{_BODY[weights.family]}."):
        raise ArtefactError(f"{weights.name} holds no weight {name}", hint="is it whole, and is it this model?")


def _require_shape(name: str, value: npt.NDArray[Any], before: npt.NDArray[Any], weights: Weights) -> None:
    if value.shape != before.shape:
        raise ArtefactError(
            f"the weight {name} of {weights.name} has the shape {list(value.shape)}, "
            f"and the model of this experiment {list(before.shape)}"
        )


def _with_fresh_rows(value: npt.NDArray[Any], before: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """A table or a bias with a row per token: of the vocabulary what the files hold, and the rest as it was."""
    if value.shape[1:] != before.shape[1:]:
        return value
    rows = min(len(value), size)
    return np.concatenate([value[:rows], before[rows:]])
