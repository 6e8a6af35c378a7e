"""What state a run is in, and how we know.

The words: ``queued``, ``starting``, ``compiling``, ``running``, ``stalled``, ``stopping`` while its supervisor lives,
then ``finished``, ``stopped``, ``failed`` (an exit code), ``killed`` (a signal), or ``lost``: nobody wrote down an
end.

Who is believed, in this order: the lock of the run, which the kernel frees when its owner dies; the process of the
supervisor by id, start time, boot and host, where a network disk makes locks unreliable; its heartbeat, within the
promise it made, where it lives on another machine. A file that merely says "running" proves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpudeck.runs.locks import held
from tpudeck.runs.processes import ProcessIdentity

__all__ = ["ENDED", "LIVE", "STATUSES", "State", "is_live", "judge"]

LIVE = ("queued", "starting", "compiling", "running", "stalled", "stopping")
ENDED = ("finished", "stopped", "failed", "killed", "lost")
STATUSES = LIVE + ENDED

_NEW_S = 10.0
"""A folder without a status may be that young before it counts as never started."""


@dataclass(frozen=True)
class State:
    """A status and its evidence, both for a person to read."""

    status: str
    evidence: str


def is_live(folder: Path) -> bool:
    """Whether a supervisor or a stage of this run lives here."""
    return held(folder / "run.lock") or held(folder / "stage.lock")


def judge(folder: Path, said: Mapping[str, Any], *, now: float | None = None) -> State:
    """The state of a run; `said` is its ``status.json``, empty where there is none."""
    now = time.time() if now is None else now
    status = str(said.get("status", ""))
    locked = held(folder / "run.lock")
    if not said:
        return _without_status(folder, locked, now)
    if status in ENDED:
        return State("starting", "a new attempt has taken the lock") if locked else State(status, _ending(said))
    owner = _owner(said)
    if locked:
        if owner is not None and owner.on_this_host and not owner.alive:
            return State("starting", "another supervisor has taken the lock")
        return _alive(said, now)
    return _ownerless(folder, said, owner, now)


def _owner(said: Mapping[str, Any]) -> ProcessIdentity | None:
    """The supervisor that wrote the status."""
    try:
        return ProcessIdentity.from_dict(said["supervisor"])
    except (KeyError, TypeError, ValueError):
        return None


def _without_status(folder: Path, locked: bool, now: float) -> State:
    if locked:
        return State("starting", "its supervisor holds the lock")
    if (folder / "supervisor.jsonl").exists():
        return State("lost", "its supervisor is gone, and left no status")
    try:
        age_s = now - folder.stat().st_mtime
    except OSError:
        age_s = 0.0
    if age_s < _NEW_S:
        return State("starting", "made a moment ago")
    return State("lost", "was never started, or its supervisor died before its first word")


def _ending(said: Mapping[str, Any]) -> str:
    reason = str(said.get("reason") or "")
    if said.get("signal") is not None:
        return reason or f"signal {said['signal']}"
    parts = [reason] if reason else []
    if said.get("exit_code") is not None:
        parts.append(f"exit code {said['exit_code']}")
    return ", ".join(parts)


def _alive(said: Mapping[str, Any], now: float) -> State:
    """The supervisor lives; but does it still speak?"""
    silent_s, promise_s = _silence(said, now)
    if silent_s > promise_s:
        return State("stalled", f"supervisor silent for {_ago(silent_s)}, promised within {_ago(promise_s)}")
    return State(str(said["status"]), str(said.get("evidence", "")))


def _silence(said: Mapping[str, Any], now: float) -> tuple[float, float]:
    return max(0.0, now - float(said.get("heartbeat", 0.0))), float(said.get("heartbeat_promise_s", 0.0))


def _ownerless(folder: Path, said: Mapping[str, Any], owner: ProcessIdentity | None, now: float) -> State:
    """Nobody holds the lock, and nobody wrote down an end."""
    silent_s, promise_s = _silence(said, now)
    if owner is None:
        return State("lost", f"its status is incomplete, last word {_ago(silent_s)} ago")
    if not owner.on_this_host:
        if silent_s <= promise_s:
            return State(str(said["status"]), f"on {owner.host}, heard {_ago(silent_s)} ago")
        return State("lost", f"on {owner.host}, last word {_ago(silent_s)} ago, promised within {_ago(promise_s)}")
    if not owner.of_this_boot:
        return State("lost", f"this machine has restarted since its last word {_ago(silent_s)} ago")
    if owner.alive:
        return _alive(said, now)
    if held(folder / "stage.lock"):
        return State("stopping", f"supervisor (process {owner.pid}) is gone, its stage is saving what it has")
    return State("lost", f"supervisor (process {owner.pid}) is gone without a word, the last one {_ago(silent_s)} ago")


def _ago(seconds: float) -> str:
    from tpudeck.units import format_duration  # 2 ms, which a list of ended runs need not pay

    return format_duration(max(1.0, round(seconds)))
