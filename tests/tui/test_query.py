"""The filter language."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpudeck.errors import InputError
from tpudeck.runs.summary import RunSummary
from tpudeck_tui.query import GRAMMAR, parse_query

RUN = RunSummary(
    id="20260101-000000-wide-0a1b", name="wide", path="/runs/wide", preset="bert-base", status="running", evidence="",
    phase="training", stage="train", step=1200, total_steps=5000, loss=2.5, eval_loss=None, best_eval_loss=None,
    baseline_loss=None, tokens_per_s=12_000.0, progress=0.24, remaining_s=None, trainer_pid=None, supervisor_pid=None,
    exit_code=None, signal=None, created=time.time() - 7200, started=None, ended=None, duration_s=4000.0, device="tpu",
    attempt=1, error="", tags=("ablation", "lr"), note="twice the [width]",
)  # fmt: skip
CONFIG = {"train": {"learning_rate": 1e-4, "precision": "bfloat16", "xla": True}, "model": {"layers": 12}}


def matches(text: str, run: RunSummary = RUN) -> bool:
    return parse_query(text).matches(run, lambda run: CONFIG)


@pytest.mark.parametrize(
    "text",
    ["", "wide", "WIDE", "[width]", "status:running", "status:run", "loss<3", "loss>=2.5", "loss=2.5", "tag:abl",
     "tag=ablation", "has:loss", "has:tags", "-has:eval", "is:live", "-status:failed", "duration>1h", "speed>10k",
     "age<1d", "progress<25", "progress>20%", "cfg.train.learning_rate<1e-3", "cfg.model.layers=12",
     "cfg.train.precision:bf", "cfg.train.precision=bfloat16", "cfg.train.xla=true", "cfg.model.layers!=6",
     "status:running loss<3 tag:ablation cfg.train.learning_rate>1e-5", 'note:"twice the"', "step>1k"],
)  # fmt: skip
def test_terms_that_hold(text: str) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    "text",
    ["narrow", "status:finished", "loss<2", "tag=abl", "has:eval", "is:ended", "-wide", "duration<1h", "speed<10k",
     "eval<100", "cfg.train.learning_rate>1", "cfg.no.such=1", "cfg.train.precision>3", "loss<3 loss>3"],
)  # fmt: skip
def test_terms_that_do_not_hold(text: str) -> None:
    assert not matches(text)


def test_a_loss_that_is_no_number_is_neither_above_nor_below() -> None:
    run = replace(RUN, loss=float("nan"))
    assert not matches("loss<3", run)
    assert not matches("loss>3", run)
    assert matches("has:loss", run)


@pytest.mark.parametrize(
    ("text", "word"),
    [("los<3", "got 'los'"), ("loss<three", "got 'three'"), ("has:wings", "got 'wings'"), ("is:good", "got 'good'"),
     ("status<3", "is text")],
)  # fmt: skip
def test_a_wrong_term_says_what_would_be_right(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        parse_query(text)


def test_only_queries_about_experiments_read_experiments() -> None:
    assert parse_query("cfg.train.seed=1").needs_config
    assert not parse_query("loss<3 wide").needs_config


@given(st.text(max_size=40))
def test_any_text_is_a_query_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_query(text).matches(RUN, lambda run: CONFIG)


@pytest.mark.parametrize("term", [term for terms, _ in GRAMMAR for term in terms.split("  ")])
def test_every_example_of_the_grammar_is_understood(term: str) -> None:
    parse_query(f"{term}x" if term.endswith(":") else term)
