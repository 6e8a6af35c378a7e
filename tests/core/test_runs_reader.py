"""One writer, many readers: incremental, tolerant of torn lines, never reading a line twice."""

from __future__ import annotations

import gc
import json
import math
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpudeck.errors import ArtefactError
from tpudeck.runs import cache, lines
from tpudeck.runs import reader as reading
from tpudeck.runs.events import AttemptStarted, Evaluated, Noticed
from tpudeck.runs.lines import LineFollower, parse_lines
from tpudeck.runs.reader import RunReader
from tpudeck.runs.series import MetricTables, smooth
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import write_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "20260101-000000-a-0000"
    folder.mkdir()
    write_json(folder / "run.json", {"name": "a", "created": 1.0})
    return folder


def log(writer: RunWriter, steps: range, **values: float) -> None:
    for step in steps:
        writer.metrics(step, loss=1.0 / step, **values)


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"run\.json"):
        RunReader(tmp_path)


def test_a_reader_sees_what_was_written_and_then_only_what_is_new(folder: Path) -> None:
    writer = RunWriter(folder, attempt=1)
    log(writer, range(1, 11))
    reader = RunReader(folder)
    first = reader.refresh()
    log(writer, range(11, 16))
    second = reader.refresh()
    assert first.metrics["loss"].step.tolist() == list(range(1, 11))
    assert second.metrics["loss"].step.tolist() == list(range(1, 16))
    assert second.metrics["loss"].value.tolist() == [1 / step for step in range(1, 16)]


def test_no_byte_is_read_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(reading, "parse_lines", lambda chunk, count: (parsed.append(chunk), parse_lines(chunk))[1])
    writer = RunWriter(folder)
    reader = RunReader(folder)
    for step in range(1, 30):
        writer.metrics(step, loss=1.0)
        reader.refresh()
    assert b"".join(parsed) == (folder / "metrics.jsonl").read_bytes()


def test_a_snapshot_never_changes(folder: Path) -> None:
    writer = RunWriter(folder, attempt=1)
    log(writer, range(1, 101))
    reader = RunReader(folder)
    snapshot = reader.refresh()
    again = RunWriter(folder, attempt=2)
    again.event(AttemptStarted(resume_from_step=50))
    log(again, range(51, 200))
    reader.refresh()
    assert snapshot.metrics["loss"].step.tolist() == list(range(1, 101))
    with pytest.raises(ValueError, match="read-only"):
        snapshot.metrics["loss"].value[0] = 0


def test_the_newest_attempt_wins_from_where_it_resumed_and_the_rest_is_kept_apart(folder: Path) -> None:
    first = RunWriter(folder, attempt=1)
    log(first, range(10, 101, 10))
    second = RunWriter(folder, attempt=2)
    second.event(AttemptStarted(resume_from_step=55))
    log(second, range(65, 101, 5))
    loss = RunReader(folder).refresh().metrics["loss"]
    assert loss.step.tolist() == [10, 20, 30, 40, 50, *range(65, 101, 5)]
    assert [part.step.tolist() for part in loss.superseded] == [[60, 70, 80, 90, 100]]


def test_a_resume_that_logs_other_metrics_supersedes_all_of_them(folder: Path) -> None:
    log(RunWriter(folder, attempt=1), range(1, 11), old=1.0)
    second = RunWriter(folder, attempt=2)
    second.event(AttemptStarted(resume_from_step=5))
    log(second, range(6, 11), new=1.0)
    metrics = RunReader(folder).refresh().metrics
    assert metrics["old"].step.tolist() == [1, 2, 3, 4, 5]
    assert metrics["new"].step.tolist() == [6, 7, 8, 9, 10]
    assert metrics["loss"].step.tolist() == list(range(1, 11))


def test_torn_and_garbage_lines_are_counted_and_skipped(folder: Path) -> None:
    log(RunWriter(folder, attempt=1), range(1, 4))
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "ti\n\x00\xff garbage\n[1]\n{"step": "x", "time": 1, "attempt": 1}\n')
    log(RunWriter(folder, attempt=1), range(5, 7))
    snapshot = RunReader(folder).refresh()
    assert snapshot.metrics["loss"].step.tolist() == [1, 2, 3, 5, 6]
    assert snapshot.bad_lines == 4


