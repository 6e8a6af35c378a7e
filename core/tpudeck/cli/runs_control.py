"""``tpudeck runs stop|checkpoint|profile|resume|fork|priority``: what a run is asked to do."""

from __future__ import annotations

import sys

import typer

from tpudeck.cli.output import narrate
from tpudeck.cli.profile import profile
from tpudeck.cli.which import RUN, RUNS, find

DETACH = typer.Option(False, "--detach", "-d", help="Start it and return.")
LINES = typer.Option(False, "--json", help="Print what happens as lines of JSON; the last is the run itself.")
NAME = typer.Option(None, "--name", help="What to call the new run; without, as the old one's experiment.")
SET = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a value, e.g. train.learning_rate=1e-4.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``tpudeck runs``."""
    for command in (stop, checkpoint, profile, resume, fork, priority):
        app.command()(command)


def stop(
    run: list[str] = RUNS,
    now: bool = typer.Option(False, "--now", help="At once, without a checkpoint."),
) -> None:
    """Ask runs to save a checkpoint and end."""
    from tpudeck import launch
    from tpudeck.runs.status import is_live

    for folder in map(find, run):
        launch.require_own(folder)
        if is_live(folder):
            launch.request_stop(folder, now=now)
            narrate(f"{folder.name} was asked to stop" + (" at once" if now else ""))
        else:
            narrate(f"{folder.name} is not running")


def checkpoint(run: str = RUN) -> None:
    """Ask a run to save a checkpoint now, and go on."""
    from tpudeck import launch
    from tpudeck.errors import InputError
    from tpudeck.runs.status import is_live

    folder = find(run)
    launch.require_own(folder)
    if not is_live(folder):
        raise InputError(f"{folder.name} is not running")
    launch.request_checkpoint(folder)
    narrate(f"{folder.name} was asked for a checkpoint")


def resume(run: str = RUN, detach: bool = DETACH, as_json: bool = LINES) -> None:
    """Go on with a run from its last checkpoint, to the same result as if it had never ended."""
    from tpudeck import launch
    from tpudeck.cli.run import begin

    begin(find(run), start=launch.resume, detach=detach, as_json=as_json)


def fork(
    run: str = RUN,
    changes: list[str] = SET,
    checkpoint: str = typer.Option(
        "", "--checkpoint", metavar="WHICH", help="Go on from best, last, or a step; otherwise begin anew."
    ),
    name: str = NAME,
    detach: bool = DETACH,
    as_json: bool = LINES,
) -> None:
    """Start a new run from an old one, with some settings changed; the old one stays as it is."""
    from tpudeck import launch
    from tpudeck.cli.run import begin
    from tpudeck.config import Home
    from tpudeck.fork import fork as make

    argv = ["tpudeck", *sys.argv[1:]]
    folder = make(find(run), home=Home.here(), changes=changes, checkpoint=checkpoint, name=name, argv=argv)
    begin(folder, start=launch.start, detach=detach, as_json=as_json)


def priority(
    run: str = RUN,
    value: int = typer.Argument(..., min=-(2**31), max=2**31, metavar="NUMBER", help="Higher goes first; 0 is usual."),
) -> None:
    """Change the place of a waiting run in its queue."""
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), priority=value)
