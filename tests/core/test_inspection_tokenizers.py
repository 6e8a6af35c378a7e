"""Statistics of tokenizers against a plain count, one document at a time; and comparing two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from shardsets import SPECIALS, WORDS, some_documents, tokenizer
from tpudeck.inspection.pieces import Reader, compare, pieces, stretches
from tpudeck.inspection.tokenizers import inspect_tokenizer
from tpudeck.tokenizer import LoadedTokenizer, load

DOCUMENTS = [document for document in some_documents(300) if document]


def batches(documents: list[str], size: int = 50) -> list[list[str]]:
    return [documents[first : first + size] for first in range(0, len(documents), size)]


def trained(folder: Path, *, lowercase: bool = False, vocab_size: int = 60) -> LoadedTokenizer:
    """A small byte-level BPE."""
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    if lowercase:
        rust.normalizer = normalizers.Lowercase()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    rust.train_from_iterator(["the cat and the dog and the bird", "the band and the sand"] * 5, trainer)
    folder.mkdir()
    rust.save(str(folder / "tokenizer.json"))
    return load(folder)


def messages(found: dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in found["findings"])


def test_every_number_is_what_a_plain_count_gives(tmp_path: Path) -> None:
    words = tokenizer(tmp_path / "t")
    found = inspect_tokenizer(words, batches(DOCUMENTS), requested_vocab_size=80)
    tokens = [word if word in WORDS else "<unk>" for document in DOCUMENTS for word in document.split()]
    counts = Counter(tokens)
    assert found["documents"] == len(DOCUMENTS)
    assert found["tokens"] == found["words"] == len(tokens)
    assert found["characters"] == sum(map(len, DOCUMENTS))
    assert found["characters_per_token"] == pytest.approx(sum(map(len, DOCUMENTS)) / len(tokens))
    assert found["tokens_per_word"] == 1.0
    assert found["unknown_share"] == pytest.approx(counts["<unk>"] / len(tokens))
    assert found["round_trip_failures"] == sum("unheard-of" in document for document in DOCUMENTS)
    assert found["coverage"][0] == (1, pytest.approx(max(counts.values()) / len(tokens)))
    assert found["never_used"] == len(set(WORDS) - set(counts))
    assert [entry["count"] for entry in found["rarest_tokens"]] == sorted(counts[word] for word in WORDS)[:20]
    lengths = {entry["characters"]: (entry["vocabulary"], entry["text"]) for entry in found["token_lengths"]}
    assert lengths == {
        2: (10, sum(count for word, count in counts.items() if len(word) == 2)),
        3: (50, sum(count for word, count in counts.items() if len(word) == 3)),
    }
    assert found["special_tokens"] == {special: id_ for id_, special in enumerate(SPECIALS)}
    assert (found["model"], found["pre_tokenizer"]) == ("WordLevel", ["WhitespaceSplit"])
    assert "65 tokens of 80 asked for" in messages(found)
    assert "are the unknown token" in messages(found)


def test_a_sample_says_how_far_its_ratios_may_be_off(tmp_path: Path) -> None:
    words = tokenizer(tmp_path / "t")
    text = some_documents(4000, seed=3)
    whole = inspect_tokenizer(words, batches(text))
    assert whole["characters_per_token_error"] == 0
    inside = 0
    for seed in range(40):
        sample = np.random.default_rng(seed).choice(len(text), 200, replace=False)
        found = inspect_tokenizer(words, [[text[index] for index in sample]], share=0.05)
        off = abs(found["characters_per_token"] - whole["characters_per_token"])
        inside += off <= found["characters_per_token_error"]
        assert found["characters_per_token_error"] < 0.05  # of about 3.1
    assert inside >= 34  # 95 % of 40 is 38


def test_nothing_met_in_a_sample_is_no_proof_that_there_is_nothing(tmp_path: Path) -> None:
    known = [text for text in DOCUMENTS if "unheard-of" not in text]
    found = inspect_tokenizer(tokenizer(tmp_path / "t"), [known], share=0.01)
    assert found["unknown_share"] == 0 < found["unknown_share_error"] < 0.2
    assert found["round_trip_failure_share_interval"][0] == 0 < found["round_trip_failure_share_interval"][1]
    assert inspect_tokenizer(tokenizer(tmp_path / "t"), [known])["unknown_share_error"] == 0


def test_what_became_unknown_is_told(tmp_path: Path) -> None:
    found = inspect_tokenizer(tokenizer(tmp_path / "t"), [["w1 zebra w2", "zebra lion"]])
    assert found["unknown_characters"] == [("zebra", 2), ("lion", 1)]
    assert "the unknown token: zebra, lion" in messages(found)


def test_special_tokens_in_the_text_are_counted(tmp_path: Path) -> None:
    found = inspect_tokenizer(tokenizer(tmp_path / "t"), [["w1 <mask> w2 <mask>", "<pad>"]])
    assert found["literal_specials"] == {"<mask>": 2, "<pad>": 1}
    assert "spells <mask> 2 times" in messages(found)


def test_pieces_are_what_ids_stand_for(tmp_path: Path) -> None:
    bpe = trained(tmp_path / "t", vocab_size=280)
    found = pieces(bpe)
    assert found[bpe.rust.token_to_id("Ġand")] == "and"
    assert len(found) == bpe.vocab_size


def test_bytes_and_spaces_of_tokens_can_be_read(tmp_path: Path) -> None:
    bpe = trained(tmp_path / "t", vocab_size=280)
    read = Reader(bpe)
    encoding = bpe.rust.encode("the cat\n\té日")
    assert [read(id_) for id_ in encoding.ids] == [
        "the", "␣cat", "⏎", "→", "⟨C3⟩", "⟨A9⟩", "⟨E6⟩", "⟨97⟩", "⟨A5⟩"
    ]  # fmt: skip
    assert read(10**6) == "⟨1000000⟩"
    assert read(SPECIALS.index("<mask>")) == "<mask>"
    assert read.in_text(bpe.rust.token_to_id("the")) == "the"


def test_tokens_of_a_vocabulary_without_spaces_are_told_apart_in_text(tmp_path: Path) -> None:
    read = Reader(tokenizer(tmp_path / "t", ["un", "##known", "w1"]))
    assert [read.in_text(id_) for id_ in range(4, 8)] == ["<mask>", "␣un", "known", "␣w1"]


@pytest.mark.parametrize("text", ["the zoo band é", "", "   ", "日本語 the", "the"])
def test_stretches_cover_every_token_of_both_once(tmp_path: Path, text: str) -> None:
    large, small = trained(tmp_path / "large", vocab_size=280), trained(tmp_path / "small", vocab_size=261)
    left, right = (loaded.rust.encode(text, add_special_tokens=False) for loaded in (large, small))
    found = list(stretches(left, right))
    assert [place for stretch in found for place in stretch.left] == list(range(len(left.ids)))
    assert [place for stretch in found for place in stretch.right] == list(range(len(right.ids)))
    assert [stretch.start for stretch in found[1:]] == [stretch.end for stretch in found[:-1]]


def test_a_normaliser_is_no_round_trip_failure_and_bytes_are_single_characters(tmp_path: Path) -> None:
    bpe = trained(tmp_path / "t", lowercase=True)
    found = inspect_tokenizer(bpe, [["The CAT", "zebra"]])
    assert found["round_trip_failures"] == 0
    assert found["normalizer"] == ["Lowercase"]
    assert found["single_character_share"] > 0.5
    assert "single characters" in messages(found)


def test_ids_without_a_token_are_found(tmp_path: Path) -> None:
    rust = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "<unk>": 2, "w": 9}, unk_token="<unk>"))
    rust.add_special_tokens(["<s>", "</s>", "<unk>"])
    (tmp_path / "t").mkdir()
    rust.save(str(tmp_path / "t" / "tokenizer.json"))
    found = inspect_tokenizer(load(tmp_path / "t"), [["w"]])
    assert found["unused_ids"] == 6
    assert found["first_unused_ids"] == [3, 4, 5, 6, 7, 8]


def test_two_tokenizers_are_compared_where_they_cut_differently(tmp_path: Path) -> None:
    large, small = trained(tmp_path / "large", vocab_size=280), trained(tmp_path / "small", vocab_size=261)
    found = compare(large, small, "the zoo band")
    assert [difference["text"] for difference in found["differences"]] == ["the", " band"]
    assert found["differences"][0]["left"] == ["the"]
    assert "".join(found["differences"][0]["right"]) == "the"
    assert compare(large, large, "the zoo band é")["differences"] == []
