"""A new run from an old one: the same experiment but for what is changed, anew or from one of its checkpoints.

A checkpoint is weights and moments of one model over the tokens of one tokenizer, so a run that goes on from one may
change how it trains, not what. The step count goes on too: a run forked at step 750 does its own step 751 next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.runs.summary import RunFiles

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.runs.checkpoints import Checkpoint

__all__ = ["fork"]

_FREE = ("name", "train.", "samples.", "device.", "model.dropout")
"""What may differ from the run whose checkpoint is taken."""


def fork(
    run: Path,
    *,
    home: Home,
    changes: Sequence[str] = (),
    checkpoint: str = "",
    name: str | None = None,
    argv: Sequence[str] = (),
) -> Path:
    """Write a new run folder; nothing is started. ``checkpoint`` is best, last, a step, or empty: begin anew.

    Raises :class:`InputError` where a change and a checkpoint don't go together.
    """
    from tpudeck.presets import resolve

    experiment = resolve(str(run / "experiment.toml"), home=home, overrides=changes).experiment
    taken = _checkpoint(run, experiment, checkpoint) if checkpoint else None
    return launch.create(
        experiment,
        home=home,
        name=name,
        preset=str(RunFiles.read(run).run.get("preset") or ""),
        argv=argv,
        forked_from=launch.Origin(run.name, taken),
    )


def _checkpoint(run: Path, experiment: Experiment, which: str) -> Checkpoint:
    """A checkpoint that the changed experiment can go on from."""
    from tpudeck.runs.checkpoints import Checkpoints

    _refuse_another_model(run, experiment)
    found = Checkpoints(run / "checkpoints").find(which)
    steps = experiment.train.steps
    if steps is not None and steps <= found.step:
        raise InputError(
            f"the checkpoint is at step {found.step:,}, and train.steps is {steps:,}: nothing would be left to do",
            hint="--set train.steps=… with more, or an earlier --checkpoint",
        )
    return found


def _refuse_another_model(run: Path, experiment: Experiment) -> None:
    from tpudeck.presets import diff, load_experiment

    changed = [key for key in diff(load_experiment(run / "experiment.toml"), experiment) if not key.startswith(_FREE)]
    if changed:
        raise InputError(
            f"a run that goes on from a checkpoint keeps its model and its text, got another {', '.join(changed)}",
            hint="leave out --checkpoint to begin anew",
        )
