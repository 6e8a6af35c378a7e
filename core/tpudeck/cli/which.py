"""RUN on the command line."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["RUN", "RUNS", "find"]

RUN = typer.Argument(..., metavar="RUN", help="A run: its id, a unique beginning of it, its name, a path, or last.")
RUNS = typer.Argument(..., metavar="RUN…", help="Runs: ids, unique beginnings of them, names, paths, or last.")


def find(text: str) -> Path:
    """The folder of the run that is meant."""
    from tpudeck.config import Home
    from tpudeck.runs.index import find_run

    return find_run(Home.here(), text)
