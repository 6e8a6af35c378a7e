"""The faults, each a function of a run that does its harm and returns; the run may live or be dead afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fakes import cli, runs
from faults.report import Report
from tpudeck import launch
from tpudeck.errors import TpudeckError
from tpudeck.runs.reader import RunReader
from tpudeck.runs.status import ENDED, is_live, judge
from tpudeck.runs.summary import RunFiles, RunSummary
from tpudeck.storage import read_json, write_json

__all__ = ["DEAD", "LIVE", "MissedError", "Patient", "can_make_immutable"]


@dataclass
class Patient:
    """The run that suffers."""

    folder: Path
    draw: random.Random
    report: Report
    label: str

    @property
    def summary(self) -> RunSummary:
        return RunReader(self.folder).refresh().summary

    def ghost(self, what: str) -> None:
        self.report.ghosts.append(f"{self.label}: {what}")

    def some_moment(self) -> RunSummary:
        """A moment in some phase of the run."""
        time.sleep(self.draw.uniform(0.0, 0.4))
        return self.summary


class MissedError(Exception):
    """There was nothing left to harm: the fault does not count."""


def _kill(pid: int | None, number: signal.Signals) -> None:
    try:
        if pid is None:
            raise ProcessLookupError
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise MissedError from error


# While the run lives


def kill_stage(patient: Patient) -> None:
    _kill(patient.some_moment().trainer_pid, signal.SIGKILL)


def kill_supervisor(patient: Patient) -> None:
    _kill(patient.some_moment().supervisor_pid, signal.SIGKILL)


def kill_both(patient: Patient) -> None:
    summary = patient.some_moment()
    pids = [summary.supervisor_pid, summary.trainer_pid]
    patient.draw.shuffle(pids)
    _kill(pids[0], signal.SIGKILL)
    with contextlib.suppress(MissedError):
        _kill(pids[1], signal.SIGKILL)


def kill_while_a_checkpoint_is_written(patient: Patient) -> None:
    """As near as can be seen from outside: the moment that one appears."""
    checkpoints = patient.folder / "checkpoints"
    before = len(list(checkpoints.glob("*"))) if checkpoints.exists() else 0
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and patient.summary.live:
        if checkpoints.exists() and len(list(checkpoints.glob("*"))) > before:
            break
    _kill(patient.summary.trainer_pid, signal.SIGKILL)


def kill_and_relaunch_at_once(patient: Patient) -> None:
    _kill(patient.some_moment().supervisor_pid, signal.SIGKILL)
    for _ in range(2000):
        try:
            runs.resume(patient.folder)
            return
        except TpudeckError:
            if patient.summary.status == "finished":
                return
            time.sleep(0.005)
    patient.ghost("a dead run could not be taken up again")


def stop(patient: Patient) -> None:
    patient.some_moment()
    launch.request_stop(patient.folder)


def two_stops_at_once(patient: Patient) -> None:
    patient.some_moment()
    threads = [threading.Thread(target=launch.request_stop, args=(patient.folder,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def stop_now(patient: Patient) -> None:
    patient.some_moment()
    launch.request_stop(patient.folder, now=True)


def terminate_supervisor(patient: Patient) -> None:
    _kill(patient.some_moment().supervisor_pid, signal.SIGTERM)


def terminate_stage(patient: Patient) -> None:
    _kill(patient.some_moment().trainer_pid, signal.SIGTERM)


def hang_up(patient: Patient) -> None:
    _kill(patient.some_moment().supervisor_pid, signal.SIGHUP)


def suspend_stage(patient: Patient) -> None:
    pid = patient.some_moment().trainer_pid
    _kill(pid, signal.SIGSTOP)
    time.sleep(patient.draw.uniform(0.1, 1.5))
    if (said := patient.summary).status in {"lost", "killed"} and said.trainer_pid == pid is not None:
        patient.ghost(f"a suspended stage is called {said.status}")
    with contextlib.suppress(MissedError):
        _kill(pid, signal.SIGCONT)


def suspend_supervisor(patient: Patient) -> None:
    pid = patient.some_moment().supervisor_pid
    _kill(pid, signal.SIGSTOP)
    time.sleep(patient.draw.uniform(0.1, 1.0))
    if pid is not None and (said := patient.summary).status == "lost":
        patient.ghost(f"a suspended supervisor is called {said.status}")
    _kill(pid, signal.SIGCONT)


def two_launches(patient: Patient) -> None:
    """Of several launches of one folder at most one gets through, and none while the run lives."""
    patient.some_moment()
    started: list[int] = []

    def try_it() -> None:
        with contextlib.suppress(TpudeckError):
            started.append(launch.resume(patient.folder))

    with runs.faked_supervisor():
        threads = [threading.Thread(target=try_it) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(started) > 1:
        patient.ghost(f"{len(started)} supervisors for one run")


def jump_the_clock(patient: Patient) -> None:
    """Days forwards or back, as readers see it: that ends nothing."""
    patient.some_moment()
    said = RunFiles.read(patient.folder).status
    locked = is_live(patient.folder)
    state = judge(patient.folder, said, now=time.time() + patient.draw.choice([-1, 1]) * 864_000)
    if locked and is_live(patient.folder) and said.get("status") not in ENDED and state.status in ENDED:
        patient.ghost(f"after a jump of the clock a live run is called {state.status}")


def watcher_dies(patient: Patient) -> None:
    """A front end that watches on a terminal, and dies, or whose terminal closes."""
    terminal, inside = os.openpty()
    watcher = subprocess.Popen(
        [sys.executable, str(Path(cli.__file__)), "runs", "watch", patient.folder.name],
        stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
    )  # fmt: skip
    os.close(inside)
    time.sleep(patient.draw.uniform(0.3, 0.8))
    os.close(terminal)
    watcher.send_signal(patient.draw.choice([signal.SIGKILL, signal.SIGHUP]))
    watcher.wait(timeout=60)


def full_disk(patient: Patient) -> None:
    """No room for a moment. Needs a small file system of its own (see ``small_disk``)."""
    patient.some_moment()
    ballast = patient.folder.parent.parent / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(b"\0" * 4096)
            file.flush()
    time.sleep(patient.draw.uniform(0.1, 0.6))
    ballast.unlink(missing_ok=True)


def unwritable_folder(patient: Patient) -> None:
    """Nothing can be made or replaced in the run folder for a moment, not even by root."""
    patient.some_moment()
    subprocess.run(["chattr", "+i", str(patient.folder)], check=True, capture_output=True)
    time.sleep(patient.draw.uniform(0.1, 0.6))
    subprocess.run(["chattr", "-i", str(patient.folder)], check=True, capture_output=True)


def garbage_beside_a_live_writer(patient: Patient) -> None:
    patient.some_moment()
    _append(patient, b"\x00\xff garbage\n")


# While the run is dead


def _append(patient: Patient, data: bytes) -> None:
    name = patient.draw.choice(["metrics.jsonl", "events.jsonl", "supervisor.jsonl"])
    if (path := patient.folder / name).exists():
        with path.open("ab") as file:
            file.write(data)


def garbage_lines(patient: Patient) -> None:
    _append(patient, patient.draw.choice([b"not json\n", b"[1,2]\n", b"\n\n", b'{"step":"x"}\n', b"\xff\xfe\n"]))


def torn_line(patient: Patient) -> None:
    _append(patient, patient.draw.choice([b'{"step": 7, "ti', b"{", b'{"v":1,"time":1']))


def truncated_checkpoint(patient: Patient) -> None:
    manifests = sorted((patient.folder / "checkpoints").glob("*/manifest.json"))
    if manifests:
        os.truncate(manifests[-1], patient.draw.randrange(manifests[-1].stat().st_size))


def damaged_status(patient: Patient) -> None:
    (patient.folder / "status.json").write_bytes(patient.draw.choice([b"", b"{", b"[]", b'{"status":']))


def _forge_status(patient: Patient, **owner: object) -> None:
    """A status that says "running", by somebody who is not the owner."""
    path = patient.folder / "status.json"
    try:
        said = read_json(path)
        forged = said | {"status": "running", "supervisor": said["supervisor"] | owner}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MissedError from error
    write_json(path, forged)
    if (summary := patient.summary).live and not is_live(patient.folder):
        patient.ghost(f"a dead run with a forged {', '.join(owner)} is called {summary.status}")


def reused_process_id(patient: Patient) -> None:
    """The process id of the dead supervisor belongs to somebody else now: us."""
    _forge_status(patient, pid=os.getpid())


def another_boot(patient: Patient) -> None:
    _forge_status(patient, boot_id="another")


Fault = Callable[[Patient], None]

LIVE: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill_stage, kill_supervisor, kill_both, kill_while_a_checkpoint_is_written, kill_and_relaunch_at_once,
        stop, two_stops_at_once, stop_now, terminate_supervisor, terminate_stage, hang_up,
        suspend_stage, suspend_supervisor, two_launches, jump_the_clock, watcher_dies, full_disk, unwritable_folder,
        garbage_beside_a_live_writer,
    )
}  # fmt: skip
DEAD: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (garbage_lines, torn_line, truncated_checkpoint, damaged_status, reused_process_id, another_boot)
}


def can_make_immutable(folder: Path) -> bool:
    """Whether `unwritable_folder` can be injected below here."""
    if shutil.which("chattr") is None:
        return False
    probe = folder / "immutable"
    probe.mkdir()
    done = subprocess.run(["chattr", "+i", str(probe)], capture_output=True)
    subprocess.run(["chattr", "-i", str(probe)], capture_output=True)
    probe.rmdir()
    return done.returncode == 0
