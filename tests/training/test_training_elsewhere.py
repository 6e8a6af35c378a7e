"""A run whose machine is lost goes on elsewhere, from what its mirror kept, to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gcsfaults import ObjectStore
from tinyruns import events, read_lines, tiny_experiment
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.mirror import pull_mirrored
from tpudeck.runs.checkpoints import Checkpoints
from tpudeck.runs.reader import RunReader
from tpudeck.runs.status import ENDED
from tpudeck.storage import bucket, read_json

pytestmark = [pytest.mark.training, pytest.mark.faults, pytest.mark.slow]

PATIENCE_S = 120.0
STEPS = 3000
MIRROR = """
import sys
from pathlib import Path
from tpudeck.mirror import keep_mirrored
keep_mirrored(Path(sys.argv[1]), sys.argv[2], period_s=0.2)
"""


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.05)


def started(home: Home) -> Path:
    settings = {"steps": STEPS, "checkpoint_every": 200, "log_every": 50, "eval_every": 1000, "learning_rate": 1e-2}
    run = launch.create(tiny_experiment(train=settings), home=home)
    launch.start(run)
    return run


def status(run: Path) -> str:
    return RunReader(run).refresh().summary.status


def wait_until_finished(run: Path) -> None:
    wait_for(lambda: status(run) in ENDED)
    assert status(run) == "finished", (run / "console.log").read_text()


@pytest.fixture
def mirrored() -> Iterator[Callable[[Path, str], subprocess.Popen[bytes]]]:
    """Starts mirrors that look for news five times a second."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(run: Path, location: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", MIRROR, str(run), location]))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def test_a_lost_run_goes_on_elsewhere_as_if_nothing_had_happened(
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mirrored: Callable[[Path, str], subprocess.Popen[bytes]],
) -> None:
    monkeypatch.setenv("TPUDECK_LOCKS", str(tmp_path / "locks"))
    here, elsewhere = Home(tmp_path / "here"), Home(tmp_path / "elsewhere")
    monkeypatch.setenv("TPUDECK_HOME", str(here.root))
    run = started(here)
    location = f"gs://bucket/runs/{run.name}"
    mirror = mirrored(run, location)
    wait_for(
        lambda: any(stored.location.endswith("/.contents.json") for stored in bucket.scan(f"{location}/checkpoints/"))
    )
    with pytest.raises(InputError, match=f"{run.name} is "):
        pull_mirrored(location, elsewhere)
    machine = read_json(run / "status.json")
    for process in (mirror.pid, machine["supervisor"]["pid"], machine["stage_process"]["pid"]):
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: status(run) == "lost")

    monkeypatch.setenv("TPUDECK_HOME", str(elsewhere.root))
    taken_over = pull_mirrored(location, elsewhere)
    launch.resume(taken_over)
    wait_until_finished(taken_over)
    resumed = events(taken_over, "attempt_started")[-1]
    assert 0 < resumed["resume_from_step"] < STEPS and resumed["environment_changed"] == []

    monkeypatch.setenv("TPUDECK_HOME", str(here.root))
    whole = started(here)
    wait_until_finished(whole)
    assert losses(taken_over) == losses(whole)
    assert evaluations(taken_over) == evaluations(whole)
    one, other = (Checkpoints(folder / "checkpoints").find("last").weights() for folder in (taken_over, whole))
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def losses(run: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in read_lines(run / "metrics.jsonl")}


def evaluations(run: Path) -> dict[int, float]:
    return {line["step"]: line["eval_loss"] for line in events(run, "evaluated")}
