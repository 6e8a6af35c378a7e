"""The newest numbers of a run."""

from __future__ import annotations

from tpudeck.runs.events import Evaluated
from tpudeck.runs.latest import Latest


def test_the_last_evaluation_stands_whatever_progress_says_before_or_after_it() -> None:
    latest = Latest()
    latest.see_event(Evaluated(step=5, eval_loss=4.0, perplexity=54.6, accuracy=0.2, baseline_loss=6.0, targets=10))
    latest.see_progress({"task": "train", "done": 5, "total": 5, "step": 5, "eval_loss": 5.0})
    assert latest.eval_loss == 4.0
