"""Several runs side by side: their results, and only the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpudeck.units import format_count, format_duration
from tpudeck_tui import run_cells
from tpudeck_tui.cells import pad
from tpudeck_tui.plot.curve import MARKERS
from tpudeck_tui.theme import SERIES_COLOURS

if TYPE_CHECKING:
    from tpudeck.runs.reader import RunSnapshot
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["differences", "results"]

_SHARE = 16
"""Cells for a value, at least."""


def _label(index: int, name: str, width: int) -> tuple[str, str]:
    return pad(f"{MARKERS[index % len(MARKERS)]} {name}", width), f"series-{index % SERIES_COLOURS}"


def results(snapshots: Sequence[RunSnapshot], width: int) -> list[TextLine]:
    """A line per run; the best of each column stands out."""
    runs = [snapshot.summary for snapshot in snapshots]
    if not runs:
        return []
    name = max(14, min(32, width - 62))
    losses = {key: [getattr(run, key) for run in runs] for key in ("loss", "eval_loss", "best_eval_loss")}
    best = {key: min((value for value in values if value is not None), default=None) for key, values in losses.items()}
    head = f"{'run':<{name}} {'status':<9} {'step':>9} {'loss':>7} {'eval':>7} {'best':>7} {'tokens/s':>9} {'took':>7}"
    lines: list[TextLine] = [[(head, "header")]]
    for index, run in enumerate(runs):
        status, part = run_cells.status(run)
        line: TextLine = [_label(index, run.name, name), (f" {status:<9}", part)]
        line.append((f" {'–' if run.step is None else format(run.step, ','):>9}", ""))
        for key in losses:
            text, part = run_cells.number(getattr(run, key))
            winner = len(runs) > 1 and getattr(run, key) is not None and getattr(run, key) == best[key]
            line.append((f" {text:>7}", "good" if winner else part))
        speed = "–" if run.tokens_per_s is None else format_count(run.tokens_per_s)
        took = "–" if run.duration_s is None else format_duration(run.duration_s)
        line.append((f" {speed:>9} {took:>7}", ""))
        lines.append(line)
    return lines


def differences(names: Sequence[str], settings: Sequence[Mapping[str, Any]], width: int) -> list[TextLine]:
    """The keys whose values are not the same in all runs: a column per run, as many as fit.

    What is empty is like what is not there: an older version may not have known the key.
    """
    if len(settings) < 2:
        return [[("Two runs or more have differences.", "muted")]]
    settings = [{key: value for key, value in setting.items() if value not in ("", None)} for setting in settings]
    keys = dict.fromkeys(key for setting in settings for key in setting)
    differing = [key for key in keys if any(setting.get(key) != settings[0].get(key) for setting in settings[1:])]
    if not differing:
        return [[("The experiments are the same.", "muted")]]
    key_width = min(28, max(map(len, differing)) + 1)
    columns = max(1, min(len(settings), (width - key_width) // _SHARE))
    each = (width - key_width) // columns
    head: TextLine = [(pad("", key_width), "")]
    head += [_label(index, names[index], each) for index in range(columns)]
    lines: list[TextLine] = [head]
    for key in differing:
        first = settings[0].get(key)
        line: TextLine = [(pad(key, key_width), "muted")]
        for setting in settings[:columns]:
            value = setting.get(key)
            line.append((pad("–" if value is None else str(value), each), "" if value == first else "accent"))
        lines.append(line)
    if columns < len(settings):
        lines.append([(f"{len(settings) - columns} more runs need a wider terminal (z: this panel alone)", "muted")])
    return lines
