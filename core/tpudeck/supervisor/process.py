"""The loop of the supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpudeck import jobs, launch
from tpudeck.errors import InterruptedRunError
from tpudeck.runs.events import (
    Event,
    RunLaunched,
    StageExited,
    StageFinished,
    StageStarted,
    StatusChanged,
    encode_event,
)
from tpudeck.runs.lines import LineFollower
from tpudeck.runs.processes import ProcessIdentity
from tpudeck.runs.summary import RunFiles
from tpudeck.runs.writer import LineWriter
from tpudeck.storage import write_json
from tpudeck.supervisor import console_log
from tpudeck.supervisor.following import Following
from tpudeck.supervisor.stopping import Grace, Stopping, kill_group
from tpudeck.supervisor.wakeups import Wakeups
from tpudeck.units import format_duration

__all__ = ["STAGES", "Ending", "Supervisor"]

STAGES = ("tokenizer", "shards", "train")

TICK_S = 1.0
HEARTBEAT_S = 10.0
HEARTBEAT_PROMISE_S = 30.0
NEWS_S = 5.0
"""New numbers reach ``status.json`` that often; readers of one run take them from the files of the stage."""


@dataclass(frozen=True)
class Ending:
    """How a run, or a stage of it, ended."""

    status: str
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    error: dict[str, Any] | None = None


class Supervisor:
    """Runs the stages of one run, one after the other."""

    def __init__(self, folder: Path, *, stages: Sequence[str] = STAGES, grace: Grace | None = None) -> None:
        self.folder = folder
        self._stages = stages
        self._grace = grace or Grace()
        before = RunFiles.read(folder).status
        self.attempt = 1 + max(int(before.get("attempt") or 0), _attempts(folder))
        self._lines = LineWriter(folder / "supervisor.jsonl")
        self._following = Following(folder, self.attempt)
        self._status = "starting"
        self._evidence = ""
        self._stage: ProcessIdentity | None = None
        self._started = time.time()
        self._written_at = -HEARTBEAT_S
        self._me = ProcessIdentity.of()

    def run(self) -> int:
        """All stages to the end of the run; its exit code."""
        with Wakeups() as self._wakeups:
            self._say(RunLaunched(pid=self._me.pid, host=self._me.host, boot_id=self._me.boot_id))
            self._set_status("starting")
            ending = self._run_stages()
        self._end(ending)
        return 1 if ending.exit_code is None else ending.exit_code

    def _run_stages(self) -> Ending:
        for stage in self._stages:
            if self._stop_wanted():
                return Ending("stopped", InterruptedRunError.exit_code, reason=f"before {stage}")
            ending = self._run_stage(stage)
            if ending.status != "finished":
                return ending
        return Ending("finished", 0)

    # One stage

    def _run_stage(self, stage: str) -> Ending:
        started = StageStarted(stage=stage)
        self._following.begin_stage(started)
        with self._started_stage(stage) as job:
            # The process is in the status before the event says that there is one.
            self._write_status(force=True)
            self._say(started)
            while job.running():
                self._follow()
                self._pass_on_stop()
                self._wakeups.wait(TICK_S)
            kill_group(job.process.pid, signal.SIGKILL)  # whoever of its workers is left
            self._following.look()
        return self._ended_stage(job)

    @contextlib.contextmanager
    def _started_stage(self, stage: str) -> Iterator[jobs.JobProcess]:
        """A stage with its control pipe, which ends when we do."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as control_end, os.fdopen(writing, "wb") as control:
            job = jobs.start(
                stage,
                self.folder,
                stdin=control_end,
                environ={jobs.CONTROL_PIPE: "1", "TPUDECK_ATTEMPT": str(self.attempt)},
                own_session=True,
            )
            control_end.close()
            self._stage = ProcessIdentity.of(job.process.pid)
            self._stopping = Stopping(job.process.pid, ask=control.close, grace=self._grace)
            yield job
            self._stage = None

    def _ended_stage(self, job: jobs.JobProcess) -> Ending:
        code = job.process.returncode
        outcome = job.outcome()
        killed_by = -code if code < 0 else None
        self._say(StageExited(stage=job.task, exit_code=None if code < 0 else code, signal=killed_by))
        if code == 0 and outcome is not None and outcome["ok"]:
            result = outcome["result"]
            self._say(StageFinished(stage=job.task, cached=bool(result.get("cached")), result=result))
            return Ending("finished", 0)
        if killed_by is not None:
            return Ending("killed", signal=killed_by, reason=_kill_reason(job.task, killed_by, self._stopping.began))
        if code == InterruptedRunError.exit_code:
            return Ending("stopped", code, reason=f"in {job.task}")
        error = outcome["error"] if outcome is not None and not outcome["ok"] else None
        reason = error["message"].splitlines()[0] if error else f"{job.task} ended without a result"
        return Ending("failed", code or 1, reason=reason, error=error)

    # Every tick

    def _follow(self) -> None:
        self._following.look()
        self._set_status(*self._present_status())
        self._write_status()

    def _present_status(self) -> tuple[str, str]:
        """Status and evidence while a stage runs."""
        following = self._following
        if self._stopping.began:
            return "stopping", self._stopping.evidence
        if following.silent_s > following.promise_s:
            silent, promise = format_duration(round(following.silent_s)), format_duration(following.promise_s)
            return "stalled", f"{following.latest.phase} silent for {silent}, promised within {promise}"
        return following.latest.status, ""

    def _stop_wanted(self) -> bool:
        return self._wakeups.terminated or jobs.stop_requested(self.folder)

    def _pass_on_stop(self) -> None:
        if self._stop_wanted():
            self._stopping.request(now=launch.stop_now_requested(self.folder))
            self._set_status("stopping", self._stopping.evidence)

    # What is written down

    def _say(self, event: Event) -> None:
        self._lines.append(encode_event(event, time=time.time(), attempt=self.attempt))

    def _set_status(self, status: str, evidence: str = "") -> None:
        changed = status != self._status
        self._status, self._evidence = status, evidence
        if changed or self._written_at < 0:
            self._say(StatusChanged(status=status, reason=evidence))
            self._write_status(force=True)

    def _write_status(self, *, force: bool = False, **ending: Any) -> None:
        """Replace ``status.json`` where it is time to; a disk without room only makes it older."""
        now = time.monotonic()
        due_s = NEWS_S if self._following.changed else HEARTBEAT_S
        if not force and now - self._written_at < due_s:
            return
        self._written_at = now
        console_log.rotate(self.folder / "console.log")
        with contextlib.suppress(OSError):
            write_json(self.folder / "status.json", self._status_data() | ending)

    def _status_data(self) -> dict[str, Any]:
        return {
            "status": self._status,
            "evidence": self._evidence,
            "attempt": self.attempt,
            "started": self._started,
            "heartbeat": time.time(),
            "heartbeat_promise_s": HEARTBEAT_PROMISE_S,
            "supervisor": self._me.to_dict(),
            "stage_process": self._stage.to_dict() if self._stage else None,
            "latest": self._following.latest.to_dict(),
        }

    def _end(self, ending: Ending) -> None:
        self._status, self._evidence = ending.status, ending.reason
        self._say(
            StatusChanged(status=ending.status, reason=ending.reason, exit_code=ending.exit_code, signal=ending.signal)
        )
        self._write_status(
            force=True,
            ended=time.time(),
            exit_code=ending.exit_code,
            signal=ending.signal,
            reason=ending.reason,
            error=ending.error,
        )
        self._lines.close()


def _attempts(folder: Path) -> int:
    """How many attempts there were, by the supervisors' own lines."""
    rows, _ = LineFollower(folder / "supervisor.jsonl").rows()
    return max((row["attempt"] for row in rows if isinstance(row.get("attempt"), int)), default=0)


def _kill_reason(stage: str, number: int, asked: bool) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if asked:
        return f"{stage} was ended by {name} before it had saved a checkpoint"
    likely = ": perhaps the machine ran out of memory" if number == signal.SIGKILL else ""
    return f"{stage} was ended by {name}{likely}"
