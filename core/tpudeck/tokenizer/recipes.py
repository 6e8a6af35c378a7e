"""How each kind of tokenizer is put together, and how a trained one becomes the same file every time.

=============  =============================================  ===============  ==================
kind           normaliser                                     pre-tokeniser    unknown characters
=============  =============================================  ===============  ==================
``unigram``    `` and '' become ", white space one space      Metaspace        ``<unk>``
``bpe``        the same                                       Metaspace        ``<unk>``
``byte_bpe``   none                                           ByteLevel        none: bytes
``wordpiece``  BERT's (control characters, white space, CJK)  BERT's           ``[UNK]``
=============  =============================================  ===============  ==================

Special tokens come first, in the order of the model's family, so that the padding token is where the family's position
code expects it. Three things the trainers do are put right here:

* They number tokens, and break ties, in the order of a hash map that differs in every process.
* A Unigram model gives special tokens the best score there is, so that text which spells one *becomes* one, whatever
  ``encode_special_tokens`` says. Here they get a score that no spelling can lose against.
* Text full of a special token's spelling teaches that spelling as a piece; training sees it with a space inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.presets.schema import Tokenizer as Settings
from tpudeck.tokenizer.roles import roles_of
from tpudeck.tokenizer.survey import Survey

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["UNREACHABLE", "broken_up", "canonical", "minimum_vocabulary", "template", "trainer", "untrained"]

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""What Metaspace writes for a space."""
_INNER = "##"
"""What WordPiece writes before a piece inside a word."""
UNREACHABLE = -1000.0
"""Score of special tokens in a Unigram model: below any spelling, and all their characters are in the vocabulary."""
_ENDLESS_WORD = re.compile(r"(\S{200})(?=\S)")
_SCORE_DIGITS = 4
"""Unigram scores drift by less than 1e-9 from one training to the next; neighbours differ by more than 1e-4."""


def untrained(settings: Settings, specials: Sequence[str]) -> Tokenizer:
    """The tokenizer of this kind around a model that has learned nothing yet."""
    from tokenizers import models

    unk = roles_of(specials)["unk"]
    model = {
        "unigram": lambda: models.Unigram(),
        "bpe": lambda: models.BPE(unk_token=unk),
        "byte_bpe": lambda: models.BPE(),
        "wordpiece": lambda: models.WordPiece(unk_token=unk),
    }[settings.kind]()
    return _around(model, settings, specials)


def _around(model: Any, settings: Settings, specials: Sequence[str]) -> Tokenizer:
    """A model with everything that stands before and after it."""
    from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers

    rust = Tokenizer(model)
    lowercase = [normalizers.Lowercase()] if settings.lowercase else []
    if settings.kind == "wordpiece":
        rust.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase)
        rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        rust.decoder = decoders.WordPiece(prefix=_INNER)
    elif settings.kind == "byte_bpe":
        if lowercase:
            rust.normalizer = normalizers.Sequence(lowercase)
        rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        rust.decoder = decoders.ByteLevel()
    else:
        rust.normalizer = normalizers.Sequence([*lowercase, *_published_normalizers()])
        # "first": a word after a special token looks as it does in running text, so `is <mask>.` ends in a plain dot.
        rust.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        rust.decoder = decoders.Metaspace(prepend_scheme="first")
    roles = roles_of(specials)
    mask = roles.get("mask")
    ids = {name: id_ for id_, name in enumerate(specials)}
    rust.post_processor = template(roles, ids, causal=mask is None)
    # Without lstrip a stray space piece would stand before every mask.
    rust.add_special_tokens(
        [AddedToken(name, special=True, normalized=False, lstrip=name == mask) for name in specials]
    )
    return rust


def _published_normalizers() -> list[Any]:
    from tokenizers import Regex, normalizers

    # Metaspace knows the space only: every other white space, and every run of it, becomes one.
    white_space = normalizers.Replace(Regex(r"\s{2,}|[^\S ]"), " ")
    return [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), white_space]


def template(roles: Mapping[str, str], ids: Mapping[str, int], *, causal: bool) -> Any:
    """``[CLS] … [SEP]`` for a masked model; nothing for a causal one: a prompt must not be ended, and shards put the
    token that ends a document there themselves."""
    from tokenizers.processors import TemplateProcessing

    bos, eos = roles["bos"], roles["eos"]
    if causal:
        return TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} $B {eos}",
        special_tokens=list({bos: ids[bos], eos: ids[eos]}.items()),
    )


def _always_known(kind: str, specials: Iterable[str]) -> set[str]:
    """Characters in every vocabulary: those of the special tokens, so that text can spell what it is not; a space."""
    spelling = set("".join(specials))
    return spelling if kind == "wordpiece" else spelling | {_SPACE}


