"""``runs push``, ``pull``, ``mirror`` and ``follow``: a run on two machines, by way of a bucket."""

from __future__ import annotations

import typer

from tpudeck.cli.output import narrate
from tpudeck.cli.transfers import DEADLINE, JSON, destination, say, store, transfer_progress
from tpudeck.cli.which import RUN, find

TO = typer.Argument("", metavar="[TO]", help="gs://…, or nothing: the store of config.toml.")
FROM = typer.Argument(..., metavar="FROM", help="gs://…, or the id of a run in the store of config.toml.")
FOLLOWED = typer.Argument(..., metavar="FROM", help="gs://…, the place of a run or a store, or the id of a run.")
EVERY = typer.Option("10 s", "--every", help="How often to look for something new.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``tpudeck runs``."""
    app.command(name="push")(push_run)
    app.command(name="pull")(pull_run)
    app.command(name="mirror")(mirror_run)
    app.command(name="follow")(follow_run)


def push_run(
    run: str = RUN,
    to: str = TO,
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Copy a run that has ended to a bucket, with its checkpoints, tokenizer and shards: it can go on elsewhere."""
    from tpudeck.runs import transfer
    from tpudeck.units import parse_duration

    folder = find(run)
    location = destination(to, "runs", folder)
    with transfer_progress() as show:
        done = transfer.push_run(folder, location, deadline_s=parse_duration(deadline), on_progress=show)
    say(done.to_dict(), done.location, as_json)


def pull_run(source: str = FROM, deadline: str = DEADLINE, as_json: bool = JSON) -> None:
    """Copy a run from a bucket to this machine, where it is listed, and can be resumed."""
    from tpudeck import mirror
    from tpudeck.config import Home
    from tpudeck.runs import transfer
    from tpudeck.storage import is_bucket
    from tpudeck.units import parse_duration

    location = source if is_bucket(source) else f"{store()}/runs/{source}"
    if mirror.is_mirror(location):
        folder = mirror.pull_mirrored(location, Home.here())
        say({"location": location, "folder": str(folder)}, str(folder), as_json)
        return
    with transfer_progress() as show:
        done = transfer.pull_run(location, Home.here(), deadline_s=parse_duration(deadline), on_progress=show)
    say(done.to_dict(), str(done.folder), as_json)


def mirror_run(
    run: str = RUN,
    to: str = TO,
    every: str = EVERY,
) -> None:
    """Keep a copy of a run in a bucket while it runs, until it has ended."""
    from tpudeck import mirror
    from tpudeck.units import parse_duration

    folder = find(run)
    location = destination(to, "runs", folder)
    narrate(f"{folder.name} is mirrored to {location} until it ends")
    mirror.keep_mirrored(folder, location, period_s=parse_duration(every), narrate=narrate)
    print(location)


def follow_run(source: str = FOLLOWED, every: str = EVERY) -> None:
    """Watch a run that is mirrored from elsewhere, or all of a store: listed here like any other, read-only."""
    from tpudeck import mirror
    from tpudeck.config import Home
    from tpudeck.storage import is_bucket
    from tpudeck.units import parse_duration

    location = source.rstrip("/") if is_bucket(source) else f"{store()}/runs/{source}"
    if mirror.has_runs(location):
        narrate(f"the runs of {location} are followed; Ctrl-C leaves them running")
        mirror.follow_store(location, Home.here(), period_s=parse_duration(every), narrate=narrate)
        return
    folder = Home.here().runs / location.rpartition("/")[2]
    narrate(f"{folder.name} is followed from {location} until it ends; Ctrl-C leaves it running")
    mirror.keep_followed(location, folder, period_s=parse_duration(every), narrate=narrate)
    print(folder)
