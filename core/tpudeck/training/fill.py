"""What a model answers: tokens for the masks in a text, or how a text goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tpudeck.errors import InputError
from tpudeck.philox import philox

if TYPE_CHECKING:
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck.training.model import LanguageModel

__all__ = ["fill_masks", "fill_sample", "generate"]

_MASKS = ("<mask>", "[MASK]")
"""How people write a mask, whatever the tokenizer calls it."""
_SAMPLE_ANSWERS = 3
_SAMPLE_TOKENS = 24


def fill_sample(model: LanguageModel, tokenizer: LoadedTokenizer, text: str) -> dict[str, Any]:
    """What a model answers to one of an experiment's sample texts."""
    if not model.causal:
        return fill_masks(model, tokenizer, text, most=_SAMPLE_ANSWERS)
    generated = generate(model, tokenizer, text, tokens=_SAMPLE_TOKENS, temperature=0.0)
    return {"text": text, "filled": generated["generated"], "answers": []}


def fill_masks(model: LanguageModel, tokenizer: LoadedTokenizer, text: str, *, most: int) -> dict[str, Any]:
    """The likeliest ``most`` tokens for every ``<mask>``, and the text with the likeliest in their place."""
    ids = _encode_with_masks(tokenizer, text)
    positions = [index for index, token in enumerate(ids) if token == tokenizer.mask_id]
    if not positions:
        raise InputError(f"a text to fill has a <mask> in it, got {text!r}")
    _require_room(model, len(ids))
    logits_PV = model.logits(tf.constant([ids]), tf.constant([positions])).numpy()[0]
    answers = [_likeliest(tokenizer, logits_V, most) for logits_V in logits_PV]
    filled = list(ids)
    for position, logits_V in zip(positions, logits_PV, strict=True):
        filled[position] = int(np.argmax(logits_V))
    return {"text": text, "filled": _decode(tokenizer, filled), "answers": answers}


def generate(
    model: LanguageModel,
    tokenizer: LoadedTokenizer,
    text: str,
    *,
    tokens: int,
    temperature: float = 1.0,
    most_likely: int = 50,
    seed: int = 0,
) -> dict[str, Any]:
    """Go on with a text, token by token, until the end of a document or of the model's positions.

    Each token is drawn from the ``most_likely`` ones at a temperature; at temperature 0 it is the likeliest. The same
    seed gives the same text.
    """
    if not model.causal:
        raise InputError("this model fills masks, it cannot go on with a text", hint="use `tpudeck fill-mask`")
    ids = list(tokenizer.rust.encode(text, add_special_tokens=False).ids) or [tokenizer.bos_id]
    _require_room(model, len(ids))
    length = min(model.most_tokens, len(ids) + tokens)
    while len(ids) < length:
        padded = np.full((1, length), tokenizer.pad_id, np.int32)
        padded[0, : len(ids)] = ids
        logits_V = model.traced_logits(tf.constant(padded), tf.constant([[len(ids) - 1]])).numpy()[0, 0]
        token = _draw(logits_V, temperature, most_likely, seed, len(ids))
        if token == tokenizer.eos_id:
            break
        ids.append(token)
    return {"text": text, "generated": _decode(tokenizer, ids)}


def _encode_with_masks(tokenizer: LoadedTokenizer, text: str) -> list[int]:
    """Ids of a text in which a mask is the mask token; otherwise as Transformers' tokenizer reads it."""
    if tokenizer.mask_id is None:
        raise InputError("this model has no mask token", hint="a causal model goes on with a text: `tpudeck generate`")
    mask = tokenizer.rust.id_to_token(tokenizer.mask_id)
    for name in _MASKS:
        text = text.replace(name, mask)
    tokenizer.rust.encode_special_tokens = False
    try:
        return list(tokenizer.rust.encode(text).ids)
    finally:
        tokenizer.rust.encode_special_tokens = True


def _require_room(model: LanguageModel, tokens: int) -> None:
    if tokens > model.most_tokens:
        raise InputError(f"this model reads at most {model.most_tokens} tokens, got {tokens}", hint="shorten the text")


def _likeliest(tokenizer: LoadedTokenizer, logits_V: npt.NDArray[np.float32], most: int) -> list[dict[str, Any]]:
    shares = np.exp(logits_V.astype(np.float64) - logits_V.max())
    shares /= shares.sum()
    best: npt.NDArray[np.int64] = np.argsort(-shares, kind="stable")[:most]
    return [{"token": _decode(tokenizer, [int(id_)]), "probability": float(shares[id_])} for id_ in best]


def _draw(logits_V: npt.NDArray[np.float32], temperature: float, most_likely: int, seed: int, place: int) -> int:
    best: npt.NDArray[np.int64] = np.argsort(-logits_V, kind="stable")[:most_likely]
    if temperature == 0:
        return int(best[0])
    weights = np.exp((logits_V[best] - logits_V[best[0]]).astype(np.float64) / temperature)
    word, *_ = philox((place, 0, 0, 0), seed)
    chosen = int(np.searchsorted(np.cumsum(weights), float(word) / 2**32 * weights.sum(), side="right"))
    return int(best[min(chosen, len(best) - 1)])


def _decode(tokenizer: LoadedTokenizer, ids: list[int]) -> str:
    """As text, without the specials around it but with those that a single answer consists of."""
    text = tokenizer.rust.decode(ids, skip_special_tokens=True).strip()
    return str(text or tokenizer.rust.decode(ids, skip_special_tokens=False)).strip()
