"""``tpudeck tokenizer …``: train one, and see what it makes of a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli.source import ALL_OPTION, SAMPLE_OPTION, SET_OPTION, SOURCE_HELP

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.tokenizer import LoadedTokenizer

app = typer.Typer(help="Tokenizers: trained on a corpus or brought along.", no_args_is_help=True, rich_markup_mode=None)

_TOKENIZER = typer.Argument(metavar="TOKENIZER", help="A folder, a run, preset:NAME or hub:ORG/NAME.")
_TEXTS = typer.Argument(None, metavar="[TEXT]...", help="Without any: the lines of standard input.")


@app.command()
def train(
    source: str = typer.Argument(metavar="SOURCE", help=SOURCE_HELP),
    out: str = typer.Option("", "--out", metavar="DIR", help="Also write it here, for AutoTokenizer."),
    kind: str = typer.Option("", "--kind", help="unigram, bpe, byte_bpe or wordpiece."),
    vocab_size: int | None = typer.Option(None, "--vocab-size", help="Tokens to ask for, special ones included."),
    sample_mb: float | None = typer.Option(None, "--sample-mb", help="Train on an even sample of so many megabytes."),
    column: str = typer.Option("", "--column", help="The column (or JSON key) that holds the text."),
    overrides: list[str] = SET_OPTION,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a tokenizer, or find it ready: one made from the same text with the same settings is never made twice.

    Special tokens and their ids are those of the preset's model family (RoBERTa's without a preset; for BERT's:
    --set model.architecture=bert).
    """
    from tpudeck import jobs
    from tpudeck.cli.output import emit_json, emit_table, narrate
    from tpudeck.cli.source import experiment_for, progress_line
    from tpudeck.storage import local_folder

    given = {
        "tokenizer.kind": kind,
        "tokenizer.vocab_size": vocab_size,
        "tokenizer.sample_mb": sample_mb,
        "corpus.column": column,
    }
    changes = (f"{key}={value}" for key, value in given.items() if value not in {None, ""})
    experiment = experiment_for(source, [*overrides, *changes])
    request = {"out": str(local_folder(out))} if out else {}
    with progress_line(_progress) as show:
        result = jobs.run("tokenizer", experiment, request=request, on_progress=show)
    for warning in result["warnings"]:
        narrate(warning)
    if as_json:
        emit_json(result)
        return
    shown = {
        "folder": result.get("out", result["folder"]),
        "kind": result["kind"],
        "vocabulary": result["vocab_size"],
        "asked for": result["requested_vocab_size"] or "",
        "hash": result["hash"],
        "found ready": "yes" if result["cached"] else "no",
    }
    emit_table(("what", "value"), list(shown.items()))


def _progress(progress: dict[str, Any]) -> str:
    from tpudeck.units import format_count, format_duration

    verb = {"surveying": "looking at the text", "reading": "reading", "training": "training"}[progress["phase"]]
    if not progress["done"]:
        return verb
    return f"{verb}: {format_count(progress['done'])} characters, {format_duration(progress['elapsed_s'])}"


