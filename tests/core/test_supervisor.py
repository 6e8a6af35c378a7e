"""Real supervisors over faked stages: real processes, real signals."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakes import runs
from fakes.stages import loss_after, state_after
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.runs.events import CheckpointRejected, RunLaunched, StageFinished, StatusChanged
from tpudeck.runs.reader import RunReader
from tpudeck.storage import read_json, write_json

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test(home: Home) -> Iterator[None]:
    yield
    runs.end_everything(home)


def test_a_run_goes_through_its_stages_and_finishes(home: Home) -> None:
    folder = runs.begin(home, steps=30)
    snapshot = runs.ended(folder)
    assert snapshot.summary.status == "finished"
    assert snapshot.summary.exit_code == 0
    assert [line.event.stage for line in snapshot.events if isinstance(line.event, StageFinished)] == [
        "tokenizer",
        "shards",
        "train",
    ]
    assert snapshot.metrics["loss"].step.tolist() == list(range(1, 31))
    assert runs.result(folder)["state"] == state_after(30)


def test_the_supervisor_is_in_a_session_of_its_own(home: Home) -> None:
    folder = runs.begin(home, steps=10_000)
    summary = runs.at_step(folder, 1).summary
    assert summary.supervisor_pid is not None and summary.trainer_pid is not None
    assert os.getsid(summary.supervisor_pid) == summary.supervisor_pid != os.getsid(0)
    assert os.getsid(summary.trainer_pid) == summary.trainer_pid


def test_a_stop_saves_a_checkpoint_and_the_run_can_be_resumed_to_the_same_end(home: Home) -> None:
    folder = runs.begin(home, steps=300, step_s=0.005)
    runs.at_step(folder, 25)
    launch.request_stop(folder)
    stopped = runs.ended(folder).summary
    assert (stopped.status, stopped.exit_code) == ("stopped", 130)
    runs.behave(folder)
    runs.resume(folder)
    snapshot = runs.ended(folder)
    assert snapshot.summary.status == "finished"
    assert snapshot.summary.attempt == 2
    assert runs.result(folder)["state"] == state_after(300)
    assert snapshot.metrics["loss"].step.tolist() == list(range(1, 301))
    assert not snapshot.metrics["loss"].superseded


@pytest.mark.parametrize("stage", ["tokenizer", "shards", "train"])
def test_a_killed_stage_is_said_to_be_killed_and_resumes_to_the_same_end(home: Home, stage: str) -> None:
    folder = runs.begin(home, steps=200, step_s=0.02)
    summary = runs.wait(folder, lambda now: now.summary.stage == stage and now.summary.trainer_pid is not None).summary
    runs.kill(summary.trainer_pid)
    killed = runs.ended(folder).summary
    assert (killed.status, killed.signal, killed.exit_code) == ("killed", signal.SIGKILL, None)
    runs.behave(folder)
    runs.resume(folder)
    assert runs.ended(folder).summary.status == "finished"
    assert runs.result(folder)["state"] == state_after(200)


def test_points_that_a_resume_replaces_are_kept_apart_and_none_is_lost(home: Home) -> None:
    folder = runs.begin(home, steps=100, step_s=0.01, checkpoint_every=20)
    runs.kill(runs.at_step(folder, 35).summary.trainer_pid)
    logged = RunReader(folder).refresh().metrics["loss"].step.max()
    runs.ended(folder)
    runs.behave(folder)
    runs.resume(folder)
    loss = runs.ended(folder).metrics["loss"]
    assert loss.step.tolist() == list(range(1, 101))
    assert loss.value.tolist() == [loss_after(step) for step in range(1, 101)]
    replaced = [step for part in loss.superseded for step in part.step.tolist()]
    assert replaced[0] % 20 == 1 and replaced[-1] >= logged


def test_when_the_supervisor_is_killed_its_stage_saves_and_ends_and_the_run_counts_as_lost(home: Home) -> None:
    folder = runs.begin(home, steps=10_000, step_s=0.01, checkpoint_every=10_000)
    summary = runs.at_step(folder, 20).summary
    runs.kill(summary.supervisor_pid)
    lost = runs.ended(folder).summary
    assert lost.status == "lost"
    assert f"process {summary.supervisor_pid}" in lost.evidence
    (checkpoint,) = (folder / "checkpoints").iterdir()
    assert int(checkpoint.name[5:]) >= 20


def test_after_the_supervisor_was_killed_the_run_resumes_to_the_same_end(home: Home) -> None:
    folder = runs.begin(home, steps=400, step_s=0.005)
    runs.kill(runs.at_step(folder, 20).summary.supervisor_pid)
    runs.ended(folder)
    runs.behave(folder)
    runs.resume(folder)
    snapshot = runs.ended(folder)
    assert snapshot.summary.status == "finished"
    assert runs.result(folder)["state"] == state_after(400)
    assert snapshot.metrics["loss"].step.tolist() == list(range(1, 401))


def test_killed_and_started_again_at_once_the_run_has_one_owner_at_a_time(home: Home) -> None:
    folder = runs.begin(home, steps=10_000, step_s=0.01)
    runs.kill(runs.at_step(folder, 5).summary.supervisor_pid)

    def taken_up() -> bool:
        try:
            runs.resume(folder)
        except RetryLaterError as error:
            assert "still saving" in error.message or "is running" in error.message
            return False
        return True

    runs.wait_until(taken_up)
    snapshot = runs.wait(folder, lambda now: now.summary.attempt == 2 and now.summary.status == "running")
    launched = [line.attempt for line in snapshot.events if isinstance(line.event, RunLaunched)]
    assert launched == [1, 2]


def test_a_second_launch_of_one_folder_is_refused_at_once(home: Home) -> None:
    folder = runs.make(home, steps=10_000)
    refused: list[RetryLaterError] = []

    def launch_it() -> None:
        try:
            launch.start(folder)
        except RetryLaterError as error:
            refused.append(error)

    with runs.faked_supervisor():
        threads = [threading.Thread(target=launch_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(refused) == 3
    runs.at_step(folder, 1)
    assert RunReader(folder).refresh().summary.attempt == 1


def test_two_stops_at_once_are_one_stop(home: Home) -> None:
    folder = runs.begin(home, steps=10_000, step_s=0.005)
    runs.at_step(folder, 5)
    threads = [threading.Thread(target=launch.request_stop, args=(folder,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    snapshot = runs.ended(folder)
    assert snapshot.summary.status == "stopped"
    said = [line.event.status for line in snapshot.events if isinstance(line.event, StatusChanged)]
    assert said.count("stopped") == 1


def test_sigterm_to_the_supervisor_stops_the_run_with_a_checkpoint(home: Home) -> None:
    folder = runs.begin(home, steps=10_000, step_s=0.005, checkpoint_every=10_000)
    runs.kill(runs.at_step(folder, 5).summary.supervisor_pid, signal.SIGTERM)
    assert runs.ended(folder).summary.status == "stopped"
    assert list((folder / "checkpoints").iterdir())


def test_sighup_means_nothing_to_a_run(home: Home) -> None:
    folder = runs.begin(home, steps=150, step_s=0.005)
    runs.kill(runs.at_step(folder, 5).summary.supervisor_pid, signal.SIGHUP)
    assert runs.ended(folder).summary.status == "finished"


def test_stop_now_ends_a_stage_that_does_not_listen(home: Home) -> None:
    folder = runs.begin(home, steps=10, step_s=3600.0)
    summary = runs.wait(folder, lambda now: now.summary.progress is not None).summary
    launch.request_stop(folder, now=True)
    killed = runs.ended(folder).summary
    assert killed.status == "killed"
    assert not psutil.pid_exists(summary.trainer_pid or 0)


def test_a_requested_checkpoint_is_saved_and_the_run_goes_on(home: Home) -> None:
    folder = runs.begin(home, steps=10_000, step_s=0.005, checkpoint_every=10_000)
    runs.at_step(folder, 5)
    launch.request_checkpoint(folder)
    runs.wait_until(lambda: any((folder / "checkpoints").glob("*/manifest.json")))
    assert RunReader(folder).refresh().summary.live


def test_a_mistake_found_by_a_stage_ends_the_run_with_its_message_hint_and_exit_code(home: Home) -> None:
    folder = runs.begin(home, shards_error="the corpus is empty")
    summary = runs.ended(folder).summary
    assert (summary.status, summary.exit_code) == ("failed", 2)
    assert summary.error == "the corpus is empty\n  → say which one"


def test_a_stage_that_ends_without_a_result_has_failed(home: Home) -> None:
    folder = runs.begin(home, exit_at=3, exit_code=0)
    summary = runs.ended(folder).summary
    assert (summary.status, summary.exit_code) == ("failed", 1)
    assert summary.evidence.startswith("train ended without a result")


def test_a_finished_run_cannot_be_resumed(home: Home) -> None:
    folder = runs.begin(home, steps=3)
    runs.ended(folder)
    with pytest.raises(InputError, match="nothing to resume"):
        launch.resume(folder)


def test_silence_beyond_the_promise_is_a_stall_and_a_word_ends_it(home: Home) -> None:
    folder = runs.begin(home, steps=100_000, step_s=0.01, promise_s=1.0)
    trainer = runs.at_step(folder, 5).summary.trainer_pid
    runs.kill(trainer, signal.SIGSTOP)
    stalled = runs.wait(folder, lambda now: now.summary.status == "stalled").summary
    assert "promised within 1s" in stalled.evidence
    runs.kill(trainer, signal.SIGCONT)
    runs.wait(folder, lambda now: now.summary.status == "running")


def test_a_long_compile_within_its_promise_is_no_stall(home: Home) -> None:
    folder = runs.begin(home, steps=3, compile_s=3.0, compile_promise_s=600.0, promise_s=0.5)
    snapshot = runs.ended(folder)
    said = [line.event.status for line in snapshot.events if isinstance(line.event, StatusChanged)]
    assert "compiling" in said and "stalled" not in said


def test_a_damaged_newest_checkpoint_is_told_and_the_one_before_is_used(home: Home) -> None:
    folder = runs.begin(home, steps=200, step_s=0.01)
    runs.kill(runs.at_step(folder, 45).summary.trainer_pid)
    runs.ended(folder)
    newest = max((folder / "checkpoints").glob("*/manifest.json"))
    newest.write_bytes(newest.read_bytes()[:20])
    runs.behave(folder)
    runs.resume(folder)
    snapshot = runs.ended(folder)
    assert any(isinstance(line.event, CheckpointRejected) for line in snapshot.events)
    assert runs.result(folder)["state"] == state_after(200)


def test_another_boot_or_host_is_no_proof_of_life(home: Home) -> None:
    folder = runs.begin(home, steps=5)
    runs.ended(folder)
    status = read_json(folder / "status.json")
    status |= {"status": "running"}
    status["supervisor"] |= {"boot_id": "another"}
    write_json(folder / "status.json", status)
    summary = RunReader(folder).refresh().summary
    assert summary.status == "lost" and "restarted" in summary.evidence


def test_a_reused_process_id_is_no_proof_of_life(home: Home) -> None:
    folder = runs.begin(home, steps=5)
    runs.ended(folder)
    status = read_json(folder / "status.json")
    status |= {"status": "running"}
    status["supervisor"] |= {"pid": os.getpid()}
    write_json(folder / "status.json", status)
    assert RunReader(folder).refresh().summary.status == "lost"


def test_the_supervisor_is_small_and_imports_nothing_heavy(home: Home) -> None:
    folder = runs.begin(home, steps=100_000, step_s=0.05)
    pid = runs.at_step(folder, 5).summary.supervisor_pid
    assert pid is not None
    mapped = Path(f"/proc/{pid}/maps").read_text()
    assert "numpy" not in mapped and "pydantic" not in mapped and "tensorflow" not in mapped
    assert psutil.Process(pid).memory_info().rss < 40 << 20
