"""Philox against the vectors its authors published, and against a scalar version in plain integers."""

from __future__ import annotations

import numpy as np
import pytest

from tpudeck.philox import Purpose, philox, scale

# The known answers for philox4x32 with 10 rounds in the authors' Random123 library: counter, key, result.
ONES = 0xFFFFFFFF
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_the_published_vectors_come_out(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    assert tuple(map(int, philox(counter, key[0] | key[1] << 32))) == expected


def test_an_array_of_counters_gives_what_each_counter_gives_alone() -> None:
    rows, blocks = np.arange(5)[:, None], np.arange(7)
    together = np.stack(philox((blocks, rows, 3, 4), 99), axis=-1)
    for row in range(5):
        for block in range(7):
            assert tuple(together[row, block]) == tuple(philox((block, row, 3, 4), 99))


def test_scaled_words_stay_below_the_limit_and_are_spread_evenly() -> None:
    words = philox((np.arange(70_000), 0, 0, 0), 1)[0]
    counts = np.bincount(scale(words, 7).astype(int), minlength=7)
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 400  # four standard deviations


def test_purposes_never_share_a_counter() -> None:
    assert len({purpose.word(number) for purpose in Purpose for number in (0, 1, 2**24 - 1)}) == 3 * len(Purpose)
    with pytest.raises(ValueError, match="2\\^24"):
        Purpose.SHUFFLE.word(2**24)