def minimum_vocabulary(kind: str, survey: Survey) -> int:
    """The smallest vocabulary that can be trained: special tokens and whatever single symbols the text needs."""
    specials = len(survey.specials)
    if kind == "byte_bpe":
        return 256 + specials
    alphabet = {mark for mark in survey.alphabet if not mark.isspace()} | _always_known(kind, survey.specials)
    if kind == "wordpiece":
        return len(alphabet) + len(survey.inner_characters()) + specials
    return len(alphabet) + specials


def trainer(settings: Settings, survey: Survey) -> Any:
    """The library's trainer for this kind."""
    from tokenizers import pre_tokenizers, trainers

    specials = list(survey.specials)
    alphabet = sorted(_always_known(settings.kind, specials))
    common = {"vocab_size": settings.vocab_size, "show_progress": False}
    if settings.kind == "unigram":
        unk = roles_of(specials)["unk"]
        return trainers.UnigramTrainer(special_tokens=specials, unk_token=unk, initial_alphabet=alphabet, **common)
    if settings.kind == "wordpiece":
        # Told the inner characters in a fixed order, it numbers them so, and ties between merges break alike.
        inner = [_INNER + mark for mark in survey.inner_characters()]
        return trainers.WordPieceTrainer(
            special_tokens=[*specials, *inner],
            initial_alphabet=alphabet,
            continuing_subword_prefix=_INNER,
            **common,
        )
    if settings.kind == "byte_bpe":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, **common)


def broken_up(batches: Iterable[Sequence[str]], specials: Sequence[str]) -> Iterator[list[str]]:
    """Text as the trainer should see it, with spaces inside special tokens that it spells and inside endless words.

    No piece then learns to spell a special token. A word without end (base64, a page of Chinese) teaches no more in one
    than in parts, and the time that training takes grows with the square of its length.
    """
    for batch in batches:
        text = "\n".join(batch)
        found = [special for special in specials if special in text]
        documents = list(batch)
        for special in found:
            documents = [document.replace(special, f"{special[0]} {special[1:]}") for document in documents]
        yield [_ENDLESS_WORD.sub(r"\1 ", document) for document in documents]


def canonical(trained: Tokenizer, settings: Settings, specials: Sequence[str]) -> Tokenizer:
    """A trained tokenizer as it would be after any other training on the same text, byte by byte."""
    from tokenizers import models

    model = orjson.loads(trained.to_str())["model"]
    unk = roles_of(specials)["unk"]
    if settings.kind == "unigram":
        pieces = _canonical_pieces(model["vocab"], specials, settings.vocab_size)
        return _around(models.Unigram(pieces, specials.index(unk), False), settings, specials)
    if settings.kind == "wordpiece":
        return _around(models.WordPiece(model["vocab"], unk_token=unk), settings, specials)
    merges = [tuple(merge) for merge in model["merges"]]
    unknown = {} if settings.kind == "byte_bpe" else {"unk_token": unk}
    return _around(models.BPE(model["vocab"], merges, **unknown), settings, specials)


def _canonical_pieces(
    vocabulary: Sequence[tuple[str, float]], specials: Sequence[str], size: int
) -> list[tuple[str, float]]:
    """Special tokens, then the pieces by falling score and text, at most as many as were asked for.

    Where the alphabet leaves little room the trainer overshoots; the pieces of more than one character that score
    lowest are dropped.
    """
    scores = {piece: score for piece, score in vocabulary if piece not in specials}
    scores |= dict.fromkeys(_forgotten(scores), min(scores.values()))
    ranked = sorted(((piece, round(score, _SCORE_DIGITS)) for piece, score in scores.items()), key=_by_score)
    room = size - len(specials) - sum(len(piece) == 1 for piece in scores)
    longer = [entry for entry in ranked if len(entry[0]) > 1][: max(room, 0)]
    single = [entry for entry in ranked if len(entry[0]) == 1]
    return [*((special, UNREACHABLE) for special in specials), *sorted([*single, *longer], key=_by_score)]


def _by_score(entry: tuple[str, float]) -> tuple[float, str]:
    piece, score = entry
    return -score, piece


def _forgotten(scores: Mapping[str, float]) -> Iterator[str]:
    """Characters that training left out and the trainer put back: at the lowest score, plus 0, 1, 2, … times 0.0001.

    It counts in the order of a hash map, so which character got which is chance.
    """
    lowest = min(scores.values())
    on_step: dict[int, list[str]] = {}
    for piece, score in scores.items():
        step = (score - lowest) / 1e-4
        if len(piece) == 1 and abs(step - round(step)) < 1e-3:
            on_step.setdefault(round(step), []).append(piece)
    step = 0
    while step in on_step:
        yield from on_step[step]
        step += 1
