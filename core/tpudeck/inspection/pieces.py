"""Tokens as a person reads them, and where two tokenizers cut a text differently.

A vocabulary spells spaces and bytes in its own way: ``▁`` for a space (SentencePiece), ``Ġ`` and other letters for
bytes (byte-level BPE), ``##`` for a piece inside a word (WordPiece), ``<0xE2>`` for a byte. What is shown here is the
text that a token stands for, its spaces as ``␣``, and bytes that are no whole character as ``⟨E2⟩``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["Reader", "Stretch", "compare", "pieces", "stretches"]

_MARKS = str.maketrans({" ": "␣", "\n": "⏎", "\r": "␍", "\t": "→"})
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def pieces(tokenizer: LoadedTokenizer) -> list[str]:
    """What every id stands for in a text, without the marks that tokenizers put before or inside words."""
    decoded = tokenizer.rust.decode_batch([[id_] for id_ in range(tokenizer.vocab_size)], skip_special_tokens=False)
    return [piece.removeprefix("##").strip() for piece in decoded]


class Reader:
    """Makes the tokens of a tokenizer readable."""

    def __init__(self, tokenizer: LoadedTokenizer) -> None:
        self._rust = tokenizer.rust
        kinds = _kinds(tokenizer.rust)
        self._bytes = "ByteLevel" in kinds
        self._metaspace = not self._bytes and bool({"Metaspace", "▁"} & kinds)
        self._special = set(tokenizer.special_ids)

    def in_text(self, id_: int) -> str:
        """The token as it stands among others: where a vocabulary knows no spaces, with the one before a word."""
        token = self(id_)
        if self._bytes or self._metaspace or id_ in self._special:
            return token
        return token[2:] if token.startswith("##") else f"␣{token}"

    def __call__(self, id_: int) -> str:
        """The token with this id, with its spaces and bytes visible; an id without one as ``⟨17⟩``."""
        token = self._rust.id_to_token(id_)
        if token is None:
            return f"⟨{id_}⟩"
        if id_ in self._special:
            return str(token)
        if self._bytes:
            return _readable_bytes(bytes(_byte_letters()[mark] for mark in token if mark in _byte_letters()))
        if byte := _BYTE.fullmatch(token):
            return _readable_bytes(bytes.fromhex(byte[1]))
        return str(token.replace("▁", " ") if self._metaspace else token).translate(_MARKS)


def _kinds(rust: Tokenizer) -> set[str]:
    """The kinds of all parts of a tokenizer, and whether it spells spaces as ``▁``."""
    parts = orjson.loads(rust.to_str())
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            found.update(value for key, value in part.items() if key == "type" and isinstance(value, str))
            found.update("▁" for key, value in part.items() if key in ("content", "String") and value == "▁")
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    for name in ("normalizer", "pre_tokenizer", "decoder"):
        walk(parts.get(name))
    return found


@functools.lru_cache(maxsize=1)
def _byte_letters() -> dict[str, int]:
    """The letters by which byte-level BPE writes bytes: printable Latin-1 as itself, the others from U+0100 on."""
    itself = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in itself]
    return {chr(byte): byte for byte in itself} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _readable_bytes(octets: bytes) -> str:
    """Bytes as text, those that are no whole character in hexadecimal."""
    text = octets.decode("utf-8", "surrogateescape").translate(_MARKS)
    return re.sub("[\udc80-\udcff]", lambda found: f"⟨{ord(found[0]) - 0xDC00:02X}⟩", text)


class Stretch(NamedTuple):
    """Text between two places where both tokenizers cut, or the whole; and the tokens of each there."""

    start: int
    end: int
    left: Sequence[int]
    right: Sequence[int]
    """Places of the tokens in the encodings."""


def stretches(left: Encoding, right: Encoding) -> Iterator[Stretch]:
    """A text cut where both of two encodings of it cut."""
    cuts = [{end for _, end in encoding.offsets} for encoding in (left, right)]
    places = [iter(enumerate(encoding.offsets)) for encoding in (left, right)]
    waiting = [next(place, None) for place in places]
    start = 0
    for end in sorted(cuts[0] & cuts[1]):
        inside: tuple[list[int], list[int]] = ([], [])
        for side in (0, 1):
            while (token := waiting[side]) is not None and token[1][1] <= end:
                inside[side].append(token[0])
                waiting[side] = next(places[side], None)
        yield Stretch(start, end, *inside)
        start = end


def compare(left: LoadedTokenizer, right: LoadedTokenizer, text: str) -> dict[str, Any]:
    """Two tokenizers on the same text: their tokens, and the stretches of text that they cut differently."""
    encodings = [tokenizer.rust.encode(text, add_special_tokens=False) for tokenizer in (left, right)]
    differences = []
    for stretch in stretches(*encodings):
        tokens = [
            [encoding.tokens[place] for place in places]
            for encoding, places in zip(encodings, (stretch.left, stretch.right), strict=True)
        ]
        if tokens[0] != tokens[1] and max(map(len, tokens)) > 1:
            start, end = stretch.start, stretch.end
            differences.append(
                {"start": start, "end": end, "text": text[start:end], "left": tokens[0], "right": tokens[1]}
            )
    sides = [{"ids": encoding.ids, "tokens": encoding.tokens, "offsets": encoding.offsets} for encoding in encodings]
    return {"text": text, "left": sides[0], "right": sides[1], "differences": differences}
