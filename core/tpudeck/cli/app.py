"""The tree of commands."""

from __future__ import annotations

import typer

import tpudeck
from tpudeck.cli import corpus, devices, doctor, hub, models, presets, run, runs, shards, tokenizer, transfers

app = typer.Typer(
    name="tpudeck",
    help="Train language models with TensorFlow/XLA on TPU, GPU or CPU; watch, stop, resume and compare. "
    "Without a command it opens the console, which takes --readonly, --refresh SECONDS, --ascii and --store FOLDER.",
    no_args_is_help=False,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(tpudeck.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


run.register(app)
models.register(app)
hub.register(app)
devices.register(app)
app.add_typer(runs.app, name="runs")
app.add_typer(presets.app, name="presets")
app.add_typer(doctor.app, name="doctor")
app.add_typer(corpus.app, name="corpus")
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(shards.app, name="shards")
transfers.register(tokenizer.app, shards.app)
