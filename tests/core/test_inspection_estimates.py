"""Intervals hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from tpudeck.inspection.estimates import Ratio, wilson


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_wilsons_interval_holds_in_95_percent(share: float) -> None:
    rng = np.random.default_rng(0)
    population, size = np.arange(5000) < 5000 * share, 500
    inside = 0
    for _ in range(400):
        hits = int(rng.choice(population, size, replace=False).sum())
        low, high = wilson(hits, size, size / len(population))
        inside += low <= population.mean() <= high
    assert inside >= 0.9 * 400


def test_what_is_known_whole_has_no_width() -> None:
    assert wilson(3, 10, sampled=1.0) == (0.3, 0.3)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_ratio_is_as_far_off_as_it_says_in_95_percent() -> None:
    rng = np.random.default_rng(1)
    below = rng.integers(1, 200, 4000)
    above = rng.binomial(below, rng.beta(0.5, 5, 4000))  # tokens of a document go together
    true = above.sum() / below.sum()
    inside = 0
    for _ in range(300):
        drawn = rng.choice(4000, 400, replace=False)
        ratio, half = Ratio(), Ratio()
        ratio.add(above[drawn[:100]], below[drawn[:100]])
        half.add(above[drawn[100:]], below[drawn[100:]])
        ratio.merge(half)
        inside += abs(ratio.value - true) <= ratio.error(0.1)
    assert inside >= 0.9 * 300
    assert ratio.error(1.0) == 0
