"""Which tokenizers take a word at a time, and what a word is to them.

Here a *word* is a stretch of text that is encoded the same wherever it stands. It need not be what the tokenizer
itself calls a word: several of those are one, too, as long as it makes all the cuts that are made here.
So for each way of cutting there are the normalisers that may stand before it: none of them may look across a cut, make
one or take one away. What is not known to be safe is not cut.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["word_cutter"]

_WHITE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as Unicode and the Rust side have it; Python's ``\\s`` has four control characters more."""

_PARTED = re.compile(r"[ \t\n\r]*[^ \t\n\r]+")
"""White space parts words and leaves no token. These four always do; what other white space parts is one word here,
and the tokenizer makes several of it."""
_LED_BY_SPACE = re.compile(r" ?[^ ]+| ")
"""Every space begins a word."""
_LED_BY_WHITE = re.compile(f"[{_WHITE}]*[^{_WHITE}]+|[{_WHITE}]+")
"""White space, whatever and however much it is, becomes one space, and that begins a word."""
_GPT2 = re.compile(f" ?[^{_WHITE}]+|[{_WHITE}]+(?![^{_WHITE}])|[{_WHITE}]")
"""The last space before a word belongs to it, and white space before that is a word of its own. The expression that
GPT-2 cuts by cuts finer, and at all these places."""

_MODELS = {
    "Unigram": {"unk_id", "vocab", "byte_fallback"},
    "WordPiece": {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
    "WordLevel": {"unk_token", "vocab"},
    "BPE": {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"}
    | {"ignore_merges", "vocab", "merges"},
}
"""Models that see one word after the other, and the settings that they are known with."""

_BY_CHARACTER = {"Lowercase", "NFC"}
"""Normalisers that leave white space what it is, and everything else on its side of it."""
_BETWEEN_SPACES = _BY_CHARACTER | {"NFD", "NFKC", "NFKD", "StripAccents"}
"""These make white space of other characters too, which is all the same where a plain space ends a word."""
_ONE_SPACE = {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[^\S ]"}, "content": " "}


class _Cut(NamedTuple):
    """A way to cut text into words."""

    pre_tokenizer: dict[str, Any]
    """The settings that matter."""
    pattern: re.Pattern[str]
    normalizers: set[str]
    """Those that change nothing about where words end."""
    last_normalizer: dict[str, Any] | None = None
    """One that must follow them."""


_METASPACE = {"type": "Metaspace", "split": True}
_CUTS = (
    *(
        _Cut({"type": name}, _PARTED, _BETWEEN_SPACES | {"BertNormalizer"})
        for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
    ),
    *(
        cut
        for scheme in ("first", "always")
        for cut in (
            _Cut(_METASPACE | {"prepend_scheme": scheme}, _LED_BY_WHITE, _BY_CHARACTER, _ONE_SPACE),
            _Cut(_METASPACE | {"prepend_scheme": scheme}, _LED_BY_SPACE, _BETWEEN_SPACES),
        )
    ),
    _Cut({"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, _GPT2, _BY_CHARACTER),
)


def word_cutter(rust: Tokenizer) -> Callable[[str], list[str]] | None:
    """What cuts a text into words such that their tokens, one after the other, are the tokens of the text; none for a
    tokenizer that is not known to have such words."""
    about = orjson.loads(rust.to_str())
    model = about["model"]
    if _MODELS.get(model["type"]) != model.keys() - {"type"} or model.get("dropout"):
        return None
    if not rust.encode_special_tokens or not all(token["special"] for token in about["added_tokens"]):
        return None
    if not all(map(_keeps_tokens, _parts(about["post_processor"]))):
        return None
    pre_tokenizers = [_without(part, "replacement", "trim_offsets") for part in _parts(about["pre_tokenizer"])]
    normalizers = _parts(about["normalizer"])
    for cut in _CUTS:
        last = [cut.last_normalizer] if cut.last_normalizer else []
        first = normalizers[: len(normalizers) - len(last)]
        if (
            pre_tokenizers == [cut.pre_tokenizer]
            and normalizers == first + last
            and all(_stays_inside(part, cut.normalizers) for part in first)
        ):
            return functools.partial(_words, cut.pattern)
    return None


def _words(pattern: re.Pattern[str], text: str) -> list[str]:
    if text.isprintable() and "  " not in text:  # no white space but single spaces: the same cuts, in half the time
        return text.replace(" ", "\0 ").split("\0")
    return pattern.findall(text)


def _parts(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What a sequence consists of, or the one thing that stands alone."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    (inner,) = (value for value in part.values() if isinstance(value, list))
    return [piece for nested in inner for piece in _parts(nested)]


def _without(part: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


def _stays_inside(normalizer: dict[str, Any], harmless: set[str]) -> bool:
    """Whether a normaliser, given text in words, gives the words that it makes of each."""
    if normalizer["type"] == "Replace":
        find, put = normalizer["pattern"].get("String"), normalizer["content"]
        return bool(find) and not any(mark.isspace() for mark in find + put)
    return normalizer["type"] in harmless


def _keeps_tokens(processor: dict[str, Any]) -> bool:
    """Whether a processor that adds no special tokens leaves the others as they are."""
    if processor["type"] == "TemplateProcessing":
        return [piece["Sequence"]["id"] for piece in processor["single"] if "Sequence" in piece] == ["A"]
    return processor["type"] in {"ByteLevel", "BertProcessing", "RobertaProcessing"}
