from __future__ import annotations

import itertools

import pytest

from tpudeck.training.learning_rate import learning_rate


def rates(schedule: str, *, warmup: int = 4, total: int = 12) -> list[float]:
    return [
        learning_rate(step, peak=1.0, warmup_steps=warmup, total_steps=total, schedule=schedule)  # type: ignore[arg-type]
        for step in range(total)
    ]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_it_rises_to_the_peak_and_falls_to_almost_nothing(schedule: str) -> None:
    values = rates(schedule)
    assert values[:4] == [0.25, 0.5, 0.75, 1.0]
    assert values[4] == 1.0
    assert all(before > after for before, after in itertools.pairwise(values[4:]))
    assert 0 < values[-1] <= 1 / 8


def test_linear_falls_evenly_and_cosine_is_at_half_in_the_middle() -> None:
    assert rates("linear")[4:] == pytest.approx([1 - index / 8 for index in range(8)])
    assert rates("cosine")[8] == pytest.approx(0.5)


def test_without_warmup_the_first_step_has_the_peak() -> None:
    assert rates("linear", warmup=0)[0] == 1.0


def test_a_run_that_only_warms_up_is_possible() -> None:
    assert rates("linear", warmup=12)[-1] == 1.0
