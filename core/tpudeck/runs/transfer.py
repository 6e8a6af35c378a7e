"""A run that has ended, to a bucket and from there to another machine, with the artefacts it needs to go on.

The run folder is one set, its tokenizer and its shards are others below it (``artifacts/tokenizers/KEY``,
``artifacts/shards/KEY``), sent first. Brought to another machine, the artefacts land where the run's stages look for
them, and the run is told where that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError
from tpudeck.runs.status import is_live
from tpudeck.storage import bucket, exists, read_json, sets, write_json
from tpudeck.storage.sets import CONTENTS, Progress, Transfer

__all__ = ["pull_artefacts", "pull_run", "push_artefacts", "push_run"]

_NOUNS = {"tokenizer": "tokenizers", "shards": "shards"}
"""Task that makes an artefact → the folder of its kind."""
_PRIVATE = frozenset({"launch.json"})
"""Who is told about alerts: an address can be a secret."""
_KEY = re.compile(r"[0-9a-f]{16,64}")


def push_run(
    run: Path, location: str, *, deadline_s: float, on_progress: Callable[[Progress], None] = lambda progress: None
) -> Transfer:
    """Copy a run, its tokenizer and its shards to a bucket; :class:`InputError` while it is running."""
    if is_live(run):
        raise InputError(f"{run.name} is running", hint=f"tpudeck runs stop {run.name}, then push it")
    location = location.rstrip("/")
    push_artefacts(run, location, deadline_s=deadline_s, on_progress=on_progress)
    return sets.push(run, location, without=_PRIVATE, deadline_s=deadline_s, on_progress=on_progress)


def pull_run(
    location: str, home: Home, *, deadline_s: float, on_progress: Callable[[Progress], None] = lambda progress: None
) -> Transfer:
    """Copy a run to this machine under its id, with what it needs to go on."""
    location = location.rstrip("/")
    if not exists(f"{location}/run.json"):
        raise ArtefactError(f"there is no run at {location}")
    run = home.runs / location.rpartition("/")[2]
    if run.exists():
        raise InputError(f"{run.name} is here already", hint=f"tpudeck runs delete {run.name} moves it to the trash")
    home.runs.mkdir(parents=True, exist_ok=True)
    done = sets.pull(location, run, deadline_s=deadline_s, on_progress=on_progress)
    pull_artefacts(run, location, home, deadline_s=deadline_s, on_progress=on_progress)
    return done


def push_artefacts(
    run: Path,
    location: str,
    *,
    deadline_s: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Copy the tokenizer and the shards of a run, as far as it has them, below its place in a bucket."""
    for task, noun in _NOUNS.items():
        artefact = _artefact(run, task)
        if artefact is not None:
            place = f"{location}/artifacts/{noun}/{artefact.name}"
            sets.push(artefact, place, deadline_s=deadline_s, on_progress=on_progress)


def pull_artefacts(
    run: Path,
    location: str,
    home: Home,
    *,
    deadline_s: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Bring what came with a run to this machine, and point the run's results at it."""
    for task, noun in _NOUNS.items():
        _tell_where(run, task, _pull_artefacts(location, noun, home, deadline_s, on_progress))


def _artefact(run: Path, task: str) -> Path | None:
    """The folder of what a stage of the run made or found; none where it is not there, or is part of the run."""
    told = _result(run, task).get("result", {}).get("folder")
    if not told or not Path(told).is_absolute():
        return None
    folder = Path(told)
    return folder if folder.is_dir() and _KEY.fullmatch(folder.name) else None


def _pull_artefacts(
    location: str, noun: str, home: Home, deadline_s: float | None, on_progress: Callable[[Progress], None]
) -> dict[str, Path]:
    """Key → local folder of every artefact of a kind that came with the run; what is here already is taken."""
    parent = {"tokenizers": home.tokenizers, "shards": home.shards}[noun]
    prefix = f"{location}/artifacts/{noun}/"
    keys = {stored.location.removeprefix(prefix).partition("/")[0] for stored in bucket.scan(prefix)
            if stored.location.endswith(f"/{CONTENTS}")}  # fmt: skip
    places = {}
    for key in filter(_KEY.fullmatch, keys):
        places[key] = parent / key
        if not places[key].exists():
            parent.mkdir(parents=True, exist_ok=True)
            sets.pull(prefix + key, places[key], deadline_s=deadline_s, on_progress=on_progress)
    return places


def _tell_where(run: Path, task: str, places: dict[str, Path]) -> None:
    """Point the result of a stage at this machine's copy of the artefact."""
    outcome = _result(run, task)
    key = Path(str(outcome.get("result", {}).get("folder", ""))).name
    if key in places:
        outcome["result"]["folder"] = str(places[key])
        write_json(run / "results" / f"{task}.json", outcome)


def _result(run: Path, task: str) -> dict[str, Any]:
    """The result file of a stage; empty where it has none."""
    try:
        outcome = read_json(run / "results" / f"{task}.json")
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return dict(outcome) if isinstance(outcome, dict) and isinstance(outcome.get("result"), dict) else {}
