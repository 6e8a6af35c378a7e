"""``tpudeck runs …``: what there is, how it is, and what to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli import transfers
from tpudeck.cli.output import emit_json, emit_table, narrate

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

RUN = typer.Argument(..., metavar="RUN", help="A run: its id, a unique beginning of it, its name, a path, or last.")
RUNS = typer.Argument(..., metavar="RUN…", help="Runs: ids, unique beginnings of them, names, paths, or last.")
JSON = typer.Option(False, "--json", help="Print JSON.")
STATUS = typer.Option([], "--status", help="Only runs in this state; may be given more than once.")
TAG = typer.Option([], "--tag", help="Only runs with this tag; may be given more than once.")
METRIC = typer.Option(["loss"], "--metric", help="A metric; may be given more than once.")
OUT = typer.Option(None, "--out", "-o", help="A file instead of standard output.")
ADD_TAGS = typer.Argument(None, metavar="TAG…", help="Tags to add.")
REMOVE_TAGS = typer.Option([], "--remove", help="A tag to take away; may be given more than once.")


def find(text: str) -> Path:
    from tpudeck.config import Home
    from tpudeck.runs.index import find_run

    return find_run(Home.here(), text)


@app.command(name="list")
def list_runs(
    as_json: bool = JSON,
    everything: bool = typer.Option(False, "--all", help="Archived runs too."),
    status: list[str] = STATUS,
    tag: list[str] = TAG,
    limit: int = typer.Option(0, "--limit", help="At most so many, the newest; 0: all."),
) -> None:
    """Every run, newest first."""
    from tpudeck.config import Home
    from tpudeck.runs.index import RunIndex

    _check_statuses(status)
    runs = [
        run
        for run in RunIndex(Home.here()).refresh()
        if (everything or not run.archived) and (not status or run.status in status) and set(tag) <= set(run.tags)
    ][: limit or None]
    if as_json:
        emit_json([run.to_dict() for run in runs])
        return
    if not runs:
        narrate("no runs; tpudeck run quickstart makes one")
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
def show(run: str = RUN, as_json: bool = JSON) -> None:
    """One run: its state and how we know, its numbers, its newest events."""
    from tpudeck.runs.reader import RunReader

    snapshot = RunReader(find(run)).refresh()
    data = snapshot.summary.to_dict()
    if as_json:
        emit_json(data)
        return
    rows = [(key, _shown(key, value)) for key, value in data.items() if value not in (None, "", [])]
    emit_table(("key", "value"), rows)


def _shown(key: str, value: Any) -> str:
    from datetime import datetime

    from tpudeck.units import format_duration

    if key in {"created", "started", "ended"}:
        return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    if key.endswith("_s") and key != "tokens_per_s":
        return format_duration(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", " ")


@app.command()
def logs(
    run: str = RUN,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on as the run writes, until it ends."),
    lines: int = typer.Option(200, "--lines", "-n", help="How many of the last lines."),
) -> None:
    """What the stages of a run printed."""
    import time

    from tpudeck.runs.log import LogFollower, tail
    from tpudeck.runs.status import is_live

    folder = find(run)
    new = LogFollower(folder, from_start=False)
    for line in tail(folder, lines):
        typer.echo(line)
    while follow:
        live = is_live(folder)
        for line in new.read():
            typer.echo(line)
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
def stop(
    run: list[str] = RUNS,
    now: bool = typer.Option(False, "--now", help="At once, without a checkpoint."),
) -> None:
    """Ask runs to save a checkpoint and end."""
    from tpudeck import launch
    from tpudeck.runs.status import is_live

    for folder in map(find, run):
        if is_live(folder):
            launch.request_stop(folder, now=now)
            narrate(f"{folder.name} was asked to stop" + (" at once" if now else ""))
        else:
            narrate(f"{folder.name} is not running")


@app.command()
def checkpoint(run: str = RUN) -> None:
    """Ask a run to save a checkpoint now, and go on."""
    from tpudeck import launch
    from tpudeck.errors import InputError
    from tpudeck.runs.status import is_live

    folder = find(run)
    if not is_live(folder):
        raise InputError(f"{folder.name} is not running")
    launch.request_checkpoint(folder)
    narrate(f"{folder.name} was asked for a checkpoint")


@app.command()
def resume(
    run: str = RUN,
    detach: bool = typer.Option(False, "--detach", "-d", help="Start it and return."),
    as_json: bool = typer.Option(False, "--json", help="Print what happens as lines of JSON."),
) -> None:
    """Go on with a run from its last checkpoint, to the same result as if it had never ended."""
    from tpudeck import launch
    from tpudeck.cli.run import let_go, stay_with

    folder = find(run)
    if detach:
        launch.resume(folder)
        let_go(folder, as_json=as_json)
    else:
        stay_with(folder, start=launch.resume, as_json=as_json)


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
def priority(
    run: str = RUN, value: int = typer.Argument(..., metavar="NUMBER", help="Higher goes first; 0 is usual.")
) -> None:
    """Change the place of a waiting run in its queue."""
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), priority=value)


@app.command()
def export(
    run: str = RUN,
    metric: list[str] = METRIC,
    form: str = typer.Option("csv", "--format", help="csv, json or parquet."),
    smooth: float = typer.Option(0.0, "--smooth", help="Weight of a debiased exponential average, 0 to below 1."),
    out: Path = OUT,
) -> None:
    """Metrics by step: the points that count, without what a resume replaced."""
    from tpudeck.cli.export import write_metrics

    write_metrics(find(run), metric, form=form, weight=smooth, out=out)


@app.command()
def tag(
    run: str = RUN,
    add: list[str] = ADD_TAGS,
    remove: list[str] = REMOVE_TAGS,
) -> None:
    """Add tags to a run, or take them away."""
    from tpudeck.runs.meta import change_meta, read_meta

    folder = find(run)
    tags = [*read_meta(folder).get("tags", ()), *(add or ())]
    change_meta(folder, tags=[tag for tag in dict.fromkeys(tags) if tag not in remove])
    emit_table(("tag",), [(tag,) for tag in read_meta(folder)["tags"]])


@app.command()
def note(run: str = RUN, text: str = typer.Argument(..., help="The note; empty takes it away.")) -> None:
    """Write a note to a run."""
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), note=text)


@app.command()
def rename(run: str = RUN, name: str = typer.Argument(..., help="The new name; the id stays.")) -> None:
    """Call a run something else."""
    from tpudeck.launch import check_name
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), name=check_name(name))


@app.command()
def archive(
    run: list[str] = RUNS,
    undo: bool = typer.Option(False, "--undo", help="Show them in the list again."),
) -> None:
    """Leave runs out of the list; nothing else changes."""
    from tpudeck.runs.meta import change_meta

    for folder in map(find, run):
        change_meta(folder, archived=not undo)


@app.command()
def delete(run: list[str] = RUNS) -> None:
    """Move runs to the trash folder; one that is running stays."""
    from tpudeck.config import Home
    from tpudeck.runs.meta import move_to_trash

    for folder in map(find, run):
        narrate(f"{folder.name} is now {move_to_trash(Home.here(), folder)}")


@app.command()
def compare(run: list[str] = RUNS, as_json: bool = JSON) -> None:
    """Runs side by side: their results, and only the settings in which they differ."""
    from tpudeck.cli.compare import comparison

    rows = comparison([find(text) for text in run])
    if as_json:
        emit_json(rows)
        return
    names = [row["id"] for row in rows]
    keys = [key for key in rows[0] if key != "id"]
    emit_table(("", *names), [(key, *(_cell(row[key]) for row in rows)) for key in keys])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


transfers.register_runs(app)
