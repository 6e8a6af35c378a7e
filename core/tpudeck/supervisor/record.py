"""What the supervisor writes down: ``supervisor.jsonl`` (what happened) and ``status.json`` (how it is now)."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpudeck.runs.events import AlertRaised, Event, RunLaunched, StatusChanged, encode_event
from tpudeck.runs.latest import Latest
from tpudeck.runs.processes import ProcessIdentity
from tpudeck.runs.writer import LineWriter
from tpudeck.storage import write_json
from tpudeck.supervisor import console_log

__all__ = ["Ending", "Record"]

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


class Record:
    """The two files of one attempt. A full disk makes them late, never an error."""

    def __init__(self, folder: Path, attempt: int, latest: Latest) -> None:
        self.folder = folder
        self.attempt = attempt
        self.status = ""
        self.stage: ProcessIdentity | None = None
        self.alerts: list[str] = []
        self.queued_since: float | None = None
        self._latest = latest
        self._evidence = ""
        self._started = time.time()
        self._written_at = 0.0
        self._lines = LineWriter(folder / "supervisor.jsonl")
        self._me = ProcessIdentity.of()
        self.say(RunLaunched(pid=self._me.pid, host=self._me.host, boot_id=self._me.boot_id))
        self.set("starting")

    def say(self, event: Event) -> None:
        """Append an event."""
        self._lines.append(encode_event(event, time=time.time(), attempt=self.attempt))

    def raised(self, alert: AlertRaised) -> None:
        """Remember an alert for the status, whoever raised it."""
        if alert.level != "info" and alert.alert not in self.alerts:
            self.alerts.append(alert.alert)

    def set(self, status: str, evidence: str = "") -> None:
        """The status from now on; a change is an event, and is written at once."""
        changed = status != self.status
        self.status, self._evidence = status, evidence
        if changed:
            self.say(StatusChanged(status=status, reason=evidence))
            self.write()

    def beat(self, *, news: bool) -> None:
        """Write the status again where it is time to."""
        if time.monotonic() - self._written_at >= (NEWS_S if news else HEARTBEAT_S):
            self.write()

    def write(self, **more: Any) -> None:
        """Replace ``status.json``."""
        self._written_at = time.monotonic()
        console_log.rotate(self.folder / "console.log")
        with contextlib.suppress(OSError):
            write_json(self.folder / "status.json", self._data() | more)

    def _data(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "evidence": self._evidence,
            "attempt": self.attempt,
            "started": self._started,
            "heartbeat": time.time(),
            "heartbeat_promise_s": HEARTBEAT_PROMISE_S,
            "supervisor": self._me.to_dict(),
            "stage_process": self.stage.to_dict() if self.stage else None,
            "queued_since": self.queued_since,
            "alerts": self.alerts,
            "latest": self._latest.to_dict(),
        }

    def end(self, ending: Ending) -> None:
        """Write down how it ended; nothing comes after that."""
        self.status, self._evidence = ending.status, ending.reason
        how = {"exit_code": ending.exit_code, "signal": ending.signal, "reason": ending.reason}
        self.say(StatusChanged(status=ending.status, **how))  # type: ignore[arg-type]
        self.write(ended=time.time(), error=ending.error, **how)
        self._lines.close()
