"""What people change about a run afterwards: its name, tags, note, whether it is archived, and whether it is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.runs import locks
from tpudeck.storage import read_json, write_json

__all__ = ["change_meta", "checked_tags", "move_to_trash", "read_meta", "restore"]


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Each tag once; raises where one is no single word."""
    for tag in tags:
        if not tag or re.search(r"[\s,]", tag):
            raise InputError(f"a tag is a word, without white space and commas, got {tag!r}")
    return list(dict.fromkeys(tags))


def read_meta(folder: Path) -> dict[str, Any]:
    try:
        return dict(read_json(folder / "meta.json"))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}


def change_meta(folder: Path, **changes: Any) -> None:
    """Change some of ``meta.json``, leave the rest."""
    lock = locks.acquire(folder / "meta.lock", mode=0o644)
    if lock is None:
        raise RetryLaterError(f"somebody else is changing {folder.name}", hint="try again")
    try:
        write_json(folder / "meta.json", read_meta(folder) | changes)
    except OSError as error:
        raise InputError(f"{folder / 'meta.json'} cannot be written: {error.strerror}") from error
    finally:
        locks.release(lock)


def move_to_trash(home: Home, folder: Path) -> Path:
    """Move a run that nobody looks after into the trash folder; where it is now."""
    lock = locks.acquire(folder / "run.lock")
    if lock is None or locks.held(folder / "stage.lock"):
        if lock is not None:
            locks.release(lock)
        raise RetryLaterError(f"{folder.name} is running: nothing running can be deleted", hint="stop it first")
    try:
        home.trash.mkdir(parents=True, exist_ok=True)
        target = home.trash / folder.name
        number = 1
        while target.exists():
            number += 1
            target = home.trash / f"{folder.name}.{number}"
        return folder.rename(target)
    except OSError as error:
        raise InputError(f"{folder} cannot be moved to {home.trash}: {error.strerror}") from error
    finally:
        locks.release(lock)


def restore(home: Home, folder: Path) -> Path:
    """Move a run out of the trash folder to where it was; where it is now."""
    target = home.runs / str(read_json(folder / "run.json")["id"])
    if target.exists():
        raise InputError(f"there is a run {target.name} already", hint=f"move {folder} by hand")
    try:
        home.runs.mkdir(parents=True, exist_ok=True)
        return folder.rename(target)
    except OSError as error:
        raise InputError(f"{folder} cannot be moved to {home.runs}: {error.strerror}") from error
