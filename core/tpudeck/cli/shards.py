"""``tpudeck shards …``: encode a text for training, check what was encoded, and look inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tpudeck.cli.source import ALL_OPTION, SAMPLE_OPTION, SET_OPTION, SOURCE_HELP

app = typer.Typer(help="Shards: encoded text on disk.", no_args_is_help=True, rich_markup_mode=None)

_JSON = typer.Option(False, "--json", help="Print JSON.")
_SHARDS = typer.Argument(metavar="SHARDS", help="A folder (of anybody's), a run, or preset:NAME.")


@app.command()
def build(
    source: str = typer.Argument(metavar="SOURCE", help=SOURCE_HELP),
    tokenizer: str = typer.Option(
        "", "--tokenizer", metavar="DIR", help="Without it: the preset's, trained if need be."
    ),
    out: str = typer.Option("", "--out", metavar="DIR", help="A new folder; without it, beside the other artefacts."),
    sequence_length: int | None = typer.Option(
        None, "--sequence-length", help="Tokens per sequence, special ones included."
    ),
    layout: str = typer.Option("", "--layout", help="compact, or published (int64 input_ids, attention_mask)."),
    column: str = typer.Option("", "--column", help="The column (or JSON key) that holds the text."),
    overrides: list[str] = SET_OPTION,
    as_json: bool = _JSON,
) -> None:
    """Encode a text into shards, go on with a build that was interrupted, or find it ready."""
    from tpudeck import jobs
    from tpudeck.cli.output import emit_json, emit_table
    from tpudeck.cli.source import experiment_for, progress_line
    from tpudeck.storage import local_folder

    given = {"shards.sequence_length": sequence_length, "shards.layout": layout, "corpus.column": column}
    experiment = experiment_for(
        source, [*overrides, *(f"{key}={value}" for key, value in given.items() if value not in {None, ""})]
    )
    with progress_line(_progress) as show:
        folder = tokenizer or jobs.run("tokenizer", experiment, on_progress=show)["folder"]
        request = {"tokenizer": _absolute(folder)} | ({"out": str(local_folder(out))} if out else {})
        result = jobs.run("shards", experiment, request=request, on_progress=show)
    if as_json:
        emit_json(result)
        return
    columns = ("documents", "sequences", "tokens", "dropped_tokens", "cut_documents", "files", "bytes")
    rows = [(split, *(f"{result[split][name]:,}" for name in columns)) for split in ("train", "validation")]
    emit_table(("split", *(name.replace("_", " ") for name in columns)), rows)
    print(result["folder"])


@app.command()
def verify(shards: str = _SHARDS, as_json: bool = _JSON) -> None:
    """Read every byte of a shard set: checksums, counts, lengths, ids. Exit 2 where something is wrong."""
    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.cli.source import progress_line
    from tpudeck.shards.verify import verify as verify_set
    from tpudeck.units import counted

    folder = find_shards(shards)
    with progress_line(lambda progress: f"verifying: {progress['done']:,} of {progress['total']:,} files") as show:
        found = verify_set(folder, lambda done, total: show({"done": done, "total": total}))
    if as_json:
        emit_json(found.to_dict())
    else:
        for fault in found.faults:
            narrate(fault)
        verdict = counted(len(found.faults), "fault") if found.faults else "whole"
        print(
            f"{folder}: {verdict}; {counted(found.files, 'good file')}, {counted(found.sequences, 'sequence')}, "
            f"{found.tokens:,} tokens"
        )
    if found.faults:
        raise typer.Exit(2)


@app.command()
def show(
    shards: str = _SHARDS,
    sample_mb: float | None = SAMPLE_OPTION,
    everything: bool = ALL_OPTION,
    as_json: bool = _JSON,
) -> None:
    """What is in a shard set: counts, shares, frequencies, document lengths, and what to do about them.

    Of more than 4 GB a sample is read, unless --all is given.
    """
    from tpudeck import jobs
    from tpudeck.cli.output import emit_json
    from tpudeck.cli.shard_views import print_statistics
    from tpudeck.cli.source import experiment_for, progress_line, sample_request
    from tpudeck.config import Home
    from tpudeck.inspection.task import known_shards

    folder = find_shards(shards)
    sample = sample_request(sample_mb, everything)
    found = None if sample else known_shards(Home.here(), folder)
    if found is None:
        with progress_line(lambda told: f"reading: {told['done']:,} of {told['total']:,} sequences") as on_progress:
            found = jobs.run(
                "inspect-shards",
                experiment_for("builtin"),
                request={"shards": _absolute(str(folder)), **sample},
                on_progress=on_progress,
            )
    if as_json:
        emit_json(found)
    else:
        print_statistics(found)


@app.command()
def head(
    shards: str = _SHARDS,
    count: int = typer.Option(3, "--count", "-n", min=1, help="How many sequences."),
    first: int = typer.Option(0, "--from", min=0, help="Number of the first."),
    shard: int | None = typer.Option(None, "--shard", min=0, help="Count --from in this file of the split, from 0."),
    split: str = typer.Option("train", "--split", help="train or validation."),
    tokenizer: str = typer.Option("", "--tokenizer", metavar="DIR", help="Decode with this one."),
    step: int | None = typer.Option(None, "--step", min=0, help="This step's batch instead, with training's masks."),
    as_json: bool = _JSON,
) -> None:
    """Sequences as text, by number, or as training sees them at a step."""
    import numpy as np

    from tpudeck.cli.output import emit_json
    from tpudeck.cli.shard_views import print_records
    from tpudeck.errors import InputError
    from tpudeck.inspection.records import number_in_set, records, training_records
    from tpudeck.shards import open_set

    opened = open_set(find_shards(shards))
    loaded = _decoder(opened, tokenizer)
    if step is not None:
        if loaded is None:
            raise InputError("masks need the tokenizer of the set", hint="--tokenizer DIR")
        experiment, global_batch = _training_of(shards, opened.sequence_length)
        shown = training_records(opened, experiment, loaded, step=step, global_batch=global_batch, count=count)
    else:
        start = number_in_set(opened, split, shard, first) if shard is not None else first
        total = len(opened.split(split))
        if start >= total:
            raise InputError(f"{split} has the sequences 0 to {total - 1}, got {start}")
        shown = records(opened, split, np.arange(start, min(start + count, total)), loaded)
    if as_json:
        emit_json(shown)
    else:
        print_records(shown)


def _decoder(shards: Any, folder: str) -> Any:
    """The tokenizer that was asked for, or the kept one that the set was made with; none where there is neither."""
    from tpudeck.config import Home
    from tpudeck.inspection.records import find_tokenizer
    from tpudeck.tokenizer import load

    found = Path(folder).expanduser() if folder else find_tokenizer(Home.here(), shards.tokenizer_hash)
    if found is None:
        return None
    loaded = load(found)
    shards.require_tokenizer(loaded.hash, found)
    return loaded


def _training_of(name: str, sequence_length: int) -> tuple[Any, int]:
    """What decides batches and masks: the experiment of a run or preset (else a plain one), and its global batch."""
    from tpudeck.cli.source import experiment_for
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.plan import global_batch_size
    from tpudeck.presets import load_experiment
    from tpudeck.runs.index import find_run
    from tpudeck.storage import read_json

    if name.startswith("preset:"):
        experiment = experiment_for(name)
    else:
        try:
            run = find_run(Home.here(), name)
            experiment = load_experiment(run / "experiment.toml")
            if (run / "plan.json").exists():
                return experiment, int(read_json(run / "plan.json")["global_batch"])
        except InputError:
            experiment = experiment_for("builtin", [f"shards.sequence_length={sequence_length}"])
    return experiment, global_batch_size(experiment, replicas=experiment.device.replicas or 1)


def find_shards(name: str) -> Path:
    """The folder of a shard set: itself, that of a run, or that of a preset."""
    from tpudeck.cli.source import experiment_for
    from tpudeck.config import Home
    from tpudeck.errors import ArtefactError, InputError
    from tpudeck.runs.index import find_run

    path = Path(name).expanduser()
    if path.is_dir() and not (path / "run.json").exists():
        return path
    if name.startswith("preset:"):
        return _of_preset(experiment_for(name), name)
    try:
        return _of_run(find_run(Home.here(), name))
    except ArtefactError:
        raise
    except InputError as error:
        raise InputError(
            f"{name} is neither a folder nor a run", hint="give a folder with shards, a run, or preset:NAME"
        ) from error


def _of_preset(experiment: Any, name: str) -> Path:
    from tpudeck.config import Home
    from tpudeck.errors import ArtefactError
    from tpudeck.shards.task import ready

    folder = ready(experiment, Home.here())
    if folder is None:
        raise ArtefactError(f"the shards of {name} are not made yet", hint=f"tpudeck shards build {name}")
    return folder


def _of_run(run: Path) -> Path:
    from tpudeck.errors import ArtefactError
    from tpudeck.storage import read_json

    try:
        return run / str(read_json(run / "results" / "shards.json")["result"]["folder"])
    except (FileNotFoundError, KeyError):
        raise ArtefactError(f"the run {run.name} has no shards yet") from None


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())


def _progress(progress: dict[str, Any]) -> str:
    from tpudeck.units import format_count, format_rate

    if progress["task"] == "tokenizer":
        return f"tokenizer: {format_count(progress['done'])} characters"
    if "waiting" in progress:
        return str(progress["waiting"])
    rate = format_rate(progress["done"] / max(progress["elapsed_s"], 1e-3), "characters")
    return f"encoding {progress['split']}: {format_count(progress['sequences'])} sequences, {rate}"
