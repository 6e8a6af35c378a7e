"""What is done to a run that is there: start it, go on with it, and ask it for something."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpudeck.errors import InputError, RetryLaterError
from tpudeck.launch.options import read_options
from tpudeck.runs import locks
from tpudeck.runs.processes import ProcessIdentity
from tpudeck.runs.summary import RunFiles
from tpudeck.storage import read_json, write_json

__all__ = [
    "request_checkpoint",
    "request_profile",
    "request_stop",
    "require_own",
    "resume",
    "start",
    "stop_now_requested",
    "withdraw_profile",
]

SUPERVISOR = (sys.executable, "-m", "tpudeck.supervisor")
"""The command that takes a run folder and looks after it."""


def start(folder: Path) -> int:
    """Start a supervisor on a run folder; its process id.

    Raises :class:`RetryLaterError` where the run has an owner.
    """
    lock = _take(folder)
    try:
        return _spawn(folder, lock)
    finally:
        locks.release(lock)


def resume(folder: Path) -> int:
    """Go on with a run that ended before it was finished, as a new attempt."""
    from tpudeck.doctor import refuse_what_cannot_start
    from tpudeck.presets import load_experiment

    require_own(folder)
    refuse_what_cannot_start(load_experiment(folder / "experiment.toml"))
    lock = _take(folder)
    try:
        if RunFiles.read(folder).status.get("status") == "finished":
            raise InputError(f"{folder.name} has finished: there is nothing to resume")
        for request in (folder / "requests").glob("*.json"):
            request.unlink()
        return _spawn(folder, lock)
    finally:
        locks.release(lock)


def _take(folder: Path) -> int:
    """The lock of a run that nobody looks after."""
    lock = locks.acquire(folder / "run.lock")
    if lock is None:
        raise RetryLaterError(f"{folder.name} is running", hint=f"tpudeck runs watch {folder.name}")
    if locks.held(folder / "stage.lock"):
        locks.release(lock)
        raise RetryLaterError(f"a stage of {folder.name} is still saving what it has", hint="try again in a moment")
    return lock


def _spawn(folder: Path, lock: int) -> int:
    (folder / "requests").mkdir(exist_ok=True)
    # Not from where the user stands: a file there could hide a module of the same name.
    environ = dict(os.environ) | {"PYTHONSAFEPATH": "1"}
    if folder.parent.name == "runs":
        environ["TPUDECK_HOME"] = str(folder.parent.parent)
    with (folder / "console.log").open("ab") as log:
        process = subprocess.Popen(
            [*SUPERVISOR, str(folder), "--lock", str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=folder,
            env=environ,
        )
    # Whoever lives longer than the run must not keep a zombie of its supervisor.
    threading.Thread(target=process.wait, name="supervisor-ended", daemon=True).start()
    if store := read_options(folder).mirror:
        _spawn_mirror(folder, store, environ)
    return process.pid


def _spawn_mirror(folder: Path, store: str, environ: Mapping[str, str]) -> None:
    """Beside the supervisor, not below it: whatever a bucket does, the run doesn't notice."""
    with (folder / "mirror.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tpudeck.mirror", str(folder), f"{store.rstrip('/')}/runs/{folder.name}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            start_new_session=True,
            cwd=folder,
            env=environ,
        )
    threading.Thread(target=process.wait, name="mirror-ended", daemon=True).start()


def require_own(folder: Path) -> None:
    """Raise :class:`InputError` for a run that is only a view of one elsewhere: nobody here can do anything to it."""
    from tpudeck.mirror import is_followed

    if is_followed(folder):
        raise InputError(
            f"{folder.name} is only followed here, from a bucket",
            hint="control it where it is; once it has ended there, tpudeck runs pull takes it over",
        )


def request_stop(folder: Path, *, now: bool = False) -> None:
    """Ask a run to save a checkpoint and end; with `now`, to end at once. Asking twice is asking once."""
    now = now or stop_now_requested(folder)
    _request(folder, "stop", now=now)
    if now and not locks.held(folder / "run.lock"):
        _kill_orphan(folder)


def stop_now_requested(folder: Path) -> bool:
    """Whether somebody asked for an end without a checkpoint."""
    try:
        return bool(read_json(folder / "requests" / "stop.json").get("now"))
    except (FileNotFoundError, ValueError):
        return False


def _kill_orphan(folder: Path) -> None:
    """End a stage whose supervisor is gone; nobody else would."""
    stage = RunFiles.read(folder).status.get("stage_process")
    if stage and locks.held(folder / "stage.lock") and ProcessIdentity.from_dict(stage).alive:
        os.killpg(int(stage["pid"]), signal.SIGKILL)


def request_checkpoint(folder: Path) -> None:
    """Ask a run to save a checkpoint at its next step and go on."""
    _request(folder, "checkpoint")


def request_profile(folder: Path, *, steps: int) -> None:
    """Ask a run to profile its next steps and go on."""
    _request(folder, "profile", steps=steps)


def withdraw_profile(folder: Path) -> None:
    """Take the question back where nobody waits for the answer any more."""
    (folder / "requests" / "profile.json").unlink(missing_ok=True)


def _request(folder: Path, what: str, **more: Any) -> None:
    require_own(folder)
    path = folder / "requests" / f"{what}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"time": time.time(), "process": os.getpid()} | more)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="only its owner can control a run"
        ) from error
