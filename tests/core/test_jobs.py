"""Tasks in child processes: results, errors and stops come back through files."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.errors import CorpusError, InterruptedRunError, RetryLaterError, WorkError
from tpudeck.presets import Experiment, resolve
from tpudeck.runs import locks

TASK = """
import os, sys, time
from tpudeck import jobs
from tpudeck.errors import CorpusError, RetryLaterError

def work(job):
    how = job.request().get("how")
    if how == "fail":
        raise CorpusError("the corpus is empty", hint="give it text")
    if how == "crash":
        raise ValueError("a bug")
    if how == "die":
        os.kill(os.getpid(), 9)
    if how == "hang":
        with job.nothing_to_save(deadline_s=0.3, late=RetryLaterError("the device did not answer")):
            time.sleep(60)
    while how == "wait":
        job.progress(1, 2, "things", force=True)
        job.check_stop()
        time.sleep(0.01)
    return {"answer": 42, "name": job.experiment().name, "odd": float("nan")}

jobs.main({"tokenizer": work})
"""


@pytest.fixture(autouse=True)
def task_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_task.py").write_text(TASK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(jobs.TASKS, "tokenizer", "a_task")


@pytest.fixture
def experiment(home: Home) -> Experiment:
    return resolve("quickstart", home=home).experiment


def test_a_result_comes_back(experiment: Experiment) -> None:
    assert jobs.run("tokenizer", experiment) == {"answer": 42, "name": "quickstart", "odd": "NaN"}


def test_an_error_comes_back_as_itself(experiment: Experiment) -> None:
    with pytest.raises(CorpusError) as caught:
        jobs.run("tokenizer", experiment, request={"how": "fail"})
    assert caught.value.show() == "the corpus is empty\n  → give it text"


def test_a_bug_comes_back_as_failed_work(experiment: Experiment) -> None:
    with pytest.raises(WorkError, match="ValueError: a bug"):
        jobs.run("tokenizer", experiment, request={"how": "crash"})


def test_what_never_answers_ends_at_its_deadline(experiment: Experiment) -> None:
    with pytest.raises(RetryLaterError, match="the device did not answer"):
        jobs.run("tokenizer", experiment, request={"how": "hang"})


def test_a_child_that_is_killed_is_told_as_such(experiment: Experiment) -> None:
    with pytest.raises(WorkError, match="killed by signal 9"):
        jobs.run("tokenizer", experiment, request={"how": "die"})


def test_an_interrupted_parent_stops_its_child_and_leaves_no_folder(experiment: Experiment, home: Home) -> None:
    def interrupt(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run("tokenizer", experiment, request={"how": "wait"}, on_progress=interrupt)
    assert list((home.cache / "jobs").iterdir()) == []


def test_what_a_killed_owner_left_is_swept_and_what_is_in_use_is_not(experiment: Experiment, home: Home) -> None:
    make = (
        "import os, sys; from tpudeck import jobs; from tpudeck.config import Home; from tpudeck.presets import resolve"
    )
    wait = "sys.stdout.write(str(folder)); sys.stdout.flush(); sys.stdin.read()"
    script = f"""{make}
with jobs.temporary_folder(Home.here(), resolve("quickstart", home=Home.here()).experiment, {{}}) as folder:
    {wait}
"""
    owners = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    folders = []
    for owner in owners:
        assert owner.stdout is not None
        folders.append(Path(owner.stdout.read1(1000).decode()))
    alive, dead, with_a_child = folders
    owners[1].kill()
    owners[2].kill()
    stage = locks.acquire(with_a_child / "stage.lock")
    assert stage is not None
    try:
        for owner in owners[1:]:
            owner.wait()
        with jobs.temporary_folder(home, experiment, {}) as mine:
            assert sorted((home.cache / "jobs").iterdir()) == sorted([alive, with_a_child, mine])
        assert not dead.exists()
    finally:
        locks.release(stage)
        for owner in owners:
            owner.communicate()
    assert not alive.exists()


@pytest.fixture
def waiting(experiment: Experiment, home: Home) -> Iterator[tuple[jobs.JobProcess, subprocess.Popen[bytes]]]:
    """A job that goes on until it is stopped."""
    with jobs.temporary_folder(home, experiment, {"how": "wait"}) as folder:
        job = jobs.start("tokenizer", folder, stdin=subprocess.PIPE, environ={jobs.CONTROL_PIPE: "1"}, own_session=True)
        while not job.progress():
            assert job.running(), (folder / "console.log").read_text()
        yield job, job.process
        job.process.kill()
        job.process.wait()
        assert job.process.stdin is not None
        job.process.stdin.close()


def test_the_end_of_the_control_pipe_stops_a_child(
    waiting: tuple[jobs.JobProcess, subprocess.Popen[bytes]],
) -> None:
    job, process = waiting
    assert process.stdin is not None
    process.stdin.close()
    with pytest.raises(InterruptedRunError):
        job.result()
    assert process.returncode == 130


def test_sigterm_stops_a_child(waiting: tuple[jobs.JobProcess, subprocess.Popen[bytes]]) -> None:
    job, _ = waiting
    job.stop()
    with pytest.raises(InterruptedRunError):
        job.result()


def test_a_stop_file_stops_a_child(waiting: tuple[jobs.JobProcess, subprocess.Popen[bytes]]) -> None:
    job, _ = waiting
    (job.folder / "requests").mkdir()
    (job.folder / "requests" / "stop.json").write_text("{}")
    with pytest.raises(InterruptedRunError):
        job.result()


def test_two_children_cannot_work_in_one_folder(
    waiting: tuple[jobs.JobProcess, subprocess.Popen[bytes]],
) -> None:
    job, _ = waiting
    done = subprocess.run(
        [sys.executable, "-m", "a_task", "tokenizer", str(job.folder)], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "in use" in done.stderr


def test_of_many_that_want_a_lock_one_gets_it(tmp_path: Path) -> None:
    got: list[int | None] = []
    threads = [threading.Thread(target=lambda: got.append(locks.acquire(tmp_path / "a.lock"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owners = [descriptor for descriptor in got if descriptor is not None]
    assert len(owners) == 1
    assert locks.held(tmp_path / "a.lock")
    locks.release(owners[0])
    assert not locks.held(tmp_path / "a.lock")
