"""One line about a run: what a list shows, and what ``runs show --json`` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tpudeck.errors import from_dict
from tpudeck.runs.latest import Latest
from tpudeck.runs.numbers import plain
from tpudeck.runs.processes import ProcessIdentity
from tpudeck.runs.status import ENDED, judge
from tpudeck.storage import read_json

__all__ = ["RunFiles", "RunSummary", "summarise"]


@dataclass(frozen=True)
class RunSummary:
    """A run as it is now; what is not known yet is none."""

    id: str
    name: str
    path: str
    preset: str
    status: str
    evidence: str
    phase: str
    stage: str
    step: int | None
    total_steps: int | None
    loss: float | None
    """Last logged."""
    eval_loss: float | None
    """Of the latest evaluation."""
    best_eval_loss: float | None
    baseline_loss: float | None
    """What a model gets that knows only the frequencies of tokens."""
    tokens_per_s: float | None
    progress: float | None
    """Share of the present stage, 0 to 1."""
    remaining_s: float | None
    trainer_pid: int | None
    """The process of the present stage."""
    supervisor_pid: int | None
    exit_code: int | None
    signal: int | None
    error: str
    """Why it failed, and below it what to do."""
    created: float
    started: float | None
    """Of the newest attempt; seconds since the epoch, like the others."""
    ended: float | None
    duration_s: float | None
    device: str
    """``cpu``, ``gpu``, ``tpu``, or ``tpu-NAME``."""
    attempt: int
    tags: tuple[str, ...] = ()
    note: str = ""
    archived: bool = False
    forked_from: Mapping[str, Any] | None = None
    """The ``run`` that it comes from, and the ``step`` of the checkpoint that it began with (0: none)."""
    alerts: tuple[str, ...] = ()
    """What was raised in the newest attempt, each kind once."""

    @property
    def live(self) -> bool:
        return self.status not in ENDED

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return dict(plain(asdict(self)))


def _read(path: Path) -> dict[str, Any]:
    """A small file that its writer replaces whole; empty where there is none, or where it is damaged."""
    try:
        data = read_json(path)
    except (OSError, orjson.JSONDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


@dataclass(frozen=True, eq=False)
class RunFiles:
    """The small files of a run folder, parsed."""

    run: Mapping[str, Any]
    meta: Mapping[str, Any]
    status: Mapping[str, Any]
    progress: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, *, run: Mapping[str, Any] | None = None) -> RunFiles:
        """`run` is ``run.json`` where it was read before: it never changes."""
        status = _read(folder / "status.json")
        # Once the end is written down, everything of the progress is in there.
        progress = {} if status.get("status") in ENDED else _read(folder / "progress.json")
        return cls(run or _read(folder / "run.json"), _read(folder / "meta.json"), status, progress)

    def latest(self) -> Latest:
        """The newest numbers as the supervisor wrote them down, and what the stage said since."""
        latest = Latest.from_dict(self.status.get("latest") or {})
        if self.progress.get("attempt") == self.status.get("attempt"):
            latest.see_progress(self.progress)
        return latest


def _pid(process: Mapping[str, Any] | None) -> int | None:
    """The id of a process that lives, or that we cannot see from here: never one that now belongs to another."""
    try:
        identity = ProcessIdentity.from_dict(process or {})
    except (KeyError, TypeError, ValueError):
        return None
    return identity.pid if identity.alive or not identity.on_this_host else None


def summarise(folder: Path, files: RunFiles, latest: Latest, *, now: float | None = None) -> RunSummary:
    """The summary of a run from its small files and its newest numbers."""
    now = time.time() if now is None else now
    run, meta, said = files.run, files.meta, files.status
    state = judge(folder, said, now=now)
    live = state.status not in ENDED
    # Where that is not what was said, the numbers are those of an attempt that is over.
    working = state.status in {"starting", "compiling", "running"} and state.status == said.get("status")
    started, ended = said.get("started"), said.get("ended")
    if not live and ended is None and started is not None:
        ended = said.get("heartbeat")
    return RunSummary(
        id=folder.name,
        name=str(meta.get("name") or run.get("name") or folder.name),
        path=str(folder),
        preset=str(run.get("preset") or ""),
        status=latest.status if working and latest.stage else state.status,
        evidence=state.evidence,
        phase=latest.phase,
        stage=latest.stage,
        step=latest.step,
        total_steps=latest.total_steps,
        loss=latest.loss,
        eval_loss=latest.eval_loss,
        best_eval_loss=latest.best_eval_loss,
        baseline_loss=latest.baseline_loss,
        tokens_per_s=latest.tokens_per_s,
        progress=1.0 if state.status == "finished" else latest.progress,
        remaining_s=latest.remaining_s if live else None,
        trainer_pid=_pid(said.get("stage_process")) if live else None,
        supervisor_pid=_pid(said.get("supervisor")) if live else None,
        exit_code=said.get("exit_code"),
        signal=said.get("signal"),
        error=from_dict(said["error"]).show() if said.get("error") else "",
        created=float(run.get("created") or 0.0),
        started=started,
        ended=ended,
        duration_s=None if started is None else max(0.0, (ended or now) - started),
        device=str(run.get("device_key") or run.get("device") or ""),
        attempt=int(said.get("attempt") or 0),
        tags=tuple(meta.get("tags") or ()),
        note=str(meta.get("note") or ""),
        archived=bool(meta.get("archived")),
        forked_from=run.get("forked_from"),
        alerts=tuple(said.get("alerts") or ()),
    )