def test_an_unfinished_last_line_waits_for_its_end(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    line = b'{"step":1,"time":1.0,"attempt":1,"loss":0.5}\n'
    reader = RunReader(folder)
    path.write_bytes(line[:20])
    assert not reader.refresh().metrics
    path.write_bytes(line)
    snapshot = reader.refresh()
    assert snapshot.metrics["loss"].value.tolist() == [0.5]
    assert snapshot.bad_lines == 0


def test_a_writer_that_opens_a_torn_file_loses_only_the_torn_line(folder: Path) -> None:
    (folder / "metrics.jsonl").write_bytes(b'{"step":1,"time":1.0,"attempt":1,"loss":0.5}\n{"step":2,"tim')
    log(RunWriter(folder, attempt=1), range(3, 5))
    assert RunReader(folder).refresh().metrics["loss"].step.tolist() == [1, 3, 4]


def test_a_file_that_was_replaced_is_read_from_its_beginning(folder: Path) -> None:
    log(RunWriter(folder), range(1, 100))
    reader = RunReader(folder)
    reader.refresh()
    (folder / "metrics.jsonl").unlink()
    log(RunWriter(folder), range(1, 3))
    assert reader.refresh().metrics["loss"].step.tolist() == [1, 2]


def test_numbers_that_are_not_finite_survive(folder: Path) -> None:
    writer = RunWriter(folder)
    for step, loss in enumerate([1.0, math.nan, math.inf, -math.inf], start=1):
        writer.metrics(step, loss=loss)
    snapshot = RunReader(folder).refresh()
    np.testing.assert_array_equal(snapshot.metrics["loss"].value, [1.0, math.nan, math.inf, -math.inf])
    assert snapshot.bad_lines == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=30).filter(lambda piece: b"\n" not in piece), max_size=8), st.randoms())
def test_good_lines_survive_any_garbage_between_them(garbage: list[bytes], random: Any) -> None:
    good = [json.dumps({"n": number}).encode() for number in range(10)]
    mixed = [*good, *garbage]
    random.shuffle(mixed)
    rows, _ = parse_lines(b"".join(line + b"\n" for line in mixed))
    assert sorted(row["n"] for row in rows if set(row) == {"n"}) == list(range(10))


def test_two_broken_lines_that_join_to_a_good_one_are_still_broken() -> None:
    assert parse_lines(b'{"a":[1\n2]}\n{"b":1}\n') == ([{"b": 1}], 2)


def test_lines_longer_than_a_chunk_arrive_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = {"text": "x" * (3 * lines.CHUNK_BYTES)}
    path.write_text(json.dumps(long) + "\n" + json.dumps({"a": 1}) + "\n")
    assert LineFollower(path).rows() == ([long, {"a": 1}], 0)


def test_twelve_thousand_metric_names_are_read_once_each(folder: Path) -> None:
    writer = RunWriter(folder)
    for step in range(1, 4):
        writer.metrics(step, **{f"metric/{number}": float(number) for number in range(12_345)})
    metrics = RunReader(folder).refresh().metrics
    assert len(metrics) == 12_345
    assert metrics["metric/12344"].value.tolist() == [12344.0] * 3


def test_many_names_on_lines_of_their_own_are_one_series_each() -> None:
    tables = MetricTables()
    rows = [
        {"step": step, "time": 0.0, "attempt": 1, f"metric/{number}": float(step)}
        for step in range(1, 4)
        for number in range(500)
    ]
    assert tables.extend(rows, {}) == 0
    metrics = tables.view()
    assert len(metrics) == 500
    assert metrics["metric/7"].step.tolist() == [1, 2, 3]


def test_a_metric_that_is_not_on_every_line_keeps_the_order_of_its_steps() -> None:
    tables = MetricTables()
    for step in range(1, 21):
        row = {"step": step, "time": 0.0, "attempt": 1, "loss": float(step)} | ({"extra": 1.0} if step % 3 else {})
        tables.extend([row], {})
    assert tables.view()["loss"].value.tolist() == [float(step) for step in range(1, 21)]


def big(folder: Path, count: int) -> None:
    with (folder / "metrics.jsonl").open("ab") as file:
        for step in range(1, count + 1):
            file.write(b'{"step":%d,"time":1.5,"attempt":1,"loss":%d.5}\n' % (step, step))


def test_a_huge_run_shows_its_tail_first_and_then_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_HUGE_BYTES", 100_000)
    monkeypatch.setattr(reading, "_TAIL_BYTES", 10_000)
    big(folder, 10_000)
    reader = RunReader(folder)
    first = reader.refresh(budget_s=10)
    assert not first.complete
    assert first.metrics["loss"].step[-1] == 10_000 and len(first.metrics["loss"]) < 1000
    second = reader.refresh(budget_s=10)
    assert second.complete and second.loaded == 1
    assert second.metrics["loss"].step.tolist() == list(range(1, 10_001))


