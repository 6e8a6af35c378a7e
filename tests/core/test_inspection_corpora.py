"""Statistics of a corpus against a plain count; copies, leaks and broken encodings are found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

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
    assert train["documents"] == 6
    assert train["characters"] == sum(map(len, TRAIN))
    assert train["words"] == sum(len(text.split()) for text in TRAIN)
    assert train["longest_characters"] == 500
    assert train["different_characters"] == len(Counter("".join(TRAIN)))
    assert train["duplicate_share"] == pytest.approx(1 / 6)
    assert train["near_duplicate_share"] == pytest.approx(2 / 6)
    assert sum(train["document_lengths"]["counts"]) == 6
    assert found["splits"]["validation"]["documents"] == 2
    assert found["leaked_documents"] == 1
    assert found["common_characters"][0] == ["x", 500]
    assert said[-1] == 8


def test_copies_and_leaks_are_found() -> None:
    found = messages(inspect_corpus(batches(TRAIN), batches(VALIDATION)))
    assert "16.7 % of the documents are copies" in found
    assert "1 of the training documents are (nearly) in the validation text too" in found


def test_broken_encodings_are_told_from_good_ones() -> None:
    good = ["Ça va, señor? Ærø naïve – “quoted” €5 Ñandú", "Привет, мир", "日本語"]
    assert inspect_corpus([good], [])["splits"]["train"]["broken_encodings"] == 0
    broken = [text.encode().decode("latin-1") for text in good[:2]] + ["it’s".encode().decode("cp1252")]
    found = inspect_corpus([broken], [], counts=lambda: {"undecodable": 4})
    assert found["splits"]["train"]["broken_encodings"] == 3
    assert "3 documents look like UTF-8 that was read as Latin-1" in messages(found)
    assert "4 documents hold bytes that are not UTF-8" in messages(found)


def test_a_clean_corpus_has_no_findings() -> None:
    found = inspect_corpus([[f"document {word}" for word in ("one", "two", "three")]], [["validation"]])
    assert found["findings"] == []
