"""What a tokenizer is, and what it makes of a text.

The text is a sample of documents from all over a corpus. Ratios such as characters per token come with half the width
of their 95 % confidence interval (see :mod:`~tpudeck.inspection.estimates`); where the sample is the whole text, it is
zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from tpudeck.inspection.curves import coverage_curve, zipf_curve
from tpudeck.inspection.estimates import Ratio, wilson
from tpudeck.inspection.findings import Finding, percent
from tpudeck.inspection.pieces import pieces
from tpudeck.tokenizer.encoding import Encoded, Encoder

if TYPE_CHECKING:
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["inspect_tokenizer"]

_MOST_SHOWN = 20
_MOST_SEARCHED = 500
_LONGEST_SHOWN = 20


@dataclass
class _Sample:
    """What encoding a sample found."""

    counts: npt.NDArray[np.int64]
    documents: int = 0
    characters_per_token: Ratio = field(default_factory=Ratio)
    tokens_per_word: Ratio = field(default_factory=Ratio)
    unknown: Ratio = field(default_factory=Ratio)
    single_character: Ratio = field(default_factory=Ratio)
    round_trip_failures: int = 0
    failed: list[str] = field(default_factory=list)
    unknown_characters: Counter[str] = field(default_factory=Counter)
    searched: int = 0
    """Documents searched for what became unknown."""
    literal_specials: Counter[str] = field(default_factory=Counter)


def inspect_tokenizer(
    tokenizer: LoadedTokenizer,
    batches: Iterable[Sequence[str]],
    *,
    share: float = 1.0,
    requested_vocab_size: int | None = None,
    on_documents: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Statistics of a tokenizer on documents, as plain data. ``share``: they are so much of all the documents."""
    specials = [str(tokenizer.rust.id_to_token(id_)) for id_ in tokenizer.special_ids]
    sample = _Sample(np.zeros(tokenizer.vocab_size, dtype=np.int64))
    lengths = np.array([len(piece) for piece in pieces(tokenizer)])
    encoder = Encoder(tokenizer)
    for texts in batches:
        _count(tokenizer, lengths <= 1, texts, encoder.encode(texts), sample)
        _search(specials, texts, sample)
        on_documents(sample.documents)
    ordinary = np.ones(tokenizer.vocab_size, dtype=bool)
    ordinary[list(tokenizer.special_ids)] = False
    described = {
        **_about(tokenizer, requested_vocab_size),
        **_on_text(sample, share),
        "coverage": coverage_curve(sample.counts),
        "zipf": zipf_curve(sample.counts),
        "token_lengths": _length_histogram(lengths, ordinary, sample.counts),
        "longest_tokens": _tokens(
            tokenizer, np.argsort(-np.where(ordinary, lengths, -1), kind="stable"), sample.counts
        ),
        "rarest_tokens": _rarest(tokenizer, ordinary, sample.counts),
        "never_used": int((ordinary & (sample.counts == 0)).sum()),
    }
    return described | {"findings": [finding.to_dict() for finding in _findings(described)]}


def _count(
    tokenizer: LoadedTokenizer,
    single: npt.NDArray[np.bool_],
    texts: Sequence[str],
    encoded: Encoded,
    sample: _Sample,
) -> None:
    """Count the tokens of some documents. ``single``: which ids stand for one character or less."""
    flat, tokens_D = encoded
    sample.documents += len(texts)
    sample.counts += np.bincount(flat, minlength=len(sample.counts))
    sample.characters_per_token.add([len(text) for text in texts], tokens_D)
    sample.tokens_per_word.add(tokens_D, [len(text.split()) for text in texts])
    sample.single_character.add(_per_document(single[flat], tokens_D), tokens_D)
    unknown_D = _per_document(flat == (-1 if tokenizer.unk_id is None else tokenizer.unk_id), tokens_D)
    sample.unknown.add(unknown_D, tokens_D)
    for index in np.flatnonzero(unknown_D)[: _MOST_SEARCHED - sample.searched]:
        _find_unknown(tokenizer, texts[index], sample)
    ends = np.cumsum(tokens_D).tolist()
    ids = flat.tolist()
    _check_round_trips(tokenizer, texts, [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)], sample)


