"""Statistics of a corpus against a plain count; copies, leaks and broken encodings are found."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tpudeck.corpus.builtin import documents as builtin_documents
from tpudeck.inspection.corpora import inspect_corpus

TRAIN = [
    "The first document.",
    "A second one!",
    "The first document.",
    "the FIRST document",
    "Nothing alike",
    "x" * 500,
]
VALIDATION = ["something else", "a second one?"]


def batches(documents: list[str], size: int = 2) -> list[list[str]]:
    return [documents[first : first + size] for first in range(0, len(documents), size)]


def messages(found: dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in found["findings"])


def test_every_number_is_what_a_plain_count_gives() -> None:
    said: list[int] = []
    found = inspect_corpus(batches(TRAIN), batches(VALIDATION), on_documents=said.append)
    train = found["splits"]["train"]
    assert train["documents"] == train["sampled_documents"] == 6
    assert train["characters"] == train["sampled_characters"] == sum(map(len, TRAIN))
    assert train["words"] == sum(len(text.split()) for text in TRAIN)
    assert train["longest_characters"] == 500
    assert train["short_documents"] == 5
    assert train["different_characters"] == len(Counter("".join(TRAIN)))
    assert train["duplicate_share"] == pytest.approx(1 / 6)
    assert train["near_duplicate_share"] == pytest.approx(2 / 6)
    assert sum(train["document_lengths"]["counts"]) == 6
    assert found["splits"]["validation"]["documents"] == 2
    assert (found["leak"]["training_documents"], found["leak"]["validation_documents"]) == (1, 1)
    assert found["leak"]["examples"] == ["A second one!"]
    assert found["common_characters"][0] == ["x", 500]
    assert said[-1] == 8


def test_several_processes_give_the_numbers_of_one() -> None:
    alone = inspect_corpus(batches(TRAIN), batches(VALIDATION))
    assert inspect_corpus(batches(TRAIN), batches(VALIDATION), workers=2) == alone


def test_copies_and_leaks_are_found() -> None:
    found = messages(inspect_corpus(batches(TRAIN), batches(VALIDATION)))
    assert "16.7 % of the documents are copies" in found
    assert "16.7 % more of the documents nearly repeat another" in found
    assert "1 of 2 validation documents (50.0 %) are, nearly or exactly, in the training text too" in found


def test_a_sample_says_how_much_it_is_and_how_far_off() -> None:
    rng = random.Random(0)
    texts = [text for text in builtin_documents()[:4000] if text.isascii()]
    texts = [text + " Ã©" if rng.random() < 0.1 else text for text in texts]
    whole = inspect_corpus(batches(texts, 100), batches(texts[:50]))
    sample = inspect_corpus(batches(texts, 100), batches(texts[:50]), share=0.25)
    about, exact = sample["splits"]["train"], whole["splits"]["train"]
    assert (about["documents"], about["characters"]) == (exact["documents"], exact["characters"])
    assert about["duplicate_share"] == exact["duplicate_share"]
    assert 0.2 < about["sampled_documents"] / about["documents"] < 0.3
    low, high = about["broken_share_interval"]
    assert low <= exact["broken_share"] <= high
    assert 0 < high - low < 0.06
    assert exact["broken_share_interval"][0] == exact["broken_share_interval"][1] == exact["broken_share"]
    assert not about["near_duplicates_exact"]
    assert not sample["leak"]["exact"]
    assert sample["leak"]["validation_documents"] < whole["leak"]["validation_documents"] == 50


def test_broken_encodings_are_told_from_good_ones() -> None:
    good = ["Ça va, señor? Ærø naïve – “quoted” €5 Ñandú", "Привет, мир", "日本語"]
    assert inspect_corpus([good], [])["splits"]["train"]["broken_encodings"] == 0
    broken = [text.encode().decode("latin-1") for text in good[:2]] + ["it’s".encode().decode("cp1252")]
    found = inspect_corpus([broken], [], counts=lambda: {"undecodable": 4})
    assert found["splits"]["train"]["broken_encodings"] == 3
    assert "3 documents (100.0 %) look like UTF-8 that was read as Latin-1" in messages(found)
    assert "4 documents hold bytes that are not UTF-8" in messages(found)


def test_a_text_of_short_lines_is_found() -> None:
    lines = [f"= {word} =" for text in builtin_documents()[:200] for word in text.split()[:2]]
    found = inspect_corpus([lines], [])
    assert "of the documents have fewer than 20 characters" in messages(found)


def test_a_clean_corpus_has_no_findings() -> None:
    found = inspect_corpus([[f"document {word}" for word in ("one", "two", "three")]], [["validation"]])
    assert found["findings"] == []
