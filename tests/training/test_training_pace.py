"""How many steps a call does: about a second's worth, whatever the device."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tinyruns import TinyRuns, events, tiny_experiment, train
from tpudeck.training import pace as paces
from tpudeck.training.pace import CALL_S, Pace


def pace(step_s: float, *, due_every: tuple[int | None, ...] = (), fixed: int | None = None) -> Pace:
    return Pace(step_s=step_s, total_steps=100_000, due_every=due_every, fixed=fixed)


def calls(step_s: float, *, first_guess_s: float, late: bool) -> list[float]:
    """How long each of thirty calls takes on a device, where the program waits for this call or for the one before."""
    paced, step, before, lasted = pace(first_guess_s), 0, 0, []
    for _ in range(30):
        count = paced.steps_from(step)
        ready = before if late else count
        if ready:
            paced.took(ready, ready * step_s)
        lasted.append(count * step_s)
        step, before = step + count, count
    return lasted


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("step_s", [0.0007, 0.013, 0.4])
def test_a_call_lasts_about_a_second_on_a_device_that_works_on_its_own_too(step_s: float, late: bool) -> None:
    lasted = calls(step_s, first_guess_s=step_s * 1.3, late=late)
    assert max(lasted) <= CALL_S + step_s
    assert min(lasted[-10:]) >= CALL_S - step_s


def test_a_device_slower_than_it_seemed_gets_short_calls_at_once() -> None:
    lasted = calls(0.1, first_guess_s=0.01, late=False)
    assert lasted[0] == pytest.approx(10) and max(lasted[1:]) <= 1.1


def test_a_step_longer_than_a_second_is_a_call_of_its_own() -> None:
    assert pace(60.0).steps_from(5) == 1


def test_a_call_ends_where_something_is_due_and_at_the_end_of_the_run() -> None:
    paced = pace(0.001, due_every=(50, 0, None, 70))
    assert [paced.steps_from(step) for step in (0, 50, 69, 70, 99_990)] == [50, 20, 1, 30, 10]


def test_a_fixed_number_of_steps_is_kept() -> None:
    assert pace(0.001, fixed=7).steps_from(0) == 7


@pytest.mark.training
def test_a_slow_device_is_asked_for_a_checkpoint_and_gives_it_within_two_calls(
    tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of steps that take 20 ms, a call of a fifth of a second does ten at most, whatever it does first."""
    from tpudeck.training.loop import StepLoop

    plain, counts = StepLoop.__call__, []
    folder = tiny_runs.run(tiny_experiment(train={"steps": 200, "log_every": 0}))

    def slow(loop: StepLoop, batches: Any, first_step: int, rates: Any) -> Any:
        counts.append(len(rates))
        time.sleep(0.02 * len(rates))
        if first_step >= 50 and not events(folder, "checkpoint_saved"):
            (folder / "requests" / "checkpoint.json").write_text("{}")
        return plain(loop, batches, first_step, rates)

    monkeypatch.setattr(StepLoop, "__call__", slow)
    monkeypatch.setattr(paces, "CALL_S", 0.2)
    train(folder)
    assert max(counts) <= 10 < len(counts)
    assert events(folder, "checkpoint_saved")[0]["step"] <= 50 + 2 * 10
