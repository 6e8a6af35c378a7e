"""Runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpudeck.config import read_toml
from tpudeck.runs.events import plain
from tpudeck.runs.reader import RunReader

__all__ = ["comparison"]

_RESULTS = (
    "id", "name", "status", "step", "loss", "eval_loss", "best_eval_loss", "baseline_loss", "tokens_per_s",
    "duration_s",
)  # fmt: skip


def comparison(folders: list[Path]) -> list[dict[str, Any]]:
    """One mapping per run with the same keys: results, then the settings in which the runs differ."""
    from tpudeck.presets import flatten

    settings = [dict(flatten(read_toml(folder / "experiment.toml"))) for folder in folders]
    keys = list(dict.fromkeys(key for setting in settings for key in setting))
    differing = [key for key in keys if any(setting.get(key) != settings[0].get(key) for setting in settings)]
    rows = []
    for folder, setting in zip(folders, settings, strict=True):
        summary = RunReader(folder).refresh().summary.to_dict()
        rows.append({key: summary[key] for key in _RESULTS} | {key: plain(setting.get(key)) for key in differing})
    return rows
