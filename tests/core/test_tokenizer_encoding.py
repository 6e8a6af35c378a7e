"""Encoding by the batch: word by word or not, the tokens are those of the tokenizer."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from tpudeck.errors import ArtefactError
from tpudeck.presets.schema import FAMILIES
from tpudeck.presets.schema import Tokenizer as Settings
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck.tokenizer.encoding import Encoder
from tpudeck.tokenizer.training import train
from tpudeck.tokenizer.words import word_cutter

SPECIALS = FAMILIES["roberta"].specials
WHITE = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
ODD = [
    *WHITE,
    *("\u180e", "\u200b", "\u200d", "\ufeff", "\x00", "\x01", "\x7f", "\x9f", "\u0600", "\ufffd", "\U000e0020"),
    *("▁", "▁▁", "_", "``", "''", "`", "'", '"', "'s", "'ll", ".", ",", "-", "@-@", "=", "##", "Ġ", "Ċ", "<", ">"),
    *(
        "\u0301",
        "\u0308",
        "\u0338",
        "\u0327",
        "¨",
        "´",
        "\ufdfa",
        "ﬁ",
        "ǆ",
        "½",
        "²",
        "Å",
        "\u212b",
        "\u2000",
        "\ufe49",
    ),
    *(
        "İ",
        "ß",
        "ẞ",
        "Σ",
        "ς",
        "ΑΣ",
        "É",
        "é",
        "e\u0301",
        "한",
        "글",
        "漢",
        "字",
        "かな",
        "ا",
        "عربي",
        "न\u0940",
        "\u0e33",
    ),
    *("🙂", "👩\u200d👩\u200d👧", "\U00010400", "\U0001d400", "0", "12", "٣", "x" * 101, *SPECIALS),
]
WORDS = ["a", "the", "The", "of", "queue", "QUEUES", "ing", "don't", "naïve", "Straße", "w1", "1,000"]


def odd_text(rng: random.Random) -> str:
    """Words and oddities, one after the other, mostly with a space between them."""
    length = rng.randrange(30)
    return "".join(
        rng.choice(rng.choice([WORDS, ODD])) + rng.choice([" ", " ", "", "  ", "   ", "\n", "\n  "])
        for _ in range(length)
    )


ODD_TEXTS = [odd_text(random.Random(seed)) for seed in range(400)]


@functools.cache
def model_of(kind: str) -> Any:
    """A model that has learned the oddities, white space in front of and between them too."""
    if kind == "wordpiece":
        rust = Tokenizer(models.WordPiece(unk_token="<unk>"))
        trainer: Any = trainers.WordPieceTrainer(vocab_size=900, special_tokens=list(SPECIALS), show_progress=False)
        rust.pre_tokenizer = pre_tokenizers.Whitespace()
    elif kind == "unigram":
        rust = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>", show_progress=False)
        rust.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        rust = Tokenizer(models.BPE(unk_token=None if kind == "byte_bpe" else "<unk>", fuse_unk=kind == "fused"))
        trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=list(SPECIALS), show_progress=False)
        rust.pre_tokenizer = (
            pre_tokenizers.ByteLevel(add_prefix_space=False) if kind == "byte_bpe" else pre_tokenizers.Metaspace()
        )
    rust.train_from_iterator([*ODD_TEXTS, *(text.lower() for text in ODD_TEXTS)], trainer)
    return rust.model


def put_together(kind: str, pre_tokenizer: Any, *normalizer: Any, post_processor: Any = None) -> LoadedTokenizer:
    rust = Tokenizer(model_of(kind))
    rust.pre_tokenizer = pre_tokenizer
    if normalizer:
        rust.normalizer = normalizers.Sequence(list(normalizer))
    if post_processor:
        rust.post_processor = post_processor
    rust.add_special_tokens([AddedToken(name, lstrip=name == "<mask>", normalized=False) for name in SPECIALS])
    return loaded(rust)


def loaded(rust: Tokenizer) -> LoadedTokenizer:
    rust.encode_special_tokens = True
    return LoadedTokenizer(Path("somewhere"), rust, "", rust.get_vocab_size(), 0, None, 0, 0, 0, ())


def trained(kind: str, **changes: Any) -> LoadedTokenizer:
    return loaded(train(Settings(kind=kind, vocab_size=900, **changes), SPECIALS, [ODD_TEXTS]).rust)


def metaspace(scheme: str = "first") -> Any:
    return pre_tokenizers.Metaspace(prepend_scheme=scheme)


def byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


N = normalizers
ONE_SPACE = N.Replace(Regex(r"\s{2,}|[^\S ]"), " ")
PUBLISHED = (N.Replace("``", '"'), N.Replace("''", '"'))
ROBERTA = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))

SHAPES: dict[str, Callable[[], LoadedTokenizer]] = {
    **{kind: functools.partial(trained, kind) for kind in ("unigram", "bpe", "byte_bpe", "wordpiece")},
    **{f"{kind} in lower case": functools.partial(trained, kind, lowercase=True) for kind in ("unigram", "wordpiece")},
    "byte_bpe in lower case": functools.partial(trained, "byte_bpe", lowercase=True),
    "the published recipe": lambda: put_together("unigram", metaspace("always"), *PUBLISHED),
    "metaspace, fused": lambda: put_together("fused", metaspace(), N.NFKC(), N.Lowercase(), N.NFD(), N.StripAccents()),
    "metaspace, one space": lambda: put_together("unigram", metaspace("always"), N.NFC(), *PUBLISHED, ONE_SPACE),
    "roberta": lambda: put_together("byte_bpe", byte_level(), post_processor=ROBERTA),
    "byte level, composed": lambda: put_together("byte_bpe", byte_level(), N.NFC(), *PUBLISHED, N.Lowercase()),
    "bert uncased": lambda: put_together("wordpiece", pre_tokenizers.BertPreTokenizer(), N.BertNormalizer()),
    "bert as it stands": lambda: put_together(
        "wordpiece",
        pre_tokenizers.BertPreTokenizer(),
        N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
    ),
    "white space": lambda: put_together("wordpiece", pre_tokenizers.Whitespace(), N.NFKD(), N.StripAccents()),
    "white space only": lambda: put_together("wordpiece", pre_tokenizers.WhitespaceSplit(), N.NFKC()),
}


@pytest.fixture(scope="module", params=SHAPES)
def cut(request: pytest.FixtureRequest) -> LoadedTokenizer:
    """A tokenizer that takes a word at a time."""
    return SHAPES[request.param]()


def same(tokenizer: LoadedTokenizer, texts: Sequence[str], encoder: Encoder | None = None) -> None:
    """Encode, and hold it against the tokenizer."""
    ids, lengths = (encoder or Encoder(tokenizer)).encode(texts)
    assert lengths.sum() == len(ids)
    ends = lengths.cumsum().tolist()
    for text, start, end in zip(texts, [0, *ends], ends, strict=False):
        assert ids[start:end].tolist() == tokenizer.rust.encode(text, add_special_tokens=False).ids, repr(text)


def test_words_are_cut_where_the_tokenizer_cuts(cut: LoadedTokenizer) -> None:
    assert word_cutter(cut.rust) is not None
    same(cut, ODD_TEXTS)
    same(cut, [odd_text(random.Random(seed)) for seed in range(1000, 1500)])


def same_as_one(tokenizer: LoadedTokenizer, texts: Sequence[str], encoder: Encoder) -> None:
    """Like :func:`same`, by the batch."""
    expected = [encoding.ids for encoding in tokenizer.rust.encode_batch_fast(texts, add_special_tokens=False)]
    ids, lengths = encoder.encode(texts)
    assert lengths.tolist() == list(map(len, expected))
    assert ids.tolist() == list(itertools.chain.from_iterable(expected))


def test_any_two_oddities_beside_each_other_are_encoded_as_in_running_text(cut: LoadedTokenizer) -> None:
    encoder = Encoder(cut)
    for one in ODD:
        same_as_one(cut, [f"{one}{other}a {one} {other}b{one}{other}" for other in ODD], encoder)


@pytest.mark.slow
def test_any_character_is_encoded_as_in_running_text(cut: LoadedTokenizer) -> None:
    encoder = Encoder(cut)
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]
    for first in range(0, len(codes), 1000):
        marks = map(chr, codes[first : first + 1000])
        same_as_one(cut, [f"{mark}a {mark} b{mark} {mark}{mark}b\n{mark}" for mark in marks], encoder)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from([*ODD, *WORDS, " ", " ", " "]) | st.text(max_size=3)).map("".join)))
def test_any_text_is_encoded_as_the_tokenizer_does(cut: LoadedTokenizer, texts: list[str]) -> None:
    same(cut, texts)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "GPT2"])
def test_the_tokenizers_of_bert_roberta_and_gpt2_take_a_word_at_a_time(family: str, tmp_path: Path) -> None:
    import transformers

    learned = model_of("wordpiece" if family == "Bert" else "byte_bpe").save(str(tmp_path))
    files = sorted(learned, key=lambda path: "merges" in path)
    unknown = {"unk_token": "<unk>"} if family == "Bert" else {}
    theirs = getattr(transformers, f"{family}TokenizerFast")(*files, **unknown)
    theirs.save_pretrained(tmp_path / "saved")
    tokenizer = load(tmp_path / "saved")
    assert word_cutter(tokenizer.rust) is not None
    same(tokenizer, ODD_TEXTS)


UNCUT: dict[str, Callable[[], LoadedTokenizer]] = {
    "no pre-tokenizer": lambda: loaded(Tokenizer(model_of("unigram"))),
    "words joined": lambda: put_together("unigram", pre_tokenizers.Metaspace(split=False)),
    "no space before the first": lambda: put_together("unigram", metaspace("never")),
    "a space before the first": lambda: put_together("byte_bpe", pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "bytes only": lambda: put_together("byte_bpe", pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
    "another expression": lambda: put_together(
        "byte_bpe", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated"), byte_level()])
    ),
    "white space that is stripped": lambda: put_together("unigram", metaspace(), N.Strip()),
    "white space that is made": lambda: put_together("byte_bpe", byte_level(), N.NFKC()),
    "one space of many": lambda: put_together("unigram", metaspace(), N.Replace(Regex(" {2,}"), " ")),
    "spaces replaced": lambda: put_together("wordpiece", pre_tokenizers.Whitespace(), N.Replace(" ", "_")),
    "words replaced by space": lambda: put_together("unigram", metaspace(), N.Replace("``", " "), ONE_SPACE),
    "tokens twice": lambda: put_together(
        "wordpiece",
        pre_tokenizers.Whitespace(),
        post_processor=processors.TemplateProcessing(single="$A $A", special_tokens=[]),
    ),
}


@pytest.mark.parametrize("shape", UNCUT)
def test_a_tokenizer_that_may_look_across_words_gets_whole_documents(shape: str) -> None:
    tokenizer = UNCUT[shape]()
    assert word_cutter(tokenizer.rust) is None
    same(tokenizer, ODD_TEXTS)


def test_words_are_not_cut_where_chance_or_added_tokens_may_differ() -> None:
    tokenizer = put_together("fused", metaspace())
    assert word_cutter(tokenizer.rust) is not None
    tokenizer.rust.encode_special_tokens = False
    assert word_cutter(tokenizer.rust) is None
    tokenizer.rust.encode_special_tokens = True
    tokenizer.rust.add_tokens(["the queue"])
    assert word_cutter(tokenizer.rust) is None
    chance = put_together("fused", metaspace())
    chance.rust.model.dropout = 0.1
    assert word_cutter(chance.rust) is None


class CountingEncoder:
    """Stands before a tokenizer and counts what it is asked."""

    encode_special_tokens = True

    def __init__(self, rust: Any) -> None:
        self.rust = rust
        self.asked: list[str] = []

    def to_str(self) -> str:
        return str(self.rust.to_str())

    def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
        self.asked += texts
        return self.rust.encode_batch_fast(texts, **options)


def test_the_tokenizer_is_asked_once_for_each_word() -> None:
    words = put_together("wordpiece", pre_tokenizers.Whitespace())
    counting = CountingEncoder(words.rust)
    encoder = Encoder(dataclasses.replace(words, rust=counting))
    encoder.encode(["a queue of the queue", "the a"])
    encoder.encode(["a queue of new words"])
    assert counting.asked == ["a", " queue", " of", " the", "the", " a", " new", " words"]


def test_what_is_remembered_is_bounded_and_forgetting_changes_nothing() -> None:
    words = put_together("unigram", metaspace())
    counting = CountingEncoder(words.rust)
    encoder = Encoder(dataclasses.replace(words, rust=counting), memory_bytes=5000)
    for _ in range(3):
        for first in range(0, 200, 10):
            same(words, ODD_TEXTS[first : first + 10], encoder)
    assert len(counting.asked) > 2 * len(set(counting.asked))


def test_text_that_cannot_be_encoded_is_said_and_leaves_the_encoder_as_it_was() -> None:
    rust = Tokenizer(models.WordLevel({"a": 0}))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    encoder = Encoder(loaded(rust))
    for _ in range(2):
        with pytest.raises(ArtefactError, match="somewhere cannot encode this text") as caught:
            encoder.encode(["a b a", "c"])
        assert "unknown token" in str(caught.value.hint)
    assert encoder.encode(["a a", ""]).lengths.tolist() == [2, 0]
    assert encoder.encode([]).lengths.tolist() == []
