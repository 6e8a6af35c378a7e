"""Work in a child process: started with a folder, watched through files, ended with a result file.

A *task* is a name and the module that does it; ``python -m MODULE TASK FOLDER`` does it. The folder is a run folder
(the task is then a stage of the run) or a job folder made for the occasion (a data command, fill-mask, export). In it

* ``experiment.toml``   the complete experiment (input),
* ``request.json``      what else the task was asked (input, optional; a stage of a run has none),
* ``progress.json``     done, total, unit, rate, replaced a few times a second,
* ``events.jsonl``      what happened,
* ``results/TASK.json`` ``{"ok": true, "result": …}`` or ``{"ok": false, "error": …, "exit_code": …}``, written last,
* ``stage.lock``        held by the child for as long as it lives,
* ``requests/``         files a front end leaves: ``stop.json``, ``checkpoint.json``, ``profile.json``.

A child is asked to stop by ``requests/stop.json``, by SIGTERM or SIGINT, or by the end of its standard input where that
is its parent's control pipe; it then keeps what it has, and exits with 130.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NoReturn

import orjson

from tpudeck import errors
from tpudeck.config import Home
from tpudeck.errors import InterruptedRunError, RetryLaterError, TpudeckError, WorkError, in_one_line, of_system
from tpudeck.runs import locks
from tpudeck.runs.events import plain
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["TASKS", "Job", "JobProcess", "main", "run", "start", "stop_requested", "temporary_folder"]

TASKS: dict[str, str] = {
    "tokenizer": "tpudeck.tokenizer",
    "shards": "tpudeck.shards",
    "inspect-corpus": "tpudeck.inspection",
    "inspect-tokenizer": "tpudeck.inspection",
    "inspect-shards": "tpudeck.inspection",
    "train": "tpudeck.training",
    "export": "tpudeck.training",
    "fill-mask": "tpudeck.training",
    "generate": "tpudeck.training",
    "profile": "tpudeck.training",
    "preflight": "tpudeck.preflight",
    "lower": "tpudeck.preflight",
    "compile": "tpudeck.preflight",
}
"""Task → the module that does it."""

_LOOK_EVERY_S = 0.2

_OWNER = "owner.lock"
"""In a job folder: held by its maker."""

CONTROL_PIPE = "TPUDECK_CONTROL_PIPE"
"""Set to 1 in a child whose standard input is its parent's control pipe."""


class Job:
    """The child's side: its input, and how it speaks."""

    def __init__(self, task: str, folder: Path, writer: RunWriter, stop: threading.Event) -> None:
        self.task = task
        self.folder = folder
        self.writer = writer
        self._stop = stop
        self._started = time.monotonic()

    @property
    def home(self) -> Home:
        return Home.here()

    def experiment(self) -> Experiment:
        """The complete experiment of this folder."""
        from tpudeck.presets import load_experiment

        return load_experiment(self.folder / "experiment.toml")

    def request(self) -> dict[str, Any]:
        """What else was asked; empty for a stage of a run."""
        path = self.folder / "request.json"
        return dict(read_json(path)) if path.exists() else {}

    @property
    def stopping(self) -> bool:
        """Whether somebody asked for an end; look between units of work."""
        return self._stop.is_set() or stop_requested(self.folder)

    def check_stop(self) -> None:
        """Raise :class:`InterruptedRunError` where somebody asked for an end."""
        if self.stopping:
            raise InterruptedRunError(f"{self.task} was asked to stop")

    @contextlib.contextmanager
    def nothing_to_save(self, *, deadline_s: float = math.inf, late: TpudeckError | None = None) -> Iterator[None]:
        """Within this, somebody who asks for an end gets it at once, whatever the main thread is in: a compiler hears
        nothing for minutes. Past the deadline the task ends with the error `late`: a device may never answer."""
        over, end = threading.Event(), time.monotonic() + deadline_s

        def watch() -> None:
            while not over.wait(_LOOK_EVERY_S):
                if self.stopping:
                    _end(self.folder, self.task, InterruptedRunError(f"{self.task} was asked to stop"))
                if late is not None and time.monotonic() > end:
                    _end(self.folder, self.task, late)

        watcher = threading.Thread(target=watch, daemon=True, name="nothing-to-save")
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def progress(self, done: float, total: float | None, unit: str, *, force: bool = False, **more: Any) -> None:
        """Say how far the work is; rates and the time left follow from it."""
        elapsed_s = time.monotonic() - self._started
        self.writer.progress(
            force=force, task=self.task, done=done, total=total, unit=unit, elapsed_s=elapsed_s, **more
        )