def _per_document(marked: npt.NDArray[np.bool_], tokens_D: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many of each document's tokens are marked."""
    before = np.concatenate([[0], np.cumsum(marked)])
    ends = np.cumsum(tokens_D)
    return np.asarray(before[ends] - before[ends - tokens_D])


def _find_unknown(tokenizer: LoadedTokenizer, text: str, sample: _Sample) -> None:
    """Which characters of a document became the unknown token."""
    sample.searched += 1
    encoding = tokenizer.rust.encode(text, add_special_tokens=False)
    for id_, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if id_ == tokenizer.unk_id:
            sample.unknown_characters[text[start:end].strip()[:_LONGEST_SHOWN]] += 1


def _check_round_trips(
    tokenizer: LoadedTokenizer, texts: Sequence[str], encoded: list[list[int]], sample: _Sample
) -> None:
    """Decode what was encoded; white space aside, which word pieces don't keep."""
    rust = tokenizer.rust
    for text, decoded in zip(texts, rust.decode_batch(encoded, skip_special_tokens=False), strict=True):
        normal = text if rust.normalizer is None else rust.normalizer.normalize_str(text)
        if "".join(decoded.split()) != "".join(normal.split()):
            sample.round_trip_failures += 1
            if len(sample.failed) < 3:
                sample.failed.append(text[:200])


def _search(specials: Sequence[str], texts: Sequence[str], sample: _Sample) -> None:
    """Count special tokens that the text spells."""
    together = "\n".join(texts)
    sample.literal_specials.update({special: together.count(special) for special in specials if special in together})


def _about(tokenizer: LoadedTokenizer, requested_vocab_size: int | None) -> dict[str, Any]:
    """What the file says."""
    parts = orjson.loads(tokenizer.rust.to_str())
    known = set(tokenizer.rust.get_vocab(with_added_tokens=True).values())
    unused = [id_ for id_ in range(tokenizer.vocab_size) if id_ not in known]
    return {
        "folder": str(tokenizer.folder),
        "hash": tokenizer.hash,
        "model": parts["model"]["type"],
        **{name: _kinds(parts.get(name)) for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder")},
        "special_tokens": {str(tokenizer.rust.id_to_token(id_)): id_ for id_ in tokenizer.special_ids},
        "vocab_size": tokenizer.vocab_size,
        "requested_vocab_size": requested_vocab_size,
        "unused_ids": len(unused),
        "first_unused_ids": unused[:_MOST_SHOWN],
    }


def _kinds(part: Any) -> list[str]:
    """The kinds of a part of ``tokenizer.json``: of each in a sequence."""
    if not part:
        return []
    for name in ("normalizers", "pretokenizers", "processors", "decoders"):
        if name in part:
            return [kind for inner in part[name] for kind in _kinds(inner)]
    return [str(part["type"])]


def _on_text(sample: _Sample, share: float) -> dict[str, Any]:
    failures = sample.round_trip_failures
    return {
        "documents": sample.documents,
        "characters": sample.characters_per_token.above,
        "tokens": sample.characters_per_token.below,
        "words": sample.tokens_per_word.below,
        "share": share,
        "whole_text": share >= 1,
        **_with_error("characters_per_token", sample.characters_per_token, share),
        **_with_error("tokens_per_word", sample.tokens_per_word, share),
        **_with_error("unknown_share", sample.unknown, share),
        **_with_error("single_character_share", sample.single_character, share),
        "unknown_characters": sample.unknown_characters.most_common(_MOST_SHOWN),
        "round_trip_failures": failures,
        "round_trip_failure_share": failures / sample.documents if sample.documents else 0.0,
        "round_trip_failure_share_interval": wilson(failures, sample.documents, share),
        "round_trip_examples": sample.failed,
        "literal_specials": dict(sample.literal_specials),
    }


def _with_error(name: str, ratio: Ratio, share: float) -> dict[str, float]:
    return {name: ratio.value, f"{name}_error": ratio.error(share)}


def _length_histogram(
    lengths: npt.NDArray[np.int64], ordinary: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64]
) -> list[dict[str, int]]:
    """For each length in characters: how many tokens of the vocabulary have it, and how many of the text."""
    in_vocabulary = np.bincount(lengths[ordinary])
    in_text = np.bincount(lengths[ordinary], counts[ordinary]).astype(np.int64)
    return [
        {"characters": length, "vocabulary": int(of), "text": int(in_text[length])}
        for length, of in enumerate(in_vocabulary)
        if of
    ]


def _rarest(
    tokenizer: LoadedTokenizer, ordinary: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64]
) -> list[dict[str, Any]]:
    used = np.flatnonzero(ordinary & (counts > 0))
    return _tokens(tokenizer, used[np.argsort(counts[used], kind="stable")], counts)


def _tokens(
    tokenizer: LoadedTokenizer, ids: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> list[dict[str, Any]]:
    return [
        {"id": int(id_), "token": tokenizer.rust.id_to_token(int(id_)), "count": int(counts[id_])}
        for id_ in ids[:_MOST_SHOWN]
    ]


def _findings(described: dict[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    size, asked = described["vocab_size"], described["requested_vocab_size"]

    def warn(message: str, hint: str) -> None:
        findings.append(Finding("warning", message, hint))

    if asked and size < asked:
        warn(f"the vocabulary has {size:,} tokens of {asked:,} asked for", "more text, or ask for fewer")
    if described["unused_ids"]:
        warn(f"{described['unused_ids']:,} ids stand for no token", "the model pays for them; train a new tokenizer")
    if described["never_used"] > 0.2 * size and described["tokens"] > 20 * size:
        share = percent(described["never_used"] / size)
        warn(f"{share} of the tokens never occur in this text", "a smaller vocab_size, or a tokenizer of this text")
    if described["unknown_share"] > 0.001:
        share = percent(described["unknown_share"])
        most = ", ".join(text for text, _ in described["unknown_characters"][:5])
        warn(f"{share} of the tokens are the unknown token: {most}, …", "train on this text, or use byte_bpe")
    if described["single_character_share"] > 0.25:
        share = percent(described["single_character_share"])
        warn(f"{share} of the tokens are single characters", "a larger vocab_size, or a tokenizer trained on this text")
    if described["round_trip_failures"]:
        failures = f"{described['round_trip_failures']:,} of {described['documents']:,} documents"
        warn(f"{failures} do not decode to what they were", "look at round_trip_examples: unknown or lost characters")
    for special, count in described["literal_specials"].items():
        message = f"the text spells {special} {count:,} times; it is encoded as text"
        findings.append(Finding("info", message, "nothing, if it is meant; otherwise clean the text"))
    return findings
