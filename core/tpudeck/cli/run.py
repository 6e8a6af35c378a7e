"""``tpudeck run`` and ``tpudeck quickstart``: start a run and stay with it, or let it go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from tpudeck.cli.output import emit_json, emit_line, narrate

if TYPE_CHECKING:
    from tpudeck.cli.follow import View
    from tpudeck.config import Home
    from tpudeck.presets import Experiment
    from tpudeck.runs.reader import RunSnapshot
    from tpudeck.runs.summary import RunSummary

SET = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a value of the preset, e.g. train.steps=50.")
NAME = typer.Option(None, "--name", help="What to call the run; without, as the preset.")
TAG = typer.Option([], "--tag", help="A tag; may be given more than once.")
JSON = typer.Option(False, "--json", help="Print what happens as lines of JSON; the last is the run itself.")
DETACH = typer.Option(False, "--detach", "-d", help="Start it and return; tpudeck runs watch attaches.")
DEVICE = typer.Option("", "--device", metavar="KIND", help="cpu, gpu, tpu or auto.")
NOTIFY = typer.Option(
    [],
    "--notify",
    metavar="TARGET",
    help="Who to tell of trouble and of the end: a name in config.toml, a command, a URL.",
)
TENSORBOARD = typer.Option(False, "--tensorboard", help="Also write TensorBoard event files into the run folder.")
PRIORITY = typer.Option(
    0, "--priority", min=-(2**31), max=2**31, help="Place in the queue where the device is busy: higher goes first."
)
MIRROR = typer.Option(
    "", "--mirror", metavar="STORE", help="Keep a copy below gs://…, at STORE/runs/ID; tpudeck runs follow watches it."
)
WEIGHTS = typer.Option(
    "", "--weights", metavar="SOURCE", help="Start from a folder, gs://… or hub:ORG/NAME, and take over its shape."
)
QUEUE = typer.Option(True, "--queue/--no-queue", help="Wait for a busy device, or end with exit code 3.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command(name="run")(run)
    app.command(name="quickstart")(quickstart)


def run(
    preset: str = typer.Argument(..., metavar="PRESET", help="A preset by name, or an experiment.toml."),
    changes: list[str] = SET,
    name: str = NAME,
    tag: list[str] = TAG,
    as_json: bool = JSON,
    detach: bool = DETACH,
    device: str = DEVICE,
    notify: list[str] = NOTIFY,
    tensorboard: bool = TENSORBOARD,
    priority: int = PRIORITY,
    queue: bool = QUEUE,
    mirror: str = MIRROR,
    weights: str = WEIGHTS,
) -> None:
    """Run a preset: tokenizer, shards, training.

    Ctrl-C saves a checkpoint and stops; a lost terminal changes nothing.
    """
    from tpudeck import launch
    from tpudeck.config import Home

    home = Home.here()
    experiment = _resolved(preset, changes, home, device=device, weights=weights)
    folder = launch.create(
        experiment,
        home=home,
        name=name,
        preset=preset.removeprefix("preset:"),
        argv=["tpudeck", *sys.argv[1:]],
        tags=tag,
        priority=priority,
        options=launch.Options(notify=tuple(notify), tensorboard=tensorboard, queue=queue, mirror=mirror),
    )
    begin(folder, start=launch.start, detach=detach, as_json=as_json)


def quickstart(
    changes: list[str] = SET,
    name: str = NAME,
    as_json: bool = JSON,
    device: str = DEVICE,
) -> None:
    """Train a small language model on real text, here and now, and see what it has learned (minutes, on a CPU)."""
    from tpudeck import launch
    from tpudeck.config import Home

    home = Home.here()
    experiment = _resolved("quickstart", changes, home, device=device)
    folder = launch.create(experiment, home=home, name=name, preset="quickstart", argv=["tpudeck", *sys.argv[1:]])
    stay_with(folder, start=launch.start, as_json=as_json, learned=True)


def _resolved(preset: str, changes: list[str], home: Home, *, device: str, weights: str = "") -> Experiment:
    from tpudeck.presets import overrides_as_data, resolve

    if device:
        changes = [*changes, f"device.kind={device}"]
    if not weights:
        return resolve(preset, home=home, overrides=changes).experiment
    from tpudeck import pretrained

    revision = str(overrides_as_data(changes).get("model", {}).get("weights_revision", ""))
    theirs = pretrained.as_changes(pretrained.describe(weights, revision))
    return resolve(preset, home=home, overrides=changes, changes=theirs).experiment


def begin(folder: Path, *, start: Callable[[Path], int], detach: bool, as_json: bool) -> None:
    """Start or resume a run; leave it to itself, or stay until it ends."""
    if detach:
        start(folder)
        _let_go(folder, as_json=as_json)
    else:
        stay_with(folder, start=start, as_json=as_json)


def _let_go(folder: Path, *, as_json: bool) -> None:
    """Say where a detached run is, and leave."""
    if as_json:
        from tpudeck.runs.reader import RunReader

        emit_json(RunReader(folder).refresh().summary.to_dict())
    else:
        print(folder.name)
    narrate(f"{folder.name} goes on without this terminal; tpudeck runs watch {folder.name}")


def stay_with(folder: Path, *, start: Callable[[Path], int], as_json: bool, learned: bool = False) -> NoReturn:
    """Start or resume a run, show it until it ends, and exit as it did.

    Ctrl-C stops the run; a second one leaves it to stop by itself.
    """
    from tpudeck import launch
    from tpudeck.cli.follow import Interrupts, follow

    asked = False

    def stop_then_stay() -> bool:
        nonlocal asked
        if asked:
            return False
        asked = True
        launch.request_stop(folder)
        narrate("stopping: saving a checkpoint (Ctrl-C again leaves at once, the run still stops by itself)")
        return True

    with Interrupts() as interrupts:
        shown = view(folder, as_json=as_json, from_start=start is launch.start)
        start(folder)
        snapshot = follow(folder, shown, interrupts, on_interrupt=stop_then_stay)
    if snapshot is None:
        raise typer.Exit(130)
    if as_json:
        emit_line(snapshot.summary.to_dict())
    end(snapshot, as_json=as_json, learned=learned)


def view(folder: Path, *, as_json: bool, from_start: bool = True) -> View:
    """How to show a run here: as JSON, live in a terminal, or in plain lines."""
    from tpudeck.cli.follow import JsonView, PlainView
    from tpudeck.runs.reader import RunReader

    if as_json:
        return JsonView(folder, from_start=from_start)
    told = 0 if from_start else len(RunReader(folder).refresh().events)
    if sys.stderr.isatty():
        from tpudeck.cli.live import LiveView

        return LiveView(from_event=told)
    return PlainView(from_event=told)


def end(snapshot: RunSnapshot, *, as_json: bool, learned: bool = False) -> NoReturn:
    """Say how a run ended, and exit with its code."""
    from tpudeck.errors import WorkError

    summary = snapshot.summary
    if summary.status == "finished":
        narrate(f"{summary.name} finished: {results(snapshot)}")
        if learned and not as_json:
            show_learned(snapshot)
        elif not as_json:
            print(summary.id)
        raise typer.Exit(0)
    resume = f"tpudeck runs resume {summary.id}"
    if summary.status == "stopped":
        narrate(f"{summary.name} stopped at step {summary.step or 0:,}; {resume} goes on from there")
        raise typer.Exit(130)
    if summary.status == "failed":
        narrate(f"tpudeck: {summary.error or summary.evidence}")
        _explain(summary)
        raise typer.Exit(summary.exit_code if summary.exit_code in {1, 2, 3, 130} else 1)
    _explain(summary)
    raise WorkError(
        f"{summary.id} {summary.status}: {summary.evidence}", hint=f"{resume} goes on from its last checkpoint"
    )


def _explain(summary: RunSummary) -> None:
    """Say what is known about the error of a run; where it left none, about the end of its output."""
    from tpudeck.doctor import explain
    from tpudeck.runs.log import tail

    text = summary.error or "\n".join(tail(Path(summary.path), 50))
    for known in explain(text):
        if known.fix not in text:
            narrate(f"  {known.cause}\n  → {known.fix}")


def results(snapshot: RunSnapshot) -> str:
    """The losses that count, in one line."""
    summary = snapshot.summary
    parts = [f"{summary.step or 0:,} steps"]
    if summary.loss is not None:
        parts.append(f"loss {summary.loss:.4f}")
    if summary.eval_loss is not None:
        parts.append(f"evaluation loss {summary.eval_loss:.4f}")
    if summary.eval_loss is not None and summary.baseline_loss is not None:
        gain = summary.baseline_loss - summary.eval_loss
        side = "under" if gain >= 0 else "over"
        parts.append(f"{abs(gain):.2f} nats {side} token frequencies alone ({summary.baseline_loss:.4f})")
    return ", ".join(parts)


def show_learned(snapshot: RunSnapshot) -> None:
    """What the model fills in now, and what to do next."""
    from tpudeck.runs.events import SamplesFilled

    run_id = snapshot.summary.id
    filled = [line.event for line in snapshot.events if isinstance(line.event, SamplesFilled)]
    for sample in filled[-1].samples if filled else ():
        print(f"{sample.get('text', '')}\n  → {sample.get('filled', '')}")
        for answers in sample.get("answers", ()):
            likely = (f"{answer['token'].strip() or '␣'} {answer['probability']:.0%}" for answer in answers[:5])
            print(f"    {'   '.join(likely)}")
    print(f"""
next:
  tpudeck fill-mask {run_id} "The function returns a <mask>."
  tpudeck runs show {run_id}
  tpudeck export {run_id} my-model
  tpudeck                       (the console)""")
