"""What the TPU compiler said about experiments like this one: asked once, shown from then on."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.devices.inventory import find_chips
from tpudeck.storage import read_json, write_json
from tpudeck.units import format_bytes, format_count

if TYPE_CHECKING:
    from tpudeck.config import Home
    from tpudeck.presets import Experiment

__all__ = ["chip_for", "in_words", "remember", "remembered"]

_COMPILERS = ("tpudeck", "jaxlib", "libtpu")
_PARTS = {"model", "train", "shards", "tokenizer", "device"}
"""What the program of a step depends on, and a little more."""


def chip_for(experiment: Experiment) -> str:
    """The chip that an experiment is for: the one it plans for, else this machine's; empty where there is neither."""
    if planned := experiment.planned_device:
        return planned[0].name
    return next((installed.chip.name for installed in find_chips() if installed.chip), "")


def _file(home: Home, experiment: Experiment, chip: str) -> Path:
    about = [chip, experiment.model_dump(mode="json", include=_PARTS), [_version(name) for name in _COMPILERS]]
    digest = hashlib.sha256(orjson.dumps(about, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return home.cache / "preflight" / "reports" / f"{digest[:32]}.json"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def remembered(home: Home, experiment: Experiment, chip: str) -> dict[str, Any] | None:
    """The report of an earlier preflight, where there was one."""
    try:
        return dict(read_json(_file(home, experiment, chip)))
    except (OSError, orjson.JSONDecodeError, TypeError, ValueError):
        return None


def remember(home: Home, experiment: Experiment, chip: str, report: Mapping[str, Any]) -> None:
    path = _file(home, experiment, chip)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, dict(report))


def in_words(report: Mapping[str, Any]) -> str:
    """A report in a line, with its glyph."""
    head = f"{report['replica_batch_size']} sequences per replica on {report['chip']}"
    if not report["fits"]:
        return f"✗ preflight: {head} do not fit. {report.get('fix', '')}".rstrip()
    room = f"{format_bytes(report['peak_memory_bytes'])} of {format_bytes(report['hbm_bytes'])}"
    bound = report["bound"]
    speed = f"at most {format_count(bound['tokens_per_s'])} tokens/s, bound by {bound['limited_by']}"
    return f"✓ preflight: {head} fit, {room}; {speed}"
