"""Near copies against the Jaccard index of every pair, computed by plain Python."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest

from tpudeck.corpus.builtin import documents as builtin_documents
from tpudeck.inspection.near import NearCopies, SketchIndex, sketch


def shingles(text: str) -> set[tuple[str, ...]]:
    """By the definition: five-word windows of the letters of a document."""
    words = re.sub(r"[\W\d_]+", " ", text.casefold()).split()
    return {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))}


def jaccard(left: str, right: str) -> float:
    one, other = shingles(left), shingles(right)
    return len(one & other) / len(one | other)


def edited(text: str, rng: random.Random, edits: int) -> str:
    words = text.split()
    for _ in range(edits):
        words[rng.randrange(len(words))] = f"edit{rng.choice('abcdefgh')}"
    return " ".join(words)


def repeats(texts: list[str]) -> int:
    found = NearCopies()
    for first in range(0, len(texts), 7):
        found.add(sketch(texts[first : first + 7]))
    return found.repeats()


@pytest.fixture(scope="module")
def originals() -> list[str]:
    return [text for text in builtin_documents() if len(text.split()) > 60][:150]


def test_sketches_agree_as_often_as_the_jaccard_index_says(originals: list[str]) -> None:
    rng = random.Random(0)
    errors = []
    for text in originals:
        other = edited(text, rng, rng.randrange(8))
        values_DK = sketch([text, other]).values_DK
        errors.append(float((values_DK[0] == values_DK[1]).mean()) - jaccard(text, other))
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 0.06


def test_pairs_far_from_the_threshold_are_judged_as_a_plain_comparison_does(originals: list[str]) -> None:
    rng = random.Random(1)
    texts = [version for text in originals for version in (text, edited(text, rng, rng.choice([0, 1, 10, 20])))]
    sure = unsure = 0
    for at, text in enumerate(texts):
        best = max((jaccard(text, earlier) for earlier in texts[:at]), default=0.0)
        sure += best >= 0.92
        unsure += 0.65 < best < 0.92
    assert sure > 20
    assert sure <= repeats(texts) <= sure + unsure


def test_case_digits_punctuation_and_spacing_make_no_difference() -> None:
    assert repeats(["The first document, of 2 parts.", "THE first  document of 17 parts!"]) == 1
    assert repeats(["12 + 30", "99 + 1"]) == 0  # without letters a text stands for itself
    assert repeats(["12 + 30", "12 + 30"]) == 1
    assert repeats(["one two", "one", "two one", ""]) == 0


def test_scripts_without_spaces_are_compared_by_character() -> None:
    text = "日本語の文章は単語の間に空白を置かないので文字ごとに比べる必要がある"
    assert repeats([text, text + "。"]) == 1
    assert repeats([text, text[:17] + "全く別の内容がここに書いてある場合"]) == 0


def test_where_documents_are_cut_into_batches_makes_no_difference(originals: list[str]) -> None:
    whole = sketch(originals)
    parts = [sketch(originals[:31]), sketch(originals[31:])]
    assert (whole.values_DK == np.concatenate([part.values_DK for part in parts])).all()
    assert (whole.least_D == np.concatenate([part.least_D for part in parts])).all()


def test_memory_is_bounded_and_pairs_survive_together(originals: list[str]) -> None:
    rng = random.Random(2)
    texts = [f"{text} {number}{word}" for text in originals for number, word in enumerate(("alpha", "beta", "gamma"))]
    texts += [edited(text, rng, 1) for text in texts]
    whole, bounded = NearCopies(), NearCopies(most_kept=200)
    for first in range(0, len(texts), 50):
        part = sketch(texts[first : first + 50])
        whole.add(part)
        bounded.add(part)
    assert whole.exact
    assert not bounded.exact
    assert 20 < bounded.kept <= 200
    share = whole.repeats() / whole.kept
    assert 0.75 * share < bounded.repeats() / bounded.kept <= 1


def test_documents_are_found_among_others(originals: list[str]) -> None:
    rng = random.Random(3)
    known = originals[:100]
    index = SketchIndex(sketch(known).values_DK)
    asked = [edited(known[3], rng, 1), originals[120], known[50].upper(), originals[130]]
    assert [bool(hit) for hit in index.look_up(sketch(asked))] == [
        max(map(jaccard, itertools.repeat(text), known)) > 0.8 for text in asked
    ]
    assert np.flatnonzero(index.met).tolist() == [3, 50]
    assert not SketchIndex(sketch([]).values_DK).look_up(sketch(asked)).any()
