"""What data commands are given: a preset, a run, or any text.

SOURCE is ``preset:NAME`` (or the name of a preset, where no file has it), a run, ``hub:ORG/NAME``, ``gs://…``,
``builtin``, or a path: a file, a folder, a glob.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tpudeck.config import Home
    from tpudeck.presets import Experiment

__all__ = [
    "ALL_OPTION",
    "SAMPLE_OPTION",
    "SET_OPTION",
    "SOURCE_HELP",
    "experiment_for",
    "progress_line",
    "sample_request",
]

SET_OPTION = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a value; may be given often.")
SAMPLE_OPTION = typer.Option(None, "--sample-mb", min=0.001, help="Look at an even sample of about so much.")
ALL_OPTION = typer.Option(False, "--all", help="Look at everything, however large.")
SOURCE_HELP = "preset:NAME, a run, hub:ORG/NAME, gs://…, builtin, or a file, folder or glob."
_QUIET_S = 10.0
"""Where nobody stands before it, progress is a line this often."""


def experiment_for(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a preset or run, or a plain one around a text, with ``KEY=VALUE`` overrides applied."""
    from tpudeck.config import Home
    from tpudeck.presets import experiment_from, merge, resolve
    from tpudeck.presets.library import overrides_as_data

    home = Home.here()
    if preset := _preset_named(source, home):
        return resolve(preset, home=home, overrides=overrides).experiment
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", source.rstrip("/").rpartition("/")[2]).strip("-._")[:64] or "text"
    # Text alone says nothing about training, but an experiment is complete.
    plain = {"name": name, "corpus": {"source": source}, "train": {"epochs": 1, "global_batch_size": 32}}
    return experiment_from(merge(plain, overrides_as_data(overrides)), source=source)


def _preset_named(source: str, home: Home) -> str:
    """The preset that is meant, or the file with a run's experiment; empty where it is a text.

    A bare word that is no file is one of them, else an error that knows all three.
    """
    from pathlib import Path

    from tpudeck.errors import CorpusError, InputError
    from tpudeck.presets import preset_files
    from tpudeck.runs.index import find_run

    path = Path(source)
    if source.startswith("preset:") or source.endswith(".toml"):
        return source
    if (path / "run.json").is_file():
        return str(path / "experiment.toml")
    if source == "builtin" or not re.fullmatch(r"[\w.-]+", source) or path.exists():
        return ""
    if source in preset_files(home):
        return source
    try:
        return str(find_run(home, source) / "experiment.toml")
    except InputError:
        if "." in source:  # a file that is not there
            return ""
    raise CorpusError(
        f"{source} is neither a file, a preset nor a run",
        hint="tpudeck presets list and tpudeck runs list show what there is",
    )


def sample_request(sample_mb: float | None, everything: bool) -> dict[str, Any]:
    """What an inspection is told about how much to look at; nothing where it decides."""
    from tpudeck.errors import InputError

    if everything and sample_mb is not None:
        raise InputError("--all and --sample-mb exclude each other", hint="give one of them")
    return {"sample_mb": "all"} if everything else {"sample_mb": sample_mb} if sample_mb else {}


@contextlib.contextmanager
def progress_line(label: Callable[[dict[str, Any]], str]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Shows a child's progress on standard error: one line rewritten at a terminal, one now and then elsewhere."""
    standing = sys.stderr.isatty()
    due = 0.0

    def show(progress: dict[str, Any]) -> None:
        nonlocal due
        now = time.monotonic()
        if standing:
            sys.stderr.write(f"\r{label(progress)}\x1b[K")
            sys.stderr.flush()
        elif now >= due:
            due = now + _QUIET_S
            print(label(progress), file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if standing:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
