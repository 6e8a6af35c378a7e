"""Tokenizers: the same file every time, ids where each family wants them, and text that stays text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from tpudeck.errors import ArtefactError, InputError
from tpudeck.presets.schema import FAMILIES
from tpudeck.presets.schema import Tokenizer as Settings
from tpudeck.tokenizer import existing, load
from tpudeck.tokenizer.recipes import UNREACHABLE, broken_up, canonical, minimum_vocabulary, untrained
from tpudeck.tokenizer.stage import save_trained
from tpudeck.tokenizer.survey import Survey, even_sample
from tpudeck.tokenizer.training import Trained, train

KINDS = ("unigram", "bpe", "byte_bpe", "wordpiece")

WORDS = [
    *("the", "of", "and", "queue", "returns", "method", "string", "object", "if", "is"),
    *("not", "an", "error", "raised", "file", "naïve", "Straße", "when", "it", "does"),
]
TEXT = [
    " ".join(WORDS[(a * 7 + b * b) % len(WORDS)] + ("s" if (a + b) % 5 == 0 else "") for b in range(12)) + "."
    for a in range(300)
]


def trained(kind: str, family: str = "roberta", text: list[str] = TEXT, **changes: Any) -> Trained:
    settings = Settings(kind=kind, **{"vocab_size": 320, **changes})
    return train(settings, FAMILIES[family].specials, [text])


def saved(folder: Path, made: Trained, family: str = "roberta") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_trained(made, FAMILIES[family].specials, folder)
    return folder


# Reproducible


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_trainings_in_two_processes_give_the_same_file(kind: str) -> None:
    program = (
        "import hashlib, sys\n"
        "from tpudeck.corpus import open_corpus\n"
        "from tpudeck.presets.schema import FAMILIES, Corpus, Tokenizer\n"
        "from tpudeck.tokenizer.training import train\n"
        "documents = open_corpus(Corpus(max_documents=2500), 'train')\n"
        f"made = train(Tokenizer(kind='{kind}', vocab_size=1500), FAMILIES['roberta'].specials, documents)\n"
        "print(made.vocab_size, hashlib.sha256(made.rust.to_str().encode()).hexdigest())"
    )

    def told() -> str:
        return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    first = told()
    assert first.startswith("1500 ")
    assert told() == first


def test_unigram_scores_that_drift_in_the_last_digits_give_the_same_file() -> None:
    settings, specials = Settings(vocab_size=16), FAMILIES["roberta"].specials

    def file_of(pieces: list[tuple[str, float]]) -> str:
        rust = untrained(settings, specials)
        rust.model = models.Unigram([*((special, 0.0) for special in specials), *pieces], 3, False)
        return str(canonical(rust, settings, specials).to_str())

    one = [("▁a", -2.0), ("b", -3.00000000001), ("c", -3.0), ("d", -9.0), ("e", -8.9999), ("f", -8.9998)]
    two = [("▁a", -2.00000000004), ("c", -3.00000000001), ("b", -3.0), ("f", -9.0), ("d", -8.9999), ("e", -8.9998)]
    assert file_of(one) == file_of(two)
    other = [("▁a", -2.1), *one[1:]]
    assert file_of(one) != file_of(other)


# Ids and special tokens


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_come_first_in_the_order_of_the_family(kind: str, family: str) -> None:
    made = trained(kind, family)
    specials = FAMILIES[family].specials
    assert [made.rust.token_to_id(special) for special in specials] == list(range(len(specials)))
    assert sorted(made.rust.get_vocab().values()) == list(range(made.vocab_size))


def test_the_padding_token_is_where_the_position_code_of_each_family_expects_it(tmp_path: Path) -> None:
    for family, pad_id in {"roberta": 1, "bert": 0, "distilbert": 0, "electra": 0}.items():
        assert load(saved(tmp_path / family, trained("unigram", family), family)).pad_id == pad_id


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["roberta", "bert", "gpt2"])
def test_special_tokens_in_the_text_are_text(kind: str, family: str, tmp_path: Path) -> None:
    tokenizer = load(saved(tmp_path, trained(kind, family), family))
    for special in FAMILIES[family].specials:
        if tokenizer.rust.token_to_id(special) == tokenizer.unk_id:
            continue
        ids = tokenizer.rust.encode(f"the {special} of", add_special_tokens=False).ids
        assert not {*ids} & {*tokenizer.special_ids} - {tokenizer.unk_id}, special


@pytest.mark.parametrize("kind", KINDS)
def test_text_full_of_special_tokens_teaches_no_piece_that_spells_one(kind: str) -> None:
    made = trained(kind, text=[f"the <mask> of <mask><pad> </s> {line}" for line in TEXT])
    assert made.survey.literals["<mask>"] == 2 * len(TEXT)
    ids = made.rust.encode("the <mask> of<mask>", add_special_tokens=False).ids
    assert made.rust.token_to_id("<mask>") not in ids
    vocabulary = made.rust.get_vocab(with_added_tokens=False)
    assert [piece for piece in vocabulary if "<mask>" in piece] == ["<mask>"]


def test_no_spelling_of_a_special_token_loses_to_it_in_a_unigram_model() -> None:
    model = json.loads(trained("unigram").rust.to_str())["model"]
    assert [score for _, score in model["vocab"][:5]] == [UNREACHABLE] * 5
    assert min(score for _, score in model["vocab"][5:]) * len("<|endoftext|>") > UNREACHABLE


@pytest.mark.parametrize(("family", "ends"), [("roberta", ("<s>", "</s>")), ("bert", ("[CLS]", "[SEP]"))])
def test_documents_of_masked_models_are_enclosed(family: str, ends: tuple[str, str]) -> None:
    tokens = trained("unigram", family).rust.encode("the queue").tokens
    assert (tokens[0], tokens[-1]) == ends


def test_prompts_of_causal_models_are_left_open() -> None:
    rust = trained("byte_bpe", "gpt2").rust
    assert rust.encode("the queue").ids == rust.encode("the queue", add_special_tokens=False).ids


def test_no_stray_space_stands_before_a_mask_and_none_after_it() -> None:
    rust = trained("unigram").rust
    rust.encode_special_tokens = False
    tokens = rust.encode("the queue is <mask>.", add_special_tokens=False).tokens
    mask = next(index for index, token in enumerate(tokens) if token.strip() == "<mask>")
    assert not tokens[mask - 1].endswith("▁")
    assert tokens[mask + 1] == "."


# What a trained tokenizer can do


@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_path_gives_the_same_ids(kind: str) -> None:
    rust = trained(kind).rust
    texts = [*TEXT[:50], "", " ", "``the''", "the <mask>", " lead", "\nthe", "日本 the", "\u0301x", "a\u00a0 b", "İI"]
    assert [e.ids for e in rust.encode_batch_fast(texts)] == [rust.encode(text).ids for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_rare_characters_encode_to_the_unknown_token_or_to_bytes(kind: str) -> None:
    rust = trained(kind).rust
    ids = rust.encode("the 𓀀 queue", add_special_tokens=False).ids
    if kind == "byte_bpe":
        assert rust.decode(ids) == "the 𓀀 queue"
    else:
        assert rust.token_to_id("<unk>") in ids


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_white_space_of_any_kind_separates_words(kind: str) -> None:
    rust = trained(kind).rust
    plain = rust.encode("the queue returns").ids
    for text in ("the\nqueue\nreturns", "the  queue\t returns", "the\u00a0queue \r\n returns"):
        assert rust.encode(text).ids == plain


def test_the_published_quotes_become_plain_ones() -> None:
    rust = trained("unigram", text=[*TEXT, 'the "queue" of'] * 2).rust
    assert rust.encode("of ``the'' file").ids == rust.encode('of "the" file').ids


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase_makes_case_meaningless(kind: str) -> None:
    rust = trained(kind, lowercase=True).rust
    assert rust.encode("THE Queue").ids == rust.encode("the queue").ids
    assert trained(kind).rust.encode("THE Queue").ids != rust.encode("the queue").ids


@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_the_corpus_decode_to_their_normalised_text(kind: str) -> None:
    made = trained(kind)
    assert made.round_trips == 200
    assert made.round_trip_failures == 0


def test_words_without_end_reach_the_trainer_in_parts_that_lose_nothing() -> None:
    text = f"short {'x' * 1000} <mask> {'日' * 200}"
    [[seen]] = broken_up([[text]], ["<mask>"])
    assert max(map(len, seen.split())) == 200
    assert seen.replace(" ", "") == text.replace(" ", "")
    assert "< mask>" in seen


# How large a vocabulary can be


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_vocabulary_said_beforehand_is_the_smallest_that_works(kind: str) -> None:
    minimum = trained(kind).minimum
    if kind == "byte_bpe":
        assert minimum == 256 + 5
    assert trained(kind, vocab_size=minimum).vocab_size == minimum
    assert trained(kind, vocab_size=minimum + 1).vocab_size == minimum + 1
    with pytest.raises(
        InputError, match=f"a vocabulary of {minimum - 1} cannot be: this text needs at least {minimum}"
    ):
        trained(kind, vocab_size=minimum - 1)


def test_the_minimum_is_said_before_the_trainer_sees_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpudeck.tokenizer.recipes.trainer", lambda *_: pytest.fail("training began"))
    with pytest.raises(InputError, match="cannot be"):
        trained("unigram", vocab_size=20)


def test_a_vocabulary_the_text_cannot_fill_is_smaller_than_asked_for() -> None:
    for kind in KINDS:
        assert 0 < trained(kind, vocab_size=50_000).vocab_size < 50_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", [["a"], ["日本語の文章です。" * 3], ["😀😀 👩‍👩‍👧‍👧"], ["<mask>"], ["x" * 3000], ["``''"]]
)
def test_strange_texts_are_trained_on_all_the_same(kind: str, text: list[str]) -> None:
    made = trained(kind, text=text, vocab_size=400)
    assert made.vocab_size >= made.minimum
    assert made.round_trips == 1


def test_word_pieces_count_the_inner_characters_that_the_pre_tokeniser_sees() -> None:
    specials = FAMILIES["bert"].specials
    survey = Survey(specials, untrained(Settings(kind="wordpiece"), specials).normalizer, pairs_wanted=True)
    survey.add(["ab,c d日本e", "f"])
    assert survey.inner_characters() == ["b"]
    spelling = set("".join(specials)) - {"a", "b", "c", "d", "e", "f"}
    assert minimum_vocabulary("wordpiece", survey) == 5 + len({*"abcdef,日本"} | spelling) + 1


# Samples


def test_a_sample_is_about_as_large_as_asked_for_and_from_all_over_the_text() -> None:
    documents = [f"document number {number:05}" for number in range(10_000)]
    sample = [document for batch in even_sample([documents], 21 * 500) for document in batch]
    assert 500 <= len(sample) <= 501
    assert sample == sorted(sample)
    quarters = [sum(int(document[-5:]) // 2500 == quarter for document in sample) for quarter in range(4)]
    assert min(quarters) > 80


def test_a_sample_of_a_smaller_text_is_the_text() -> None:
    assert [*even_sample([["b", "a"], ["c"]], 1000)] == [["b", "a", "c"]]


def test_a_sample_is_the_same_however_the_text_is_batched() -> None:
    documents = [f"document {number}" for number in range(300)]
    whole = [d for batch in even_sample([documents], 500) for d in batch]
    parts = [d for batch in even_sample([documents[:7], documents[7:]], 500) for d in batch]
    assert whole == parts


# Files


@pytest.mark.parametrize(("kind", "family"), [(k, f) for k in KINDS for f in ("roberta", "bert", "gpt2")])
def test_transformers_and_tokenizers_read_the_same_ids(kind: str, family: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    loaded = load(saved(tmp_path / "made", trained(kind, family), family))
    (tmp_path / "model").mkdir()
    loaded.save(tmp_path / "model", model_max_length=77)
    auto = AutoTokenizer.from_pretrained(tmp_path / "model")
    bare = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    texts = ["the queue returns an error.", "naïve 𓀀\n''quoted``", *FAMILIES[family].specials, "the <mask> [MASK] of"]
    for text in texts:
        assert auto(text)["input_ids"] == bare.encode(text).ids
    assert auto.model_max_length == 77
    assert len(auto) == loaded.vocab_size
    assert (auto.pad_token_id, auto.mask_token_id, auto.unk_token_id) == (loaded.pad_id, loaded.mask_id, loaded.unk_id)
    assert auto.eos_token_id == loaded.eos_id
    if family != "gpt2":
        assert (auto.cls_token_id, auto.sep_token_id) == (loaded.bos_id, loaded.eos_id)
    assert "token_type_ids" not in auto("the")


def test_loading_sets_what_the_file_does_not_hold(tmp_path: Path) -> None:
    made = trained("bpe")
    made.rust.enable_truncation(4)
    made.rust.enable_padding(length=64)
    tokenizer = load(saved(tmp_path, made))
    assert tokenizer.rust.encode_special_tokens
    assert len(tokenizer.rust.encode(TEXT[0]).ids) not in (4, 64)


def test_the_vocabulary_size_is_the_largest_id_plus_one(tmp_path: Path) -> None:
    rust = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "far": 100, "<unk>": 2}, unk_token="<unk>"))
    rust.add_special_tokens(["<s>", "</s>", "<unk>"])
    rust.save(str(tmp_path / "tokenizer.json"))
    assert load(tmp_path).vocab_size == 101


def test_a_lone_tokenizer_file_is_understood_by_the_names_of_its_special_tokens(tmp_path: Path) -> None:
    saved(tmp_path, trained("wordpiece", "bert"), "bert")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / name).unlink()
    for where in (tmp_path, tmp_path / "tokenizer.json"):
        tokenizer = load(where)
        assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id) == (
            0,
            1,
            2,
            3,
            4,
        )


def test_a_folder_without_a_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"holds no tokenizer\.json"):
        load(tmp_path)


def test_a_damaged_file_and_one_of_a_newer_library_are_told_apart(tmp_path: Path) -> None:
    saved(tmp_path, trained("unigram"))
    path = tmp_path / "tokenizer.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(ArtefactError, match=r"tokenizer\.json is damaged"):
        load(tmp_path)
    data = json.loads(text)
    data["model"]["type"] = "HyperPiece"
    path.write_text(json.dumps(data))
    (tmp_path / "manifest.json").write_text(json.dumps({"versions": {"tokenizers": "9.9.9"}}))
    with pytest.raises(
        ArtefactError, match=r"written by tokenizers 9\.9\.9.* is not understood by tokenizers 0\."
    ) as caught:
        load(tmp_path)
    assert "a newer version wrote it" in caught.value.hint


# Existing tokenizers


def existing_unigram(folder: Path) -> Path:
    """As another program would save it: special tokens with the best score, nothing around documents."""
    specials = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    letters = sorted(set("<>/abcdefghijklmnopqrstuvwxyz▁"))
    rust = Tokenizer(models.Unigram([*((s, 0.0) for s in specials), *((c, -3.0) for c in letters)], 3, False))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    rust.add_special_tokens(specials)
    folder.mkdir()
    rust.save(str(folder / "tokenizer.json"))
    return folder


def test_an_existing_tokenizer_is_made_to_mark_documents_and_to_leave_text_alone(tmp_path: Path) -> None:
    adopted = existing.adopt(existing_unigram(tmp_path / "theirs"), "masked", name="theirs")
    (tmp_path / "ours").mkdir()
    adopted.write(tmp_path / "ours")
    tokenizer = load(tmp_path / "ours")
    ids = tokenizer.rust.encode("a <mask>").ids
    assert (ids[0], ids[-1]) == (tokenizer.bos_id, tokenizer.eos_id)
    assert tokenizer.mask_id not in ids
    assert adopted.warnings == ["theirs marks no ends of documents by itself; this copy does"]


def test_an_existing_tokenizer_that_already_fits_keeps_its_ids(tmp_path: Path) -> None:
    theirs = saved(tmp_path / "theirs", trained("byte_bpe"))
    adopted = existing.adopt(theirs, "masked", name="theirs")
    (tmp_path / "ours").mkdir()
    adopted.write(tmp_path / "ours")
    for text in TEXT[:20]:
        assert load(tmp_path / "ours").rust.encode(text).ids == load(theirs).rust.encode(text).ids
    assert adopted.warnings == []


def test_a_tokenizer_without_a_mask_cannot_serve_a_masked_model(tmp_path: Path) -> None:
    theirs = saved(tmp_path, trained("byte_bpe", "gpt2"), "gpt2")
    with pytest.raises(ArtefactError, match="has no mask token"):
        existing.adopt(theirs, "masked", name="theirs")
    assert existing.adopt(theirs, "causal", name="theirs").vocab_size == 320


def test_a_tokenizer_that_names_no_end_is_refused(tmp_path: Path) -> None:
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ArtefactError, match="names no token that begins or ends a document"):
        load(tmp_path)


def test_names_in_the_configuration_win_over_the_usual_ones(tmp_path: Path) -> None:
    rust = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "[GO]": 2, "[END]": 3, "x": 4}, unk_token="x"))
    rust.add_special_tokens(["<s>", "</s>", "[GO]", "[END]"])
    rust.post_processor = processors.TemplateProcessing(
        single="[GO] $A [END]", special_tokens=[("[GO]", 2), ("[END]", 3)]
    )
    rust.save(str(tmp_path / "tokenizer.json"))
    config = {"bos_token": {"content": "[GO]", "lstrip": False}, "eos_token": "[END]"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (2, 3, 3)


def test_loading_a_tokenizer_imports_neither_transformers_nor_tensorflow(tmp_path: Path) -> None:
    saved(tmp_path, trained("bpe"))
    program = (
        "import sys; from tpudeck.tokenizer import load; load(sys.argv[1]);"
        "print([name for name in ('transformers', 'tensorflow', 'datasets', 'torch') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ})
    assert said.stdout.strip() == "[]"
