"""``tpudeck runs profile``: where the time of a live run's steps goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli.output import emit_json, emit_table, narrate
from tpudeck.cli.which import RUN, find

if TYPE_CHECKING:
    from tpudeck.runs.events import Profiled

_POLL_S = 0.2


def profile(
    run: str = RUN,
    steps: int = typer.Option(20, "--steps", min=1, max=1000, help="How many of its next steps to profile."),
    top: int = typer.Option(15, "--top", min=0, help="How many operations to show."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Profile the next steps of a run that is training, which goes on as ever."""
    from tpudeck import jobs
    from tpudeck.presets import load_experiment

    folder = find(run)
    profiled = _wait(folder, steps)
    trace = folder / profiled.path
    measured = jobs.run("profile", load_experiment(folder / "experiment.toml"), request={"folder": str(trace)})
    measured["operations"] = measured["operations"][:top]
    if as_json:
        emit_json({"run": folder.name, "folder": str(trace)} | measured)
        return
    narrate(f"{measured['steps']:,} steps from step {measured['first_step']:,}, per step:")
    emit_table(("what", "time", "share"), _rows(measured))
    narrate(f"the whole trace, for TensorBoard's profile plugin or XProf: {trace}")


def _wait(folder: Path, steps: int) -> Profiled:
    """Ask, and wait for the answer."""
    import time

    from tpudeck import launch
    from tpudeck.errors import InputError, WorkError
    from tpudeck.runs.events import Profiled, decode_event
    from tpudeck.runs.lines import LineFollower
    from tpudeck.runs.reader import RunReader
    from tpudeck.runs.status import is_live

    if not is_live(folder):
        raise InputError(f"a profile is of a run that is training, and {folder.name} is not running here")
    said = LineFollower(folder / "events.jsonl")
    said.offset = max(0, said.look())
    launch.request_profile(folder, steps=steps)
    now = RunReader(folder).refresh().summary
    later = "" if now.phase == "training" else f"; it will when it trains, and is now {now.phase or now.status}"
    narrate(f"{folder.name} was asked to profile {steps:,} steps{later}")
    try:
        while True:
            live = is_live(folder)
            for line in map(decode_event, said.rows()[0]):
                if line is not None and isinstance(line.event, Profiled):
                    if line.event.error:
                        raise WorkError(f"{folder.name} cannot be profiled: {line.event.error}")
                    return line.event
            if not live:
                raise WorkError(f"{folder.name} ended before it could be profiled")
            time.sleep(_POLL_S)
    finally:
        launch.withdraw_profile(folder)


def _rows(measured: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The step, its three parts, and below them the operations, which may run beside each other."""
    step_s = measured["step_s"]
    parts = [
        ("step", step_s),
        ("operations running", measured["operations_s"]),
        ("waiting for batches", measured["input_wait_s"]),
        ("neither", measured["other_s"]),
        *((f"  {operation['name']}", operation["time_s"]) for operation in measured["operations"]),
    ]
    return [(name, f"{time_s * 1e3:,.3f} ms", f"{time_s / step_s:.1%}") for name, time_s in parts]
