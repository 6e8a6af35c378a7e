"""``tpudeck runs …``: what there is, and how it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli import run_transfers, runs_control, runs_tidy
from tpudeck.cli.output import emit_json, emit_line, emit_table, narrate
from tpudeck.cli.which import RUN, RUNS, STORE, find, home_with_runs

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

app = typer.Typer(
    help="List, watch, stop, resume, compare and tidy up runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    # What the root gives its other commands: main() calls this one by itself.
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JSON = typer.Option(False, "--json", help="Print JSON.")
STATUS = typer.Option([], "--status", help="Only runs in this state; may be given more than once.")
TAG = typer.Option([], "--tag", help="Only runs with this tag; may be given more than once.")
METRIC = typer.Option(["loss"], "--metric", help="A metric; may be given more than once.")
OUT = typer.Option(None, "--out", "-o", help="A file instead of standard output.")


@app.command(name="list")
def list_runs(
    as_json: bool = JSON,
    everything: bool = typer.Option(False, "--all", help="Archived runs too."),
    status: list[str] = STATUS,
    tag: list[str] = TAG,
    limit: int = typer.Option(0, "--limit", help="At most so many, the newest; 0: all."),
    store: str = STORE,
) -> None:
    """Every run, newest first."""
    from tpudeck.runs.index import RunIndex

    _check_statuses(status)
    runs = [
        run
        for run in RunIndex(home_with_runs(store)).refresh()
        if (everything or not run.archived) and (not status or run.status in status) and set(tag) <= set(run.tags)
    ][: limit or None]
    if as_json:
        emit_json([run.to_dict() for run in runs])
        return
    if not runs:
        narrate(f"no runs in {store}" if store else "no runs; tpudeck run quickstart makes one")
        return
    columns = ("run", "status", "step", "loss", "eval loss", "age", "tokens/s", "name", "evidence")
    emit_table(columns, [_row(run) for run in runs], fit=True)


def _check_statuses(wanted: list[str]) -> None:
    from tpudeck.errors import InputError
    from tpudeck.runs.status import STATUSES

    for status in wanted:
        if status not in STATUSES:
            raise InputError(f"a status is one of {', '.join(STATUSES)}, got {status!r}")


def _row(run: RunSummary) -> tuple[str, ...]:
    import time

    from tpudeck.units import format_count, format_duration

    step = "" if run.step is None else f"{run.step}/{run.total_steps}" if run.total_steps else str(run.step)
    return (
        run.id,
        run.status,
        step or ("" if run.progress is None else f"{run.stage} {run.progress:.0%}"),
        _number(run.loss),
        _number(run.eval_loss),
        format_duration(max(0.0, time.time() - run.created)),
        "" if run.tokens_per_s is None else format_count(run.tokens_per_s),
        run.name,
        run.evidence,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


@app.command()
def show(run: str = RUN, as_json: bool = JSON, store: str = STORE) -> None:
    """One run: its state and how we know, its numbers, its newest events."""
    from tpudeck.runs.reader import RunReader

    snapshot = RunReader(find(run, store=store)).refresh()
    data = snapshot.summary.to_dict()
    if as_json:
        emit_json(data)
        return
    shown = {key: _shown(key, value) for key, value in data.items() if value not in (None, "", [])}
    if told := _told_by_mirror(Path(data["path"])):
        shown["mirror"] = told
    rows = [(key if first else "", line) for key, text in shown.items() for first, line in _lines(text)]
    emit_table(("key", "value"), rows)


def _told_by_mirror(folder: Path) -> str:
    """The last that the mirror of a run said; empty where it has none, or nothing to say."""
    try:
        return (folder / "mirror.log").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    except OSError:
        return ""


def _lines(text: str) -> list[tuple[bool, str]]:
    """The lines of a text, and whether each is the first."""
    return [(number == 0, line) for number, line in enumerate(text.splitlines())]


def _shown(key: str, value: Any) -> str:
    from datetime import datetime

    from tpudeck.units import format_duration

    if key in {"created", "started", "ended"}:
        return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    if key.endswith("_s") and key != "tokens_per_s":
        return format_duration(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@app.command()
def logs(
    run: str = RUN,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on as the run writes, until it ends."),
    lines: int = typer.Option(200, "--lines", "-n", min=0, help="How many of the last lines."),
    as_json: bool = typer.Option(False, "--json", help="Print each line as a JSON string on a line."),
) -> None:
    """What the stages of a run printed."""
    import time

    from tpudeck.runs.log import LogFollower, tail
    from tpudeck.runs.status import is_live

    folder, say = find(run), emit_line if as_json else typer.echo
    new = LogFollower(folder, from_start=False)
    for line in tail(folder, lines):
        say(line)
    while follow:
        live = is_live(folder)
        for line in new.read():
            say(line)
        if not live:
            return
        time.sleep(0.5)


@app.command()
def watch(run: str = RUN, as_json: bool = JSON) -> None:
    """Attach to a run, wherever it was started; Ctrl-C leaves it running."""
    from tpudeck.cli.follow import Interrupts, follow
    from tpudeck.cli.run import end, view

    folder = find(run)
    with Interrupts() as interrupts:
        snapshot = follow(folder, view(folder, as_json=as_json), interrupts, on_interrupt=lambda: False)
    if snapshot is None:
        narrate(f"{folder.name} goes on; tpudeck runs stop {folder.name} would stop it")
        raise typer.Exit(130)
    if as_json:
        emit_json(snapshot.summary.to_dict())
    end(snapshot, as_json=as_json)


@app.command()
def queue(as_json: bool = JSON) -> None:
    """Who waits for which device, the next one first; tpudeck runs stop takes a run out of the queue."""
    from tpudeck import queue as queues

    rows = []
    for device in queues.devices():
        queues.heal(device)
        holder = queues.holder(device)
        for place, entry in enumerate(queues.entries(device), start=1):
            rows.append(
                {
                    "device": device,
                    "place": place,
                    "id": entry.folder.name,
                    "path": str(entry.folder),
                    "priority": entry.priority,
                    "since": entry.since,
                    "used_by": holder,
                }
            )
    if as_json:
        emit_json(rows)
    elif rows:
        columns = ("device", "place", "id", "priority", "used_by")
        emit_table([name.upper() for name in columns], [[row[name] for name in columns] for row in rows])
    else:
        narrate("no run waits")


@app.command()
def export(
    run: str = RUN,
    metric: list[str] = METRIC,
    form: str = typer.Option("csv", "--format", help="csv, json or parquet."),
    smooth: float = typer.Option(0.0, "--smooth", help="Weight of a debiased exponential average, 0 to below 1."),
    out: Path = OUT,
    store: str = STORE,
) -> None:
    """Metrics by step: the points that count, without what a resume replaced."""
    from tpudeck.cli.export import write_metrics

    write_metrics(find(run, store=store), metric, form=form, weight=smooth, out=out)


@app.command()
def compare(run: list[str] = RUNS, as_json: bool = JSON, store: str = STORE) -> None:
    """Runs side by side: their results, and only the settings in which they differ."""
    from tpudeck.cli.compare import comparison

    rows = comparison([find(text, store=store) for text in run])
    if as_json:
        emit_json(rows)
        return
    names = [row["id"] for row in rows]
    keys = [key for key in rows[0] if key != "id"]
    emit_table(("", *names), [(key, *(_cell(row[key]) for row in rows)) for key in keys])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


runs_control.register(app)
runs_tidy.register(app)
run_transfers.register(app)
