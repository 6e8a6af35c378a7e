"""``tpudeck fill-mask``, ``generate`` and ``export``: what a trained model is good for.

Each starts a child process for TensorFlow and prints what it wrote.
"""

from __future__ import annotations

from typing import Any

import typer

from tpudeck.cli.output import emit_json, narrate

RUN = typer.Argument(..., metavar="RUN", help="Id, unique beginning of it, name, path, or last.")
TEXTS = typer.Argument(..., metavar="TEXT...", help="With <mask> where the model should fill in.")
CHECKPOINT = typer.Option("best", "--checkpoint", metavar="WHICH", help="best, last, or a step.")
JSON = typer.Option(False, "--json", help="Print one JSON document.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command(name="fill-mask")(fill_mask)
    app.command(name="generate")(generate)
    app.command(name="export")(export)


def fill_mask(
    run: str = RUN,
    texts: list[str] = TEXTS,
    top: int = typer.Option(5, "--top", min=1, help="How many answers for each mask."),
    checkpoint: str = CHECKPOINT,
    as_json: bool = JSON,
) -> None:
    """Let a trained model fill in what is masked."""
    result = _do("fill-mask", run, {"texts": texts, "most": top, "checkpoint": checkpoint})
    if as_json:
        emit_json(result)
        return
    for sample in result["samples"]:
        print(sample["filled"])
        for answers in sample["answers"]:
            print("  " + "  ".join(f"{answer['token']} {answer['probability']:.1%}" for answer in answers))


def generate(
    run: str = RUN,
    text: str = typer.Argument(..., metavar="TEXT", help="How the text begins."),
    tokens: int = typer.Option(64, "--tokens", min=1, help="Go on for at most so many tokens."),
    temperature: float = typer.Option(1.0, "--temperature", min=0.0, help="0: always the likeliest token."),
    seed: int = typer.Option(0, "--seed", min=0, help="Another seed, another text."),
    checkpoint: str = CHECKPOINT,
    as_json: bool = JSON,
) -> None:
    """Let a trained causal model go on with a text."""
    asked = {"texts": [text], "tokens": tokens, "temperature": temperature, "seed": seed, "checkpoint": checkpoint}
    result = _do("generate", run, asked)
    if as_json:
        emit_json(result)
    else:
        print(result["samples"][0]["generated"])


def export(
    run: str = RUN,
    folder: str = typer.Argument(..., metavar="DIR", help="A new folder."),
    checkpoint: str = CHECKPOINT,
    as_json: bool = JSON,
) -> None:
    """Write a model folder that Transformers opens with PyTorch."""
    from tpudeck.storage import local_folder
    from tpudeck.units import format_bytes

    result = _do("export", run, {"out": str(local_folder(folder)), "checkpoint": checkpoint})
    if as_json:
        emit_json(result)
    else:
        narrate(f"step {result['step']:,}, {format_bytes(result['size_bytes'])}")
        print(result["folder"])


def _do(task: str, run: str, request: dict[str, Any]) -> dict[str, Any]:
    """Do a task with a run's model in a child process."""
    from tpudeck import jobs
    from tpudeck.config import Home
    from tpudeck.presets import load_experiment
    from tpudeck.runs.index import find_run

    home = Home.here()
    folder = find_run(home, run)
    result = jobs.run(
        task, load_experiment(folder / "experiment.toml"), request=request | {"run": str(folder)}, home=home
    )
    return {"run": folder.name} | result
