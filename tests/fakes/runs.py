"""Runs over faked stages, for tests: made in a moment, started for real."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tpudeck import launch
from tpudeck.config import Home
from tpudeck.launch import control
from tpudeck.presets import resolve
from tpudeck.runs import locks
from tpudeck.runs.reader import RunReader, RunSnapshot
from tpudeck.runs.status import is_live
from tpudeck.storage import write_json

PATIENCE_S = 60.0
"""How long anything may take on a busy machine before a test gives up."""


@contextlib.contextmanager
def faked_supervisor() -> Iterator[None]:
    """Within this, `launch.start` starts a real supervisor over faked stages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control, "SUPERVISOR", (sys.executable, str(Path(__file__).with_name("supervisor.py"))))
        yield


def make(home: Home, *, steps: int = 60, name: str = "fake", **behaviour: Any) -> Path:
    """A run folder, not started."""
    experiment = resolve("quickstart", home=home, overrides=[f"train.steps={steps}", "device.kind=cpu"]).experiment
    folder = launch.create(experiment, home=home, name=name)
    write_json(folder / "fake.json", behaviour)
    return folder


def behave(folder: Path, **behaviour: Any) -> None:
    write_json(folder / "fake.json", behaviour)


def begin(home: Home, **arguments: Any) -> Path:
    """A run, started."""
    folder = make(home, **arguments)
    with faked_supervisor():
        launch.start(folder)
    return folder


def resume(folder: Path) -> None:
    with faked_supervisor():
        launch.resume(folder)


def wait(folder: Path, until: Callable[[RunSnapshot], bool], what: str = "") -> RunSnapshot:
    """Look at a run until something is so."""
    reader = RunReader(folder)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        snapshot = reader.refresh()
        if until(snapshot):
            return snapshot
        time.sleep(0.01)
    log = (folder / "console.log").read_text() if (folder / "console.log").exists() else ""
    raise AssertionError(f"{what or 'it'} never came: {snapshot.summary}\n{log}")


def ended(folder: Path) -> RunSnapshot:
    """The run when it and all its processes have ended."""
    wait(folder, lambda snapshot: not snapshot.summary.live, "the end")
    wait_until(lambda: not is_live(folder))
    return RunReader(folder).refresh()


def at_step(folder: Path, step: int) -> RunSnapshot:
    """The run when it has logged a step."""
    return wait(folder, lambda snapshot: (snapshot.summary.step or 0) >= step, f"step {step}")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def result(folder: Path) -> Any:
    """What training returned: its final state."""
    from tpudeck.storage import read_json

    return read_json(folder / "results" / "train.json")["result"]


def kill(pid: int | None, number: signal.Signals = signal.SIGKILL) -> None:
    assert pid is not None
    os.kill(pid, number)


def end_everything(home: Home) -> None:
    """Nothing of a test may outlive it."""
    for folder in home.runs.glob("[!.]*"):
        if is_live(folder):
            summary = RunReader(folder).refresh().summary
            for pid in (summary.supervisor_pid, summary.trainer_pid):
                with contextlib.suppress(ProcessLookupError, TypeError):
                    os.kill(pid, signal.SIGCONT)  # type: ignore[arg-type]
                    os.kill(pid, signal.SIGKILL)  # type: ignore[arg-type]
            wait_until(lambda folder=folder: not locks.held(folder / "stage.lock"))  # type: ignore[misc]
