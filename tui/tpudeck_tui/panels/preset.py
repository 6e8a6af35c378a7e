"""A preset as lines: what it is, what follows from it, and how it differs from another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.errors import InputError, TpudeckError
from tpudeck.plan import derive
from tpudeck.presets import Experiment, diff, load_experiment
from tpudeck.storage import read_json
from tpudeck_tui.cells import chop, fit

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.draft import Draft
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["about_lines", "chain_lines", "difference_lines", "file_lines", "measured"]

_KEY_CELLS, _VALUE_CELLS = 28, 24
_RUNS_LOOKED_AT = 8
_SEQUENCES_DEPEND_ON: Mapping[str, Any] = {
    "corpus": True,
    "tokenizer": True,
    "shards": True,
    "model": {"architecture", "objective"},
}
_SPEED_DEPENDS_ON: Mapping[str, Any] = {
    "shards": {"sequence_length"},
    "model": True,
    "train": {"global_batch_size", "replica_batch_size", "accumulation_steps", "precision", "xla", "steps_per_call"},
    "device": True,
}


def about_lines(draft: Draft, width: int) -> list[TextLine]:
    """Where it comes from, what was changed or is wrong, and what it is for."""
    experiment = draft.base.experiment
    name = " ← ".join(path.stem for path in draft.base.chain)
    state, part = experiment.takes, "muted"
    if draft.faults:
        state, part = f"{len(draft.faults)} to put right", "bad"
    elif draft.changes:
        state, part = f"{len(draft.changes)} changed: ctrl+s saves, u undoes, esc drops", "accent"
    faults: list[TextLine] = [[(fit(fault.show(), width), "bad")] for fault in draft.other_faults]
    return [
        [(f"{name}  ", "title"), (fit(state, width - len(name) - 2), part)],
        *faults,
        [(fit(experiment.summary, width), "")],
        [(fit(f"needs {experiment.needs}" if experiment.needs else "", width), "muted")],
    ]


def chain_lines(experiment: Experiment | None, known: dict[str, Any], width: int) -> list[TextLine]:
    """The numbered chain of what follows, with what a run has measured."""
    if experiment is None:
        return [[("What follows is worked out when nothing is wrong any more.", "muted")]]
    try:
        plan = derive(experiment, **known)
    except (TpudeckError, ArithmeticError) as error:
        return [[(fit(str(error), width), "bad")]]
    lines: list[TextLine] = []
    for number, quantity in enumerate(plan.quantities, start=1):
        line: TextLine = [
            (f"{number:>2} ", "quiet"),
            (f"{quantity.label:<30.30}", "muted"),
            (f"{quantity.text:<18}", "quiet" if quantity.value is None else "bright"),
        ]
        room = width - sum(len(text) for text, _ in line) - 2
        lines.append([*line, (f"  {fit(quantity.how, room)}" if room > 8 else "", "quiet")])
    return lines


def measured(experiment: Experiment, preset: str, runs: Iterable[RunSummary]) -> dict[str, Any]:
    """Sequences and speed, each of the newest run of a preset that does the same in what it depends on."""
    found: dict[str, Any] = {}
    for run in islice((run for run in runs if run.preset == preset and run.tokens_per_s), _RUNS_LOOKED_AT):
        try:
            seen = _experiment_of(Path(run.path))
            if "tokens_per_s" not in found and _alike(seen, experiment, _SPEED_DEPENDS_ON):
                found["tokens_per_s"] = run.tokens_per_s
            if "sequences_train" not in found and _alike(seen, experiment, _SEQUENCES_DEPEND_ON):
                shards = read_json(Path(run.path) / "results" / "shards.json")["result"]
                found["sequences_train"] = int(shards["train"]["sequences"])
        except (TpudeckError, OSError, ValueError, KeyError, TypeError):
            continue
    return found


@lru_cache(maxsize=32)
def _experiment_of(run: Path) -> Experiment:
    return load_experiment(run / "experiment.toml")  # it never changes


def _alike(one: Experiment, other: Experiment, keys: Mapping[str, Any]) -> bool:
    return one.model_dump(include=dict(keys)) == other.model_dump(include=dict(keys))


def file_lines(path: Path, width: int) -> list[TextLine]:
    """The file itself."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return [[(fit(str(error), width), "bad")]]
    return [
        [(part, "muted" if line.startswith("#") else "accent" if line.startswith("[") else "")]
        for line in text.splitlines()
        for part in chop(line, width)
    ]


def difference_lines(draft: Draft, other: Draft | InputError | None, width: int) -> list[TextLine]:
    """What another preset (else the one that was changed) has otherwise."""
    if isinstance(other, InputError):
        return [[(fit(other.message, width), "bad")]]
    if draft.experiment is None or (other is None and not draft.changes):
        return [[("space marks another preset; here is then what differs.", "muted")]]
    base = other or draft
    found = diff(base.base.experiment, draft.experiment)
    head: TextLine = [(f"{base.preset} → {draft.preset}{' as changed' if draft.changes else ''}", "title")]
    lines: list[TextLine] = [
        [
            (f"{path:<{_KEY_CELLS}.{_KEY_CELLS}}", "muted"),
            (fit(str(before), _VALUE_CELLS), "remove"),
            (" → ", "quiet"),
            (fit(str(after), max(8, width - _KEY_CELLS - _VALUE_CELLS - 6)), "add"),
        ]
        for path, (before, after) in found.items()
    ]
    return [head, *(lines or [[("no difference", "muted")]])]