def test_within_a_budget_a_huge_run_is_read_piece_by_piece(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_HUGE_BYTES", 100_000)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 20_000)
    big(folder, 10_000)
    reader = RunReader(folder)
    shares = []
    while not (snapshot := reader.refresh(budget_s=0)).complete:
        shares.append(snapshot.loaded)
    assert len(shares) > 5 and shares == sorted(shares)
    assert len(snapshot.metrics["loss"]) == 10_000


@pytest.fixture
def cached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose metrics have a parsed copy beside them."""
    monkeypatch.setattr(reading, "_CACHE_FROM_BYTES", 1000)
    writer = RunWriter(folder, attempt=1)
    log(writer, range(1, 1001), other=2.0)
    again = RunWriter(folder, attempt=2)
    again.event(AttemptStarted(resume_from_step=900))
    log(again, range(901, 1001), other=3.0)
    RunReader(folder).refresh()
    for _ in range(1000):
        if (folder / ".cache" / "metrics.json").exists():
            return folder
        time.sleep(0.01)
    raise AssertionError("no copy was made")


def everything(folder: Path) -> Any:
    metrics = RunReader(folder).refresh().metrics
    return {
        name: (series.step.tolist(), series.value.tolist(), [part.step.tolist() for part in series.superseded])
        for name, series in metrics.items()
    }


def test_the_parsed_copy_holds_the_same_as_the_file(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_copy = everything(cached)
    shutil.rmtree(cached / ".cache")
    assert everything(cached) == from_copy


def test_with_a_copy_only_what_is_new_is_parsed(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(reading, "parse_lines", lambda chunk, count: (parsed.append(chunk), parse_lines(chunk))[1])
    log(RunWriter(cached, attempt=2), range(1001, 1003), other=3.0)
    assert RunReader(cached).refresh().metrics["loss"].step.tolist() == list(range(1, 1003))
    assert b"".join(parsed).count(b"\n") == 2


def test_a_copy_of_another_file_is_ignored(cached: Path) -> None:
    path = cached / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"loss":1.0', b'"loss":7.0', 1))
    assert RunReader(cached).refresh().metrics["loss"].value[0] == 7.0


@pytest.mark.parametrize("damage", ["cut", "gone", "garbled"])
def test_a_damaged_copy_is_ignored(cached: Path, damage: str) -> None:
    (words,) = (cached / ".cache").glob("*.words")
    if damage == "cut":
        words.write_bytes(words.read_bytes()[:100])
    elif damage == "gone":
        words.unlink()
    else:
        (cached / ".cache" / "metrics.json").write_text("{")
    assert len(RunReader(cached).refresh().metrics["loss"]) == 1000


def test_a_folder_that_cannot_be_written_is_read_without_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CACHE_FROM_BYTES", 10)
    (folder / ".cache").touch()
    log(RunWriter(folder), range(1, 11))
    assert len(RunReader(folder).refresh().metrics["loss"]) == 10
    assert cache.load(folder / "metrics.jsonl") is None


def test_events_of_both_writers_come_in_their_order_and_keep_their_place(folder: Path) -> None:
    writer = RunWriter(folder, attempt=1)
    writer.event(Noticed(message="one"))
    reader = RunReader(folder)
    assert [line.event for line in reader.refresh().events] == [Noticed(message="one")]
    with (folder / "supervisor.jsonl").open("a") as file:
        file.write('{"v":1,"time":1.0,"attempt":1,"event":"noticed","message":"early"}\n')
        file.write('{"v":9,"time":2.0,"attempt":1,"event":"from_the_future","message":"x"}\n')
    writer.event(Noticed(message="two"))
    assert [line.event.message for line in reader.refresh().events if isinstance(line.event, Noticed)] == [
        "one",
        "early",
        "two",
    ]


def test_the_best_evaluation_of_all_attempts_is_kept(folder: Path) -> None:
    for attempt, loss in ((1, 3.0), (2, 4.0)):
        RunWriter(folder, attempt=attempt).event(
            Evaluated(step=attempt, eval_loss=loss, perplexity=1, accuracy=0, baseline_loss=6, targets=1)
        )
    summary = RunReader(folder).refresh().summary
    assert (summary.eval_loss, summary.best_eval_loss, summary.baseline_loss) == (4.0, 3.0, 6)


def test_memory_stays_flat_however_often_an_idle_run_is_looked_at(folder: Path) -> None:
    log(RunWriter(folder), range(1, 1000))
    reader = RunReader(folder)
    for _ in range(20):
        reader.refresh()
    tracemalloc.start()
    try:
        for _ in range(20):
            reader.refresh()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            reader.refresh()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
    finally:
        tracemalloc.stop()


def test_smoothing_is_the_debiased_average_of_the_full_data() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    total = weights = 0.0
    expected = []
    for value in values:
        total, weights = 0.97 * total + value, 0.97 * weights + 1
        expected.append(total / weights)
    np.testing.assert_allclose(smooth(values, weight=0.97), expected, rtol=1e-12)


def test_smoothing_leaves_out_what_is_not_finite_and_changes_nothing_at_zero() -> None:
    values = np.array([1.0, math.nan, 3.0])
    np.testing.assert_allclose(smooth(values, weight=0.5), [1.0, math.nan, (0.5 * 1 + 3) / 1.5])
    np.testing.assert_array_equal(smooth(values, weight=0.0), values)