def stop_requested(folder: Path) -> bool:
    return (folder / "requests" / "stop.json").exists()


def main(tasks: Mapping[str, Callable[[Job], Mapping[str, Any]]], argv: list[str] | None = None) -> NoReturn:
    """The body of a task module's ``__main__``: do the task, write the result, exit with its code."""
    task, folder_text = sys.argv[1:] if argv is None else argv
    folder = Path(folder_text)
    stop = threading.Event()
    _listen(stop)
    with _stage_lock(folder):
        attempt = int(os.environ.get("TPUDECK_ATTEMPT", "0"))
        writer = RunWriter(folder, attempt=attempt)
        (folder / "results").mkdir(exist_ok=True)
        try:
            outcome = plain(dict(tasks[task](Job(task, folder, writer, stop))))
        except BaseException as error:  # noqa: BLE001 (the last resort of a process: everything becomes a result)
            outcome = _explained(error)
        writer.close()
        _end(folder, task, outcome)


def _end(folder: Path, task: str, outcome: dict[str, Any] | TpudeckError) -> NoReturn:
    """Write the result down and leave. TensorFlow's threads and exit handlers have nothing more to do, and may hang."""
    if isinstance(outcome, TpudeckError):
        code = outcome.exit_code
        written: dict[str, Any] = {"ok": False, "error": outcome.to_dict(), "exit_code": code}
        print(f"{task}: {outcome.show()}", file=sys.stderr)
    else:
        code, written = 0, {"ok": True, "result": outcome}
    with contextlib.suppress(OSError):
        write_json(folder / "results" / f"{task}.json", written)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _explained(error: BaseException) -> TpudeckError:
    if isinstance(error, TpudeckError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return InterruptedRunError("interrupted")
    traceback.print_exception(error)
    if isinstance(error, OSError):
        return of_system(error, where=str(Home.here().root))
    if isinstance(error, MemoryError):
        return WorkError("out of memory", hint="a smaller batch or sequence length needs less")
    return WorkError(in_one_line(error), hint="the log has the details")


def _listen(stop: threading.Event) -> None:
    """Turn SIGTERM, SIGINT and the end of the control pipe into the stop flag; a second SIGINT interrupts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    if os.environ.get(CONTROL_PIPE) == "1":
        threading.Thread(target=_watch_pipe, args=(stop,), daemon=True, name="control-pipe").start()


def _watch_pipe(stop: threading.Event) -> None:
    while select.select([0], [], []) and os.read(0, 4096):
        pass
    stop.set()


@contextlib.contextmanager
def _stage_lock(folder: Path) -> Iterator[None]:
    descriptor = locks.acquire(folder / "stage.lock")
    if descriptor is None:
        print(f"{folder} is in use by another process", file=sys.stderr)
        sys.exit(RetryLaterError.exit_code)
    try:
        yield
    finally:
        locks.release(descriptor)


class JobProcess:
    """The parent's side of a child that does a task."""

    def __init__(self, task: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.task = task
        self.folder = folder
        self.process = process

    def progress(self) -> dict[str, Any]:
        """The newest ``progress.json``; empty before the first."""
        try:
            return dict(read_json(self.folder / "progress.json"))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}

    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Ask for an end; what was done so far is kept."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)

    def outcome(self) -> dict[str, Any] | None:
        """What the child wrote down at its end; none where it came to no end of its own."""
        try:
            return dict(read_json(self.folder / "results" / f"{self.task}.json"))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None

    def _last_words(self) -> str:
        """The end of its output: a temporary folder does not outlive the error."""
        lines = (self.folder / "console.log").read_bytes()[-4096:].decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return f"the last it said was: {said[-1][:500]}" if said else "it said nothing"

    def result(self) -> dict[str, Any]:
        """Wait for the end; the result, or the child's own error."""
        code = self.process.wait()
        outcome = self.outcome()
        if outcome is None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code} and no result"
            raise WorkError(f"{self.task} {how}", hint=self._last_words())
        if outcome["ok"]:
            return dict(outcome["result"])
        raise errors.from_dict(outcome["error"])


