"""RUN on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tpudeck.config import Home

__all__ = ["RUN", "RUNS", "STORE", "find", "home_with_runs"]

RUN = typer.Argument(..., metavar="RUN", help="A run: its id, a unique beginning of it, its name, a path, or last.")
RUNS = typer.Argument(..., metavar="RUN…", help="Runs: ids, unique beginnings of them, names, paths, or last.")
STORE = typer.Option("", "--store", metavar="STORE", help="Look into a store, gs://…, instead of this machine.")


def find(text: str, *, store: str = "") -> Path:
    """The folder of the run that is meant: here, or a copy of what a store says about it."""
    from tpudeck.config import Home
    from tpudeck.runs.index import find_run

    if not store:
        return find_run(Home.here(), text)
    from tpudeck.mirror import StoreView

    return StoreView(store, Home.here()).fetch(text)


def home_with_runs(store: str) -> Home:
    """The home whose runs are meant: this machine's, or that of a store's runs."""
    from tpudeck.config import Home

    if not store:
        return Home.here()
    from tpudeck.mirror import StoreView

    view = StoreView(store, Home.here())
    view.refresh()
    return view.home
