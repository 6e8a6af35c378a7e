"""The loop of the supervisor."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck import jobs, launch, queue
from tpudeck.alerts import Notifier, Watchdog
from tpudeck.errors import InterruptedRunError, RetryLaterError
from tpudeck.runs.events import AlertRaised, StageExited, StageFinished, StageStarted
from tpudeck.runs.lines import LineFollower
from tpudeck.runs.processes import ProcessIdentity, host_name
from tpudeck.runs.summary import RunFiles
from tpudeck.supervisor.following import Following
from tpudeck.supervisor.preemption import watch_for_notice
from tpudeck.supervisor.record import Ending, Record
from tpudeck.supervisor.stopping import Grace, Stopping, kill_group
from tpudeck.supervisor.wakeups import Wakeups
from tpudeck.units import format_duration

if TYPE_CHECKING:
    from tpudeck.supervisor.tensorboard import TensorBoardFile

__all__ = ["STAGES", "Supervisor"]

STAGES = ("tokenizer", "shards", "train")

TICK_S = 1.0
_SAMPLE_AFTER_S = 3.0
"""A run that is over sooner needs no samples of the machine."""
_DISK_EVERY_S = 30.0


class Supervisor:
    """Runs the stages of one run, one after the other."""

    def __init__(self, folder: Path, *, stages: Sequence[str] = STAGES, grace: Grace | None = None) -> None:
        self.folder = folder
        self._stages = stages
        self._grace = grace or Grace()
        self._files = RunFiles.read(folder)
        self._options = launch.read_options(folder)
        attempt = 1 + max(int(self._files.status.get("attempt") or 0), _attempts(folder))
        self._following = Following(folder, attempt)
        self._record = Record(folder, attempt, self._following.latest)
        self._watchdog = Watchdog()
        self._notifier = Notifier(self._options.notify, log=folder / "console.log")
        self._tensorboard = _tensorboard_file(folder) if self._options.tensorboard else None
        self._began = time.monotonic()
        self._disk_due = 0.0
        self._notice = ""
        self._sampler: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """All stages to the end of the run; its exit code."""
        with Wakeups() as self._wakeups:
            watch_for_notice(self._take_notice)
            ending = self._run_on_device()
            self._end(ending)
        return 1 if ending.exit_code is None else ending.exit_code

    def _take_notice(self, reason: str) -> None:
        """Called from a thread that watches for the end of the machine."""
        self._notice = reason
        self._wakeups.wake()

    # The device

    def _run_on_device(self) -> Ending:
        device = str(self._files.run.get("device_key") or "cpu")
        lock = self._device_lock(device)
        if isinstance(lock, Ending):
            return lock
        try:
            return self._run_stages(lock)
        finally:
            if lock is not None:
                os.close(lock)

    def _device_lock(self, device: str) -> int | Ending | None:
        """The lock of the device, when it is this run's turn; none where the run shares the device."""
        if not self._options.queue:
            lock = queue.take(device, self.folder)
            if lock is None and device != "cpu":
                reason = f"{device} is used by {queue.holder(device)}"
                error = RetryLaterError(reason, hint="leave out --no-queue to wait for it")
                return Ending("failed", error.exit_code, reason=reason, error=error.to_dict())
            return lock
        before = self._files.status
        since = before.get("queued_since") if before.get("status") == "queued" else None
        with queue.waiting(device, self.folder, since=since) as ticket:
            while (lock := ticket.try_to_take()) is None:
                if self._stop_wanted():
                    return Ending("stopped", InterruptedRunError.exit_code, reason="in the queue")
                self._record.queued_since = ticket.since
                self._record.set("queued", ticket.evidence)
                self._record.beat(news=False)
                queue.heal(device)
                self._wakeups.wait(TICK_S)
        return lock

    # The stages

    def _run_stages(self, device_lock: int | None) -> Ending:
        with self._sampled():
            for stage in self._stages:
                if self._stop_wanted():
                    return Ending("stopped", InterruptedRunError.exit_code, reason=self._notice or f"before {stage}")
                ending = self._run_stage(stage, device_lock)
                if ending.status != "finished":
                    return ending
        return Ending("finished", 0)

    def _run_stage(self, stage: str, device_lock: int | None) -> Ending:
        started = StageStarted(stage=stage)
        self._following.begin_stage(started)
        with self._started_stage(stage, device_lock) as job:
            # The process is in the status before the event says that there is one.
            self._record.write()
            self._record.say(started)
            while job.running():
                self._look(job)
                self._wakeups.wait(TICK_S)
            kill_group(job.process.pid, signal.SIGKILL)  # whoever of its workers is left
            self._take_in_news()
        return self._ended_stage(job)

    @contextlib.contextmanager
    def _started_stage(self, stage: str, device_lock: int | None) -> Iterator[jobs.JobProcess]:
        """A stage with its control pipe, which ends when we do. It inherits the device's lock, which is so kept until
        both of us have let go of the device."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as control_end, os.fdopen(writing, "wb") as control:
            job = jobs.start(
                stage,
                self.folder,
                stdin=control_end,
                environ={jobs.CONTROL_PIPE: "1", "TPUDECK_ATTEMPT": str(self._record.attempt)},
                own_session=True,
                pass_fds=() if device_lock is None else (device_lock,),
            )
            control_end.close()
            self._record.stage = ProcessIdentity.of(job.process.pid)
            self._stopping = Stopping(job.process.pid, ask=control.close, grace=self._grace)
            yield job
            self._record.stage = None

    def _ended_stage(self, job: jobs.JobProcess) -> Ending:
        code = job.process.returncode
        outcome = job.outcome()
        killed_by = -code if code < 0 else None
        self._record.say(StageExited(stage=job.task, exit_code=None if code < 0 else code, signal=killed_by))
        if code == 0 and outcome is not None and outcome["ok"]:
            result = outcome["result"]
            self._record.say(StageFinished(stage=job.task, cached=bool(result.get("cached")), result=result))
            return Ending("finished", 0)
        if killed_by is not None:
            return Ending("killed", signal=killed_by, reason=_kill_reason(job.task, killed_by, self._stopping.began))
        if code == InterruptedRunError.exit_code:
            return Ending("stopped", code, reason=self._notice or f"in {job.task}")
        error = outcome["error"] if outcome is not None and not outcome["ok"] else None
        reason = error["message"].splitlines()[0] if error else f"{job.task} ended without a result"
        return Ending("failed", code or 1, reason=reason, error=error)

    @contextlib.contextmanager
    def _sampled(self) -> Iterator[None]:
        """With a sampler of the machine beside it, once the run has lasted a moment."""
        try:
            yield
        finally:
            if self._sampler is not None:
                self._sampler.terminate()
                self._sampler.wait()

    def _start_sampler(self) -> None:
        with (self.folder / "console.log").open("ab") as log:
            self._sampler = subprocess.Popen(
                [sys.executable, "-m", "tpudeck.devices", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    # Every tick

    def _look(self, job: jobs.JobProcess) -> None:
        self._take_in_news()
        if self._stop_wanted():
            self._stopping.request(now=launch.stop_now_requested(self.folder))
        self._record.set(*self._present_status(job))
        self._look_at_disk()
        self._record.beat(news=self._following.changed)
        if self._sampler is None and time.monotonic() - self._began > _SAMPLE_AFTER_S:
            self._start_sampler()

    def _take_in_news(self) -> None:
        """What the stage wrote since the last look, and what is wrong with it."""
        self._following.look()
        for event in self._following.events:
            self._watchdog.see_event(event)
            if isinstance(event, AlertRaised):
                self._spread(event)
        for row in self._following.rows:
            self._raise_all(self._watchdog.see_metrics(row))
        if self._tensorboard is not None:
            self._tensorboard.add(self._following.rows, self._following.events)

    def _present_status(self, job: jobs.JobProcess) -> tuple[str, str]:
        """Status and evidence while a stage runs."""
        following = self._following
        silent = following.silent_s > following.promise_s and not self._stopping.began
        said = f"{following.latest.phase or job.task} silent for {format_duration(round(following.silent_s))}"
        evidence = f"{said}, promised within {format_duration(following.promise_s)}"
        self._raise_all(self._watchdog.see_silence(silent, evidence))
        if self._stopping.began:
            return "stopping", self._stopping.evidence
        return ("stalled", evidence) if silent else (following.latest.status, "")

    def _look_at_disk(self) -> None:
        if time.monotonic() >= self._disk_due:
            self._disk_due = time.monotonic() + _DISK_EVERY_S
            self._raise_all(self._watchdog.see_disk(shutil.disk_usage(self.folder).free))

    def _stop_wanted(self) -> bool:
        return bool(self._notice) or self._wakeups.terminated or jobs.stop_requested(self.folder)

    # Alerts

    def _raise_all(self, alerts: Iterator[AlertRaised]) -> None:
        for alert in alerts:
            self._record.say(alert)
            self._spread(alert)

    def _spread(self, alert: AlertRaised) -> None:
        """Make an alert known beyond the event files."""
        self._record.raised(alert)
        self._notifier.tell(self._message(alert))

    def _message(self, alert: AlertRaised) -> dict[str, Any]:
        run = self._files.run
        return {
            "alert": alert.alert,
            "level": alert.level,
            "message": alert.message,
            "step": alert.step,
            "time": time.time(),
            "run": {
                "id": self.folder.name,
                "name": run.get("name"),
                "path": str(self.folder),
                "status": self._record.status,
                "attempt": self._record.attempt,
                "host": host_name(),
            },
        }

    def _end(self, ending: Ending) -> None:
        level = "info" if ending.status in {"finished", "stopped"} else "error"
        said = f"the run {'has' if ending.status in {'finished', 'failed'} else 'was'} {ending.status}"
        message = f"{said}: {ending.reason}" if ending.reason else said
        alert = AlertRaised(alert=ending.status, message=message, level=level, step=self._following.latest.step)
        self._record.say(alert)
        self._record.raised(alert)
        self._record.end(ending)
        self._notifier.tell(self._message(alert))


def _tensorboard_file(folder: Path) -> TensorBoardFile:
    from tpudeck.supervisor.tensorboard import TensorBoardFile  # brings numpy

    return TensorBoardFile(folder / "tensorboard")


def _attempts(folder: Path) -> int:
    """How many attempts there were, by the supervisors' own lines."""
    rows, _ = LineFollower(folder / "supervisor.jsonl").rows()
    return max((row["attempt"] for row in rows if isinstance(row.get("attempt"), int)), default=0)


def _kill_reason(stage: str, number: int, asked: bool) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if asked:
        return f"{stage} was ended by {name} before it had saved a checkpoint"
    likely = " (perhaps the machine ran out of memory)" if number == signal.SIGKILL else ""
    return f"{stage} was ended by {name}{likely}"