def start(
    task: str,
    folder: Path,
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    environ: Mapping[str, str] | None = None,
    own_session: bool = False,
    pass_fds: Sequence[int] = (),
) -> JobProcess:
    """Start a task on a folder that holds its input. Its output goes to ``console.log`` there."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / f"{task}.json").unlink(missing_ok=True)
    (folder / "progress.json").unlink(missing_ok=True)
    with (folder / "console.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", TASKS[task], task, str(folder)],
            stdin=stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            pass_fds=pass_fds,
            start_new_session=own_session,
            env=dict(os.environ) | {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"} | dict(environ or {}),
        )
    return JobProcess(task, folder, process)


@contextlib.contextmanager
def temporary_folder(home: Home, experiment: Experiment, request: Mapping[str, Any]) -> Iterator[Path]:
    """A job folder under the cache, with its input written; gone afterwards.

    Where its owner is killed it stays, until the next one is made.
    """
    from tpudeck.presets import save_experiment

    jobs = home.cache / "jobs"
    jobs.mkdir(parents=True, exist_ok=True)
    _sweep(jobs)
    made = Path(tempfile.mkdtemp(dir=jobs, prefix="."))
    owner = locks.acquire(made / _OWNER)
    folder = made.rename(jobs / made.name.removeprefix("."))  # from here on it can be seen, and is seen to be owned
    try:
        save_experiment(experiment, folder / "experiment.toml")
        write_json(folder / "request.json", plain(dict(request)))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if owner is not None:
            locks.release(owner)


def _sweep(jobs: Path) -> None:
    """Remove the job folders of which neither the owner nor a child lives."""
    for folder in jobs.glob("[!.]*"):
        with contextlib.suppress(OSError):
            owner = locks.acquire(folder / _OWNER, tries=1)
            if owner is None:
                continue
            if not locks.held(folder / "stage.lock"):
                shutil.rmtree(folder, ignore_errors=True)
            locks.release(owner)


def run(
    task: str,
    experiment: Experiment,
    *,
    request: Mapping[str, Any] | None = None,
    home: Home | None = None,
    on_progress: Callable[[dict[str, Any]], None] = lambda progress: None,
    poll_s: float = 0.1,
) -> dict[str, Any]:
    """Do a task in a child of its own and wait: the result, or the child's error.

    ``on_progress`` is called with ``progress.json`` as it changes. Ctrl-C asks the child to stop and waits for it; a
    child whose parent was killed sees its control pipe end, and stops too.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(home or Home.here(), experiment, request or {}))
        reading, writing = os.pipe()
        stack.callback(os.close, writing)
        with os.fdopen(reading, "rb") as control_end:
            job = start(task, folder, stdin=control_end, environ={CONTROL_PIPE: "1"}, own_session=True)
        try:
            last: dict[str, Any] = {}
            while job.running():
                time.sleep(poll_s)
                progress = job.progress()
                if progress and progress != last:
                    on_progress(progress)
                    last = progress
        except BaseException:
            job.stop()
            job.process.wait()
            raise
        return job.result()
