"""Scenarios: a run, a few faults, resumes until it has finished, and a look at what is left."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from fakes import runs
from fakes.stages import loss_after, state_after
from faults.kinds import DEAD, LIVE, MissedError, Patient, can_make_immutable
from faults.report import Report
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck.runs.reader import RunReader
from tpudeck.runs.status import is_live

__all__ = ["own_places", "run_suite"]

STEPS = 300
_FAULTS_PER_RUN = 5
_PATIENCE_S = 90.0


def run_suite(root: Path, *, seed: int, count: int, say: Callable[[str], None] = lambda line: None) -> Report:
    """Inject at least `count` faults into runs below `root`."""
    report = Report()
    with _small_disk(root / "small") as small_disk:
        if small_disk is None:
            report.skipped["full_disk"] = "a small file system cannot be mounted here"
        if not can_make_immutable(root):
            report.skipped["unwritable_folder"] = "the system has no immutable folders"
        number = 0
        while report.injected.total() < count and not report.stuck:
            draw = random.Random(f"{seed}/{number}")
            names = _draw_faults(draw, report)
            disk = small_disk if "full_disk" in names else None
            home = Home((disk or root) / f"home-{number}")
            say(f"seed {seed}/{number}: {', '.join(names)}")
            _scenario(home, draw, names, report, label=f"seed {seed}/{number}")
            number += 1
    return report


def _draw_faults(draw: random.Random, report: Report) -> list[str]:
    """A few kinds, those seen least first, so that a short suite sees most."""
    kinds = [name for name in (*LIVE, *DEAD) if name not in report.skipped]
    draw.shuffle(kinds)
    kinds.sort(key=lambda name: report.injected[name])
    chosen = kinds[:_FAULTS_PER_RUN]
    draw.shuffle(chosen)
    return chosen


def _scenario(home: Home, draw: random.Random, names: list[str], report: Report, *, label: str) -> None:
    os.environ["TPUDECK_HOME"] = str(home.root)
    folder = runs.begin(
        home, steps=STEPS, step_s=draw.choice([0.002, 0.005]), compile_s=draw.choice([0.0, 0.2]), promise_s=1.0
    )
    patient = Patient(folder, draw, report, label)
    try:
        for name in names:
            (_make_live if name in LIVE else _make_dead)(patient)
            if patient.summary.status == "finished":
                break  # what comes now would harm nothing, and does not count
            with contextlib.suppress(MissedError):
                (LIVE | DEAD)[name](patient)
                report.injected[name] += 1
        _finish(patient)
        _check(patient)
    except _StuckError as error:
        log = (folder / "console.log").read_text(errors="replace")[-2000:]
        report.stuck.append(f"{label}: {error}: {patient.summary}\n{log}")
    finally:
        runs.end_everything(home)


class _StuckError(Exception):
    pass


def _settle(patient: Patient) -> None:
    """Wait until nothing of the run lives."""
    deadline = time.monotonic() + _PATIENCE_S
    while is_live(patient.folder):
        if time.monotonic() > deadline:
            raise _StuckError("the run goes on and on")
        time.sleep(0.005)
    # A supervisor that the launcher has just started holds the lock: nothing is between that and its own first word.
    summary = patient.summary
    if summary.live and not is_live(patient.folder) and summary.evidence != "made a moment ago":
        patient.ghost(f"a dead run is called {summary.status} ({summary.evidence})")


def _make_dead(patient: Patient) -> None:
    if is_live(patient.folder):
        launch.request_stop(patient.folder, now=patient.draw.random() < 0.5)
    _settle(patient)


def _make_live(patient: Patient) -> None:
    if is_live(patient.folder) or patient.summary.status == "finished":
        return
    _settle(patient)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            runs.resume(patient.folder)
            return
        except TpudeckError:
            if patient.summary.status == "finished":
                return
            time.sleep(0.01)
    raise _StuckError("it cannot be resumed")


def _finish(patient: Patient) -> None:
    for _ in range(20):
        _settle(patient)
        if patient.summary.status == "finished":
            return
        _make_live(patient)
    raise _StuckError("it never finishes")


def _check(patient: Patient) -> None:
    """As if nothing had happened."""
    report, folder, label = patient.report, patient.folder, patient.label
    loss = RunReader(folder).refresh().metrics["loss"]
    if loss.step.tolist() != list(range(1, STEPS + 1)):
        missing = sorted(set(range(1, STEPS + 1)) - set(loss.step.tolist()))
        report.lost_records.append(f"{label}: steps {missing or loss.step.tolist()}")
    elif loss.value.tolist() != [loss_after(step) for step in range(1, STEPS + 1)]:
        report.lost_records.append(f"{label}: a loss is not what was logged")
    if runs.result(folder)["state"] != state_after(STEPS):
        report.differing_bits.append(f"{label}: the final state")
    left = _processes_of(folder)
    if left:
        patient.ghost(f"processes are left: {left}")
    if is_live(folder):
        patient.ghost("a lock is left")


def _processes_of(folder: Path) -> list[str]:
    """Processes that have the folder in their command line, after a moment in which they may end."""
    for _ in range(200):
        found = []
        for process in psutil.process_iter(["cmdline", "pid"]):
            words = process.info["cmdline"] or []
            if str(folder) in words:
                found.append(f"{process.info['pid']}: {' '.join(words[:4])}")
        if not found:
            break
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def own_places(root: Path) -> Iterator[None]:
    """Locks and homes of our own, whatever else the machine does."""
    before = {name: os.environ.get(name) for name in ("TPUDECK_LOCKS", "TPUDECK_HOME")}
    os.environ["TPUDECK_LOCKS"] = str(root / "locks")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _small_disk(path: Path) -> Iterator[Path | None]:
    """A file system of two megabytes, where one may be mounted."""
    path.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True
    ).returncode
    try:
        yield path if mounted == 0 else None
    finally:
        if mounted == 0:
            subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)
