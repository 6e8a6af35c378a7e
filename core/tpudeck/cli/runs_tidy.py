"""``tpudeck runs tag|note|rename|archive|delete|restore``: what people change about a run afterwards."""

from __future__ import annotations

import typer

from tpudeck.cli.output import emit_table, narrate
from tpudeck.cli.which import RUN, RUNS, find

ADD_TAGS = typer.Argument(None, metavar="TAG…", help="Tags to add.")
REMOVE_TAGS = typer.Option([], "--remove", help="A tag to take away; may be given more than once.")
DELETED = typer.Argument(..., metavar="RUN…", help="Deleted runs: ids, unique beginnings of them, names, or last.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``tpudeck runs``."""
    for command in (tag, note, rename, archive, delete, restore):
        app.command()(command)


def tag(
    run: str = RUN,
    add: list[str] = ADD_TAGS,
    remove: list[str] = REMOVE_TAGS,
) -> None:
    """Add tags to a run, or take them away."""
    from tpudeck.runs.meta import change_meta, checked_tags, read_meta

    folder = find(run)
    tags = [*read_meta(folder).get("tags", ()), *checked_tags(add or ())]
    change_meta(folder, tags=[tag for tag in dict.fromkeys(tags) if tag not in remove])
    emit_table(("tag",), [(tag,) for tag in read_meta(folder)["tags"]])


def note(run: str = RUN, text: str = typer.Argument(..., help="The note; empty takes it away.")) -> None:
    """Write a note to a run."""
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), note=text)


def rename(run: str = RUN, name: str = typer.Argument(..., help="The new name; the id stays.")) -> None:
    """Call a run something else."""
    from tpudeck.launch import check_name
    from tpudeck.runs.meta import change_meta

    change_meta(find(run), name=check_name(name))


def archive(
    run: list[str] = RUNS,
    undo: bool = typer.Option(False, "--undo", help="Show them in the list again."),
) -> None:
    """Leave runs out of the list; nothing else changes."""
    from tpudeck.runs.meta import change_meta

    for folder in map(find, run):
        change_meta(folder, archived=not undo)


def delete(run: list[str] = RUNS) -> None:
    """Move runs to the trash folder; one that is running stays."""
    from tpudeck.config import Home
    from tpudeck.runs.meta import move_to_trash

    for folder in map(find, run):
        narrate(f"{folder.name} is now {move_to_trash(Home.here(), folder)}")


def restore(run: list[str] = DELETED) -> None:
    """Take deleted runs back out of the trash folder."""
    from tpudeck.config import Home
    from tpudeck.runs.index import find_deleted
    from tpudeck.runs.meta import restore as bring_back

    home = Home.here()
    for text in run:
        narrate(f"{bring_back(home, find_deleted(home, text)).name} is back")
