"""What a supervisor knows of its stage, over a long time and through an untidy log."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

from tpudeck.alerts import Watchdog
from tpudeck.runs.events import AttemptStarted, Evaluated, PhaseChanged
from tpudeck.runs.log import LogFollower, tail
from tpudeck.runs.writer import RunWriter
from tpudeck.supervisor.console_log import rotate
from tpudeck.supervisor.following import Following


def test_it_gathers_the_newest_numbers_and_only_this_attempts_lines_are_news(tmp_path: Path) -> None:
    before = RunWriter(tmp_path, attempt=1)
    before.metrics(1, loss=9.0, tokens_per_s=1.0)
    before.event(Evaluated(step=1, eval_loss=8.0, perplexity=1, accuracy=0, baseline_loss=6, targets=1))
    following = Following(tmp_path, 2)
    assert following.rows == [] and following.events == []
    writer = RunWriter(tmp_path, attempt=2)
    writer.event(AttemptStarted(resume_from_step=1))
    writer.event(PhaseChanged(phase="training", promise_s=7.0))
    writer.metrics(2, loss=5.0, tokens_per_s=2.0)
    following.look()
    assert [row["step"] for row in following.rows] == [2]
    assert following.latest.loss == 5.0 and following.latest.best_eval_loss == 8.0
    assert following.promise_s == 7.0
    assert following.changed
    following.look()
    assert not following.changed


def test_a_days_worth_of_lines_leaves_no_memory_behind(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, attempt=1)
    following, watchdog = Following(tmp_path, 1), Watchdog()

    def log(steps: range) -> None:
        for step in steps:
            writer.metrics(step, loss=5.0, tokens_per_s=1000.0, step_s=0.1, input_wait_s=0.0)
            if step % 100 == 0:
                writer.progress(task="train", done=step, total=10**6, unit="steps", step=step, force=True)
                following.look()
                for row in following.rows:
                    assert list(watchdog.see_metrics(row)) == []

    log(range(1, 2001))
    gc.collect()
    tracemalloc.start()
    try:
        log(range(2001, 2201))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        log(range(2201, 42_201))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_log_that_has_grown_too_large_is_rotated_under_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    follower = LogFollower(tmp_path)
    os.write(descriptor, b"old\n" * 100)
    assert len(follower.read()) == 100
    assert rotate(path, most_bytes=200)
    assert not rotate(path, most_bytes=200)
    os.write(descriptor, b"new\n")
    os.close(descriptor)
    assert path.read_bytes() == b"new\n"
    assert path.with_name("console.log.1").read_bytes() == b"old\n" * 100
    assert follower.read() == ["new"]


def test_progress_bars_are_shown_as_they_looked_last(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_bytes(b"start\n 10%\r 50%\r100%\nend [1.2]\r\n\xff\n")
    assert tail(tmp_path) == ["start", "100%", "end [1.2]", "\N{REPLACEMENT CHARACTER}"]
    assert tail(tmp_path, 2) == ["end [1.2]", "\N{REPLACEMENT CHARACTER}"]


def test_the_end_of_a_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_bytes(b"".join(b"line %06d\n" % number for number in range(100_000)))
    found = tail(tmp_path, 10**6)
    assert found[-1] == "line 099999"
    assert all(len(line) == 11 for line in found)
