"""Profiles of a run that is training: what they say, and that the run doesn't notice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyruns import TinyRuns, events, read_lines, tiny_experiment, train
from tpudeck import jobs
from tpudeck.runs.checkpoints import Checkpoints
from tpudeck.training.trace import Operation, exclusive_ns, overlap_ns, union, where_time_went

pytestmark = pytest.mark.training

INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair))))


def request(folder: Path, steps: Any) -> None:
    (folder / "requests" / "profile.json").write_text(json.dumps({"steps": steps}))


def weights(folder: Path) -> dict[str, Any]:
    return Checkpoints(folder / "checkpoints").find("last").weights()


def test_a_profiled_run_equals_another_to_the_last_bit_and_exactly_the_steps_asked_for_are_recorded(
    tiny_runs: TinyRuns,
) -> None:
    experiment = tiny_experiment(train={"steps": 16, "steps_per_call": 3, "eval_every": 8})
    plain, profiled = tiny_runs.run(experiment), tiny_runs.run(experiment)
    request(profiled, 7)
    train(plain)
    train(profiled)
    for name, value in weights(plain).items():
        np.testing.assert_array_equal(value, weights(profiled)[name])
    losses = [[line["loss"] for line in read_lines(folder / "metrics.jsonl")] for folder in (plain, profiled)]
    assert losses[0] == losses[1]
    (said,) = events(profiled, "profiled")
    assert (said["first_step"], said["steps"], said["error"]) == (3, 7, "")
    assert not (profiled / "requests" / "profile.json").exists()
    measured = where_time_went(profiled / said["path"])
    assert measured["steps"] == 7
    parts = [measured[name] for name in ("operations_s", "input_wait_s", "other_s")]
    assert sum(parts) == pytest.approx(measured["step_s"]) and min(parts) >= 0
    assert measured["operations_s"] > 0
    assert any("MatMul" in operation["name"] for operation in measured["operations"])
    times = [operation["time_s"] for operation in measured["operations"]]
    assert times == sorted(times, reverse=True)


def test_a_profile_longer_than_the_run_ends_with_it(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": 6, "steps_per_call": 1}))
    request(folder, 100)
    train(folder)
    assert [(line["first_step"], line["steps"]) for line in events(folder, "profiled")] == [(2, 5)]


@pytest.mark.parametrize("steps", [None, "many", [3]])
def test_a_request_that_is_none_is_told_and_the_run_goes_on(tiny_runs: TinyRuns, steps: Any) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": 4, "steps_per_call": 1}))
    request(folder, steps)
    assert train(folder)["steps"] == 4
    assert events(folder, "profiled")[0]["error"]


def test_a_profiler_that_fails_is_told_and_the_run_goes_on(
    tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    def fail(*_: Any) -> None:
        raise RuntimeError("no profiler here")

    monkeypatch.setattr(tf.profiler.experimental, "start", fail)
    folder = tiny_runs.run(tiny_experiment(train={"steps": 4, "steps_per_call": 1}))
    request(folder, 2)
    assert train(folder)["steps"] == 4
    assert "no profiler here" in events(folder, "profiled")[0]["error"]


def test_the_command_waits_for_a_live_run_and_prints_where_its_time_goes(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": 1_000_000, "checkpoint_every": 0}))
    (folder / "run.json").write_text(json.dumps({"id": folder.name}))
    job = jobs.start("train", folder)
    try:
        while not job.progress():
            assert job.running(), (folder / "console.log").read_text()
            time.sleep(0.05)
        done = subprocess.run(
            [sys.executable, "-m", "tpudeck.cli", "runs", "profile", str(folder), "--steps", "4", "--json"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        measured = json.loads(done.stdout)
        assert measured["steps"] == 4 and measured["operations"]
        assert Path(measured["folder"]).is_relative_to(folder / "profile")
        assert job.running()
    finally:
        job.process.kill()
        job.process.wait()


def test_on_a_device_its_compiled_operations_count_and_not_the_host(tmp_path: Path) -> None:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    host, device, task = (space.planes.add(name=name) for name in ("/host:CPU", "/device:TPU:0", "Task Environment"))
    host.event_metadata[1].name = host.event_metadata[1].display_name = "MatMul"
    host.lines.add(name="thread").events.add(metadata_id=1, offset_ps=0, duration_ps=10_000_000)
    for number, name in enumerate(("step", "fusion.12", "copy.3.remat"), start=1):
        device.event_metadata[number].name = name
    device.lines.add(name="Steps").events.add(metadata_id=1, duration_ps=90_000_000)
    ops = device.lines.add(name="XLA Ops", timestamp_ns=1_000)
    ops.events.add(metadata_id=2, offset_ps=0, duration_ps=4_000_000)
    ops.events.add(metadata_id=3, offset_ps=6_000_000, duration_ps=1_000_000)
    task.stat_metadata[1].name = "profile_start_time"
    task.stats.add(metadata_id=1, uint64_value=50_000)
    place = tmp_path / "plugins" / "profile" / "now"
    place.mkdir(parents=True)
    (place / "vm.xplane.pb").write_bytes(space.SerializeToString())
    call = {"start_ns": 50_000, "end_ns": 60_000, "steps": 2, "input_wait_ns": 1_500}
    (tmp_path / "calls.json").write_text(json.dumps({"first_step": 9, "calls": [call]}))
    assert where_time_went(tmp_path) == {
        "first_step": 9,
        "steps": 2,
        "step_s": pytest.approx(5e-6),
        "operations_s": pytest.approx(2.5e-6),
        "input_wait_s": pytest.approx(0.5e-6),
        "other_s": pytest.approx(2e-6),
        "operations": [
            {"name": "fusion", "time_s": pytest.approx(2e-6)},
            {"name": "copy", "time_s": pytest.approx(0.5e-6)},
        ],
    }


@given(INTERVALS, INTERVALS)
def test_overlaps_are_what_counting_nanoseconds_gives(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def covered(intervals: list[tuple[int, int]]) -> set[int]:
        return {moment for begin, end in intervals for moment in range(begin, end)}

    assert covered(union(one)) == covered(one)
    assert all(before[1] < after[0] for before, after in zip(union(one), union(one)[1:], strict=False))
    assert overlap_ns(union(one), union(other)) == len(covered(one) & covered(other))


def test_an_operation_is_charged_for_its_own_time_only() -> None:
    line = [Operation(0, 100, "call"), Operation(10, 40, "fusion"), Operation(20, 25, "sine"), Operation(40, 60, "dot")]
    assert dict(exclusive_ns(line)) == {"call": 50, "fusion": 25, "sine": 5, "dot": 20}
