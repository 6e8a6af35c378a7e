"""One device, many runs: real supervisors over faked stages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import runs
from tpudeck import launch, queue
from tpudeck.chips import CHIPS
from tpudeck.config import Home
from tpudeck.devices.inventory import Holder, InstalledChip
from tpudeck.doctor import Surroundings
from tpudeck.errors import RetryLaterError
from tpudeck.presets import resolve
from tpudeck.runs import locks
from tpudeck.runs.meta import change_meta
from tpudeck.runs.reader import RunReader
from tpudeck.storage import read_json, write_json

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test(home: Home) -> Iterator[None]:
    with runs.faked_supervisor():
        yield
        runs.end_everything(home)


def status(folder: Path) -> str:
    return RunReader(folder).refresh().summary.status


def queued(folder: Path) -> None:
    runs.wait(folder, lambda now: now.summary.status == "queued", "a place in the queue")


def busy(home: Home) -> Path:
    """A run that has the device until it is told to stop."""
    folder = runs.begin(home, steps=1_000_000, step_s=0.01, name="busy")
    runs.at_step(folder, 1)
    return folder


def with_holders(monkeypatch: pytest.MonkeyPatch, *holders: Holder) -> None:
    """A TPU in this machine, and who has it open, for this process."""
    chip = InstalledChip("0000:00:04.0", CHIPS["v5e"], "/dev/vfio/0")
    monkeypatch.setattr(Surroundings, "chips", lambda _: [chip])
    monkeypatch.setattr(Surroundings, "holders", lambda _: (list(holders), 0))


def order_of_start(folders: list[Path]) -> list[Path]:
    for folder in folders:
        runs.ended(folder)
    return sorted(folders, key=lambda folder: (folder / "tokenizer.ready").stat().st_mtime_ns)


def test_a_run_waits_for_a_busy_device_and_starts_when_it_is_free(home: Home) -> None:
    first = busy(home)
    second = runs.begin(home, steps=5, name="second")
    queued(second)
    assert first.name in RunReader(second).refresh().summary.evidence
    launch.request_stop(first)
    assert runs.ended(second).summary.status == "finished"


def test_waiting_runs_start_in_their_order(home: Home) -> None:
    first = busy(home)
    waiting = []
    for number in range(3):
        waiting.append(runs.begin(home, steps=3, name=f"waiting-{number}"))
        queued(waiting[-1])
    assert [entry.folder for entry in queue.entries("cpu")] == waiting
    launch.request_stop(first)
    assert order_of_start(waiting) == waiting


def test_a_higher_priority_goes_first_also_when_it_is_given_later(home: Home) -> None:
    first = busy(home)
    waiting = []
    for number in range(3):
        waiting.append(runs.begin(home, steps=3, name=f"waiting-{number}"))
        queued(waiting[-1])
    change_meta(waiting[2], priority=5)
    launch.request_stop(first)
    assert order_of_start(waiting) == [waiting[2], waiting[0], waiting[1]]


def test_a_waiting_run_can_be_cancelled(home: Home) -> None:
    first = busy(home)
    second = runs.begin(home, steps=3)
    queued(second)
    launch.request_stop(second)
    assert runs.ended(second).summary.status == "stopped"
    assert queue.entries("cpu") == []
    assert status(first) == "running"


def test_when_the_run_that_has_the_device_is_killed_the_next_one_starts(home: Home) -> None:
    first = busy(home)
    second = runs.begin(home, steps=3)
    queued(second)
    summary = RunReader(first).refresh().summary
    runs.kill(summary.supervisor_pid)
    runs.kill(summary.trainer_pid)
    assert runs.ended(second).summary.status == "finished"


def test_the_device_stays_taken_while_a_stage_without_supervisor_still_saves(home: Home) -> None:
    first = runs.begin(home, steps=1000, step_s=2.0, name="slow")
    summary = runs.wait(first, lambda now: now.summary.progress is not None).summary
    second = runs.begin(home, steps=3)
    queued(second)
    runs.kill(summary.supervisor_pid)
    assert queue.holder("cpu") == first.name
    runs.ended(second)
    assert status(first) == "lost"


def test_a_run_whose_supervisor_is_killed_waiting_is_started_again_in_its_place(home: Home) -> None:
    first = busy(home)
    waiting = []
    for number in range(2):
        waiting.append(runs.begin(home, steps=3, name=f"waiting-{number}"))
        queued(waiting[-1])
    runs.kill(RunReader(waiting[0]).refresh().summary.supervisor_pid)
    runs.wait(waiting[0], lambda now: now.summary.attempt == 2 and now.summary.status == "queued")
    launch.request_stop(first)
    assert order_of_start(waiting) == waiting


def test_a_run_on_another_device_does_not_wait(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    busy(home)
    with_holders(monkeypatch)
    experiment = resolve("quickstart", home=home, overrides=["train.steps=3", "device.kind=tpu"]).experiment
    folder = launch.create(experiment, home=home)
    write_json(folder / "fake.json", {})
    launch.start(folder)
    assert runs.ended(folder).summary.status == "finished"


def test_without_queue_a_run_shares_the_cpu(home: Home) -> None:
    busy(home)
    folder = runs.make(home, steps=3)
    launch.write_options(folder, launch.Options(queue=False))
    launch.start(folder)
    assert runs.ended(folder).summary.status == "finished"


def test_without_queue_a_busy_accelerator_is_an_error_to_try_again_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_holders(monkeypatch)
    folders = []
    for options in (launch.Options(), launch.Options(queue=False)):
        experiment = resolve("quickstart", home=home, overrides=["train.steps=10000", "device.kind=tpu"]).experiment
        folders.append(launch.create(experiment, home=home, options=options))
        write_json(folders[-1] / "fake.json", {"step_s": 0.01})
        launch.start(folders[-1])
        if len(folders) == 1:
            runs.at_step(folders[0], 1)
    summary = runs.ended(folders[1]).summary
    assert (summary.status, summary.exit_code) == ("failed", 3)
    assert folders[0].name in summary.error


def test_a_tpu_that_a_stranger_has_open_is_not_taken_and_its_process_is_named(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs.make(home, steps=3)
    with_holders(monkeypatch, Holder(4711, "python train.py", "/dev/vfio/0"))
    with queue.waiting("tpu", folder) as ticket:
        assert ticket.try_to_take() is None
        assert ticket.evidence == "tpu is used by process 4711: python train.py"
        with_holders(monkeypatch)
        lock = ticket.try_to_take()
    assert lock is not None
    locks.release(lock)


def test_a_launch_on_a_tpu_that_a_stranger_has_open_is_refused_and_writes_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = resolve("quickstart", home=home, overrides=["device.kind=tpu"]).experiment
    with_holders(monkeypatch, Holder(4711, "python train.py", "/dev/vfio/0"))
    with pytest.raises(RetryLaterError, match=r"process 4711 holds the TPU: python train\.py"):
        launch.create(experiment, home=home)
    assert not home.runs.exists()
    with_holders(monkeypatch, Holder(4712, "python -m tpudeck.training train /runs/a", "/dev/vfio/0"))
    assert launch.create(experiment, home=home).is_dir()  # it waits for that run


def test_a_resume_on_a_tpu_that_a_stranger_has_open_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with_holders(monkeypatch)
    folder = launch.create(resolve("quickstart", home=home, overrides=["device.kind=tpu"]).experiment, home=home)
    with_holders(monkeypatch, Holder(4711, "python train.py", "/dev/vfio/0"))
    with pytest.raises(RetryLaterError, match="process 4711"):
        launch.resume(folder)
    with_holders(monkeypatch)


def test_a_dead_ticket_of_a_run_that_does_not_wait_is_thrown_away(home: Home) -> None:
    folder = runs.begin(home, steps=3)
    runs.ended(folder)
    with queue.waiting("cpu", folder):
        pass
    dead = Path(os.environ["TPUDECK_LOCKS"]) / "cpu.queue" / "dead.json"
    write_json(dead, {"folder": str(folder), "since": time.time()})
    queue.heal("cpu")
    assert not dead.exists()
    assert read_json(folder / "status.json")["attempt"] == 1


def test_two_homes_on_one_machine_share_the_device(home: Home, tmp_path: Path) -> None:
    first = busy(home)
    other = Home(tmp_path / "other")
    second = runs.begin(other, steps=3)
    queued(second)
    launch.request_stop(first)
    assert runs.ended(second).summary.status == "finished"
