"""The newest numbers of a run."""

from __future__ import annotations

from tpudeck.runs.events import AttemptStarted, Evaluated
from tpudeck.runs.latest import Latest


def test_the_last_evaluation_stands_whatever_progress_says_before_or_after_it() -> None:
    latest = Latest()
    latest.see_event(Evaluated(step=5, eval_loss=4.0, perplexity=54.6, accuracy=0.2, baseline_loss=6.0, targets=10))
    latest.see_progress({"task": "train", "done": 5, "total": 5, "step": 5, "eval_loss": 5.0})
    assert latest.eval_loss == 4.0


def test_a_resumed_run_has_no_speed_yet_and_no_loss_of_steps_it_does_again() -> None:
    latest = Latest()
    latest.see_event(AttemptStarted(resume_from_step=0))
    assert latest.step is None
    latest.see_metrics({"step": 750, "loss": 4.5, "tokens_per_s": 100.0, "step_s": 0.1})
    latest.see_event(AttemptStarted(resume_from_step=750))
    assert (latest.step, latest.loss, latest.tokens_per_s, latest.remaining_s) == (750, 4.5, None, None)
    latest.see_metrics({"step": 800, "loss": 4.4, "tokens_per_s": 90.0, "step_s": 0.1})
    latest.see_event(AttemptStarted(resume_from_step=750))
    assert (latest.step, latest.loss) == (750, None)
    latest.see_event(AttemptStarted(resume_from_step=0))
    assert latest.step == 0


def test_progress_that_is_older_than_a_line_of_metrics_changes_nothing() -> None:
    latest = Latest()
    latest.see_metrics({"step": 16, "loss": 4.0, "tokens_per_s": 10.0})
    latest.see_progress({"task": "train", "done": 1, "total": 30, "step": 1, "loss": 9.0, "tokens_per_s": 1.0})
    assert (latest.step, latest.done, latest.total_steps, latest.loss) == (16, 16, 30, 4.0)
    assert latest.tokens_per_s == 10.0
