"""``tpudeck push``: a trained model to the Hub or a bucket, with its tokenizer, recipe, results and curve."""

from __future__ import annotations

import typer

RUN = typer.Argument(..., metavar="RUN", help="Id, unique beginning of it, name, path, or last.")
TO = typer.Argument(..., metavar="TO", help="ORG/NAME on the Hub, made where it is missing, or gs://….")
PUBLIC = typer.Option(False, "--public", help="On the Hub: for everybody to see; private otherwise.")
DEADLINE = typer.Option("30 min", "--deadline", help="Give up after so long; the same command goes on.")
JSON = typer.Option(False, "--json", help="Print one JSON document.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command(name="push")(push)


def push(
    run: str = RUN,
    to: str = TO,
    checkpoint: str = typer.Option("best", "--checkpoint", metavar="WHICH", help="best, last, or a step."),
    public: bool = PUBLIC,
    revision: str = typer.Option("", "--revision", help="On the Hub: a branch; the main one otherwise."),
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Export a run's model, with a model card, and push it to the Hub (private unless --public) or to a bucket."""
    import tempfile
    from pathlib import Path

    from tpudeck import jobs
    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.cli.which import find
    from tpudeck.config import Home
    from tpudeck.hub import push_folder, write_card
    from tpudeck.presets import load_experiment
    from tpudeck.storage import is_bucket, sets
    from tpudeck.units import format_bytes, parse_duration

    deadline_s = parse_duration(deadline)
    home = Home.here()
    folder = find(run)
    home.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.cache) as temporary:
        out = Path(temporary) / "model"
        request = {"run": str(folder), "out": str(out), "checkpoint": checkpoint}
        exported = jobs.run("export", load_experiment(folder / "experiment.toml"), request=request, home=home)
        step = exported["step"]
        write_card(folder, out, step=step)
        if is_bucket(to):
            sent = sets.push(out, to, deadline_s=deadline_s)
            told, place, kind = sent.to_dict(), sent.location, "checked"
            del told["folder"]  # it was only on its way
        else:
            pushed = push_folder(
                out, to.removeprefix("hub:"), public=public, revision=revision, message=f"{folder.name}, step {step}",
                deadline_s=deadline_s, narrate=narrate,
            )  # fmt: skip
            told, place, kind = pushed.to_dict(), pushed.url, "private" if pushed.private else "public"
    if as_json:
        emit_json(told | {"run": folder.name, "step": step})
        return
    narrate(f"step {step:,}, {told['files']} files, {format_bytes(told['size_bytes'])}, {kind}")
    print(place)
