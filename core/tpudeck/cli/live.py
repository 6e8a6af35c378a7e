"""A run in a standing terminal: stages with a tick, a bar, and the numbers that matter, redrawn in place."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tpudeck.cli.follow import describe
from tpudeck.runs.events import (
    AlertRaised,
    AttemptStarted,
    CheckpointRejected,
    Noticed,
    StageFinished,
)
from tpudeck.runs.reader import RunSnapshot
from tpudeck.runs.summary import RunSummary
from tpudeck.units import format_duration, format_rate

__all__ = ["LiveView"]

_STAGES = ("tokenizer", "shards", "train")
_ABOVE = (AlertRaised, AttemptStarted, CheckpointRejected, Noticed)
"""Events that stay as a line above the picture."""


class LiveView:
    """Redraws one picture on standard error; what is worth keeping scrolls by above it."""

    def __init__(self, *, from_event: int = 0) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._told = from_event
        self._live.start()

    def show(self, snapshot: RunSnapshot) -> None:
        for line in snapshot.events[self._told :]:
            if isinstance(line.event, _ABOVE) and (text := describe(line.event)):
                style = "yellow" if isinstance(line.event, (AlertRaised, CheckpointRejected)) else "dim"
                self._live.console.print(Text(text, style=style))
        self._told = len(snapshot.events)
        self._live.update(self._picture(snapshot))

    def close(self) -> None:
        self._live.stop()

    def _picture(self, snapshot: RunSnapshot) -> RenderableType:
        summary = snapshot.summary
        head = Text(summary.name, style="bold") + Text(f"  {summary.status}", style=_style(summary.status))
        if summary.evidence and summary.status != "finished":
            head += Text(f"  {summary.evidence}", style="dim")
        parts: list[RenderableType] = [head, self._stages(snapshot)]
        if summary.stage == "train":
            parts.append(_numbers(summary))
        return Group(*parts)

    def _stages(self, snapshot: RunSnapshot) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=2)
        grid.add_column(width=9)
        grid.add_column()
        finished = {
            line.event.stage: line.event
            for line in snapshot.events
            if isinstance(line.event, StageFinished) and line.attempt == snapshot.summary.attempt
        }
        for stage in _STAGES:
            if stage in finished:
                text = describe(finished[stage]).removeprefix(stage).strip()
                if stage == "train":
                    text = f"{snapshot.summary.step or 0:,} steps"
                grid.add_row(Text(" ✓", style="green"), stage, Text(text, style="dim"))
            elif stage == snapshot.summary.stage and snapshot.summary.live:
                grid.add_row(self._spinner, stage, _bar(snapshot.summary))
            elif stage == snapshot.summary.stage and snapshot.summary.status != "finished":
                grid.add_row(Text(" ✗", style="red"), stage, Text(snapshot.summary.status, style="dim"))
            else:
                grid.add_row("", Text(stage, style="dim"), "")
        return grid


def _style(status: str) -> str:
    return {"failed": "red", "killed": "red", "lost": "red", "stalled": "yellow", "finished": "green"}.get(
        status, "cyan"
    )


def _bar(summary: RunSummary) -> RenderableType:
    if summary.progress is None:
        return Text(summary.phase, style="dim")
    grid = Table.grid(padding=(0, 1))
    left = f"  {format_duration(summary.remaining_s)} left" if summary.remaining_s else ""
    if summary.stage == "train" and summary.total_steps:
        where = f"{summary.step or 0:,}/{summary.total_steps:,}{left}"
    else:
        where = f"{summary.progress:.0%}"
    grid.add_row(ProgressBar(total=1.0, completed=summary.progress, width=32), Text(where))
    return grid


def _numbers(summary: RunSummary) -> Text:
    parts = []
    if summary.loss is not None:
        parts.append(f"loss {summary.loss:.4f}")
    if summary.eval_loss is not None:
        against = f" against {summary.baseline_loss:.4f}" if summary.baseline_loss is not None else ""
        parts.append(f"eval loss {summary.eval_loss:.4f}{against} for token frequencies")
    if summary.tokens_per_s is not None:
        parts.append(format_rate(summary.tokens_per_s, "tokens"))
    return Text("   " + "   ".join(parts))
