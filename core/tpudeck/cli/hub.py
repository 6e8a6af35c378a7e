"""``tpudeck push``: a trained model to the Hub, with its tokenizer, recipe, results and curve."""

from __future__ import annotations

import typer

RUN = typer.Argument(..., metavar="RUN", help="Id, unique beginning of it, name, path, or last.")
NAME = typer.Argument(..., metavar="ORG/NAME", help="The repository; made where it is missing.")
PUBLIC = typer.Option(False, "--public", help="For everybody to see; private otherwise.")
DEADLINE = typer.Option("30 min", "--deadline", help="Give up after so long; the same command goes on.")
JSON = typer.Option(False, "--json", help="Print one JSON document.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command(name="push")(push)


def push(
    run: str = RUN,
    name: str = NAME,
    checkpoint: str = typer.Option("best", "--checkpoint", metavar="WHICH", help="best, last, or a step."),
    public: bool = PUBLIC,
    revision: str = typer.Option("", "--revision", help="A branch; the main one otherwise."),
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Export a run's model and push it to the Hub, with a model card; private unless --public."""
    import tempfile
    from pathlib import Path

    from tpudeck import jobs
    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.config import Home
    from tpudeck.hub import push_folder, write_card
    from tpudeck.presets import load_experiment
    from tpudeck.runs.index import find_run
    from tpudeck.units import format_bytes, parse_duration

    deadline_s = parse_duration(deadline)
    home = Home.here()
    folder = find_run(home, run)
    home.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.cache) as temporary:
        out = Path(temporary) / "model"
        request = {"run": str(folder), "out": str(out), "checkpoint": checkpoint}
        exported = jobs.run("export", load_experiment(folder / "experiment.toml"), request=request, home=home)
        write_card(folder, out, step=exported["step"])
        message = f"{folder.name}, step {exported['step']}"
        pushed = push_folder(
            out, name, public=public, revision=revision, message=message, deadline_s=deadline_s, narrate=narrate
        )
    if as_json:
        emit_json(pushed.to_dict() | {"run": folder.name, "step": exported["step"]})
        return
    kind = "private" if pushed.private else "public"
    narrate(f"step {exported['step']:,}, {pushed.files} files, {format_bytes(pushed.size_bytes)}, {kind}")
    print(pushed.url)