@app.command()
def encode(
    tokenizer: str = _TOKENIZER,
    texts: list[str] = _TEXTS,
    special: bool = typer.Option(False, "--special", help="Special tokens in the text are special, not text."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Split texts into tokens."""
    from tpudeck.cli.output import emit_json, emit_table

    loaded = find_tokenizer(tokenizer)
    loaded.rust.encode_special_tokens = not special
    encoded = [_encoded(loaded, text) for text in texts or _standard_input()]
    if as_json:
        emit_json(encoded)
        return
    rows = [
        (number, id_, token, item["text"][start:end])
        for number, item in enumerate(encoded, start=1)
        for id_, token, (start, end) in zip(item["ids"], item["tokens"], item["offsets"], strict=True)
    ]
    emit_table(("text", "id", "token", "stands for"), rows)


@app.command()
def show(
    tokenizer: str = _TOKENIZER,
    on: str = typer.Option(
        "", "--on", metavar="SOURCE", help="Text to try it on; without it that of the preset or run, or builtin."
    ),
    sample_mb: float | None = SAMPLE_OPTION,
    everything: bool = ALL_OPTION,
    overrides: list[str] = SET_OPTION,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """What a tokenizer is, what it makes of a text (of 8 MB from all over it), and what to do about it."""
    from tpudeck import jobs
    from tpudeck.cli.output import emit_json
    from tpudeck.cli.source import progress_line, sample_request
    from tpudeck.cli.tokenizer_views import print_statistics

    folder = find_tokenizer(tokenizer).folder
    experiment = _experiment_of(tokenizer, on, overrides)
    request = {"tokenizer": str(folder.absolute()), **sample_request(sample_mb, everything)}
    with progress_line(lambda told: f"trying it on text: {told['done']:,} documents") as on_progress:
        found = jobs.run("inspect-tokenizer", experiment, request=request, on_progress=on_progress)
    if as_json:
        emit_json(found)
    else:
        print_statistics(found)


def _experiment_of(name: str, source: str, overrides: list[str]) -> Experiment:
    """The experiment whose text a tokenizer is tried on."""
    from tpudeck.cli.source import experiment_for
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import load_experiment
    from tpudeck.runs.index import find_run

    if source or name.startswith("preset:"):
        return experiment_for(source or name, overrides)
    try:
        return load_experiment(find_run(Home.here(), name) / "experiment.toml")
    except InputError:
        return experiment_for("builtin", overrides)


@app.command()
def compare(
    left: str = _TOKENIZER,
    right: str = typer.Argument(metavar="OTHER", help="Another one."),
    texts: list[str] = _TEXTS,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Two tokenizers on the same texts, and the places that they cut differently."""
    from tpudeck.cli.output import emit_json
    from tpudeck.cli.tokenizer_views import print_comparison
    from tpudeck.inspection.pieces import compare as compare_on

    one, other = find_tokenizer(left), find_tokenizer(right)
    found = [compare_on(one, other, text) for text in texts or _standard_input()]
    if as_json:
        emit_json(found)
    else:
        print_comparison(found, left, right)


def _encoded(loaded: LoadedTokenizer, text: str) -> dict[str, Any]:
    encoding = loaded.rust.encode(text)
    return {"text": text, "ids": encoding.ids, "tokens": encoding.tokens, "offsets": encoding.offsets}


def _standard_input() -> Iterator[str]:
    import sys

    from tpudeck.cli.output import narrate

    if sys.stdin.isatty():
        narrate("reading texts from standard input, one a line; Ctrl-D ends")
    for line in sys.stdin.buffer:  # text would be strict, or hold surrogates, by locale
        yield line.decode(errors="replace").rstrip("\r\n")


def find_tokenizer(name: str) -> LoadedTokenizer:
    """A tokenizer by folder or file, preset, place on the Hub, or the run that uses it."""
    from tpudeck.config import Home
    from tpudeck.tokenizer import existing, load
    from tpudeck.tokenizer.loaded import has_tokenizer

    path = Path(name).expanduser()
    if has_tokenizer(path):
        return load(path)
    if name.startswith("hub:"):
        return load(existing.fetch(name, ""))
    if name.startswith("preset:"):
        return load(_of_preset(name, Home.here()))
    return load(_of_run(name, Home.here()))


def _of_preset(name: str, home: Any) -> Path:
    from tpudeck.cli.source import experiment_for
    from tpudeck.errors import ArtefactError
    from tpudeck.tokenizer.stage import ready

    folder = ready(experiment_for(name), home)
    if folder is None:
        raise ArtefactError(f"the tokenizer of {name} is not made yet", hint=f"tpudeck tokenizer train {name}")
    return folder


def _of_run(name: str, home: Any) -> Path:
    from tpudeck.errors import ArtefactError, InputError
    from tpudeck.runs.index import find_run
    from tpudeck.storage import read_json

    try:
        run = find_run(home, name)
    except InputError as error:
        raise InputError(
            f"{name} is neither a folder with a tokenizer nor a run", hint="give a folder, a run, preset:NAME or hub:ID"
        ) from error
    try:
        return Path(read_json(run / "results" / "tokenizer.json")["result"]["folder"])
    except (FileNotFoundError, KeyError):
        raise ArtefactError(f"the run {run.name} has no tokenizer yet") from None
