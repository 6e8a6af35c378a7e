"""A run builds each of its programs once, says so, and raises an alert where one is built again."""

from __future__ import annotations

import itertools

import pytest

from tinyruns import TinyRuns, events, tiny_experiment, train

pytestmark = pytest.mark.training

SETTINGS = {"steps": 12, "eval_every": 4, "steps_per_call": 3}


def test_each_program_is_compiled_once_whatever_the_number_of_steps_in_a_call(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train=SETTINGS))
    train(folder)
    compiled = [(line["program"], line["count"]) for line in events(folder, "compiled")]
    assert compiled == [("training", 1), ("evaluation", 1)]
    assert not events(folder, "alert_raised")


def test_compiling_is_a_phase_before_the_first_step_and_has_time_for_it(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train=SETTINGS))
    train(folder)
    phases = {line["phase"]: line["promise_s"] for line in reversed(events(folder, "phase_changed"))}
    order = [line["phase"] for line in events(folder, "phase_changed")]
    assert order.index("compiling") < order.index("training")
    assert phases["evaluating"] == phases["compiling"] > phases["training"], "the first evaluation is compiled too"


def test_a_program_that_is_compiled_again_is_an_alert(tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from tpudeck.training.loop import StepLoop

    counts = itertools.chain([1, 1, 2], itertools.repeat(2))
    monkeypatch.setattr(StepLoop, "compilations", property(lambda loop: next(counts)))
    folder = tiny_runs.run(tiny_experiment(train=SETTINGS))
    train(folder)
    (alert,) = events(folder, "alert_raised")
    assert alert["alert"] == "recompile" and "training program was compiled again, 2 times" in alert["message"]
