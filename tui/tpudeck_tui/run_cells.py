"""How the facts of a run look in a cell, the same on every screen."""

from __future__ import annotations

import math
import time

from tpudeck.runs.summary import RunSummary
from tpudeck.units import format_count, format_duration
from tpudeck_tui.cells import progress_bar

__all__ = ["STATUSES", "age", "duration", "glyph", "number", "progress", "started", "status", "tags", "tokens_per_s"]

Cell = tuple[str, str]

STATUSES: dict[str, tuple[str, str]] = {
    "queued": ("⋯", "muted"),
    "starting": ("◌", "live"),
    "compiling": ("◌", "live"),
    "running": ("▶", "live"),
    "stalled": ("!", "warning"),
    "stopping": ("◌", "warning"),
    "finished": ("✓", "good"),
    "stopped": ("■", "muted"),
    "failed": ("✗", "bad"),
    "killed": ("✗", "bad"),
    "lost": ("?", "warning"),
}


def glyph(run: RunSummary) -> Cell:
    return STATUSES.get(run.status, ("?", "warning"))


def status(run: RunSummary) -> Cell:
    return run.status, glyph(run)[1]


def number(value: float | None) -> Cell:
    """A loss or the like; what is not finite stands out."""
    if value is None:
        return "–", "quiet"
    if not math.isfinite(value):
        return ("NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"), "bad"
    if 1000 <= abs(value) < 999_999.5:
        return f"{value:,.0f}", ""
    return (f"{value:.3f}" if 0.1 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"), ""


def tokens_per_s(run: RunSummary) -> Cell:
    return ("–", "quiet") if run.tokens_per_s is None else (format_count(run.tokens_per_s), "")


def progress(run: RunSummary, width: int = 9) -> Cell:
    """A bar and a percentage while it runs; where it got to when it has ended."""
    if run.status == "finished":
        return "100 %", "muted"
    if run.progress is None:
        return (run.phase or "–"), "muted"
    percent = f"{run.progress * 100:3.0f} %"
    if not run.live:
        return percent.strip(), "muted"
    filled, rest = progress_bar(run.progress, width - 6)
    return f"{filled}{rest} {percent}", "live"


def duration(run: RunSummary) -> Cell:
    return ("–", "quiet") if run.duration_s is None else (format_duration(run.duration_s), "")


def age(run: RunSummary) -> Cell:
    """How long ago it was made, coarse enough to stay the same for minutes."""
    seconds = time.time() - run.created
    for length, unit in ((86400 * 365, "y"), (86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}", "muted"
    return "now", "muted"


def started(run: RunSummary) -> Cell:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created)), "muted"


def tags(run: RunSummary) -> Cell:
    return " ".join(run.tags), "accent"
