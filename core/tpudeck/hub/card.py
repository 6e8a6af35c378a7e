"""The model card of a run: what it is, the text it read, the recipe, the results, the curve.

Everything is taken from the run folder; what is not known is left out rather than guessed. The recipe is complete:
`tpudeck run experiment.toml` repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import tpudeck
from tpudeck.hub.curve import Curve, draw
from tpudeck.hub.redact import redact, redact_experiment
from tpudeck.presets import Experiment, load_experiment
from tpudeck.presets.library import flatten, to_toml
from tpudeck.runs.events import Evaluated, EventLine
from tpudeck.runs.reader import RunReader
from tpudeck.storage import read_json, write_atomic
from tpudeck.units import format_count

__all__ = ["write_card"]

_CURVE_FILE = "training-loss.svg"
_RECIPE_FILE = "experiment.toml"


def write_card(run: Path, folder: Path, *, step: int) -> None:
    """Write ``README.md``, the recipe and the curve into the model folder that was exported from a run's step."""
    experiment = redact_experiment(load_experiment(run / "experiment.toml"))
    snapshot = RunReader(run).refresh()
    evaluations = [line.event for line in _newest(snapshot.events) if isinstance(line.event, Evaluated)]
    loss = snapshot.metrics.get("loss")
    curves = [] if loss is None else [Curve("training loss", loss.step, loss.value, "#1f77b4")]
    if evaluations:
        steps = np.array([event.step for event in evaluations], dtype=np.int64)
        values = np.array([event.eval_loss for event in evaluations], dtype=np.float64)
        curves.append(Curve("evaluation", steps, values, "#d62728"))
    write_atomic(folder / _CURVE_FILE, draw(curves).encode())
    write_atomic(folder / _RECIPE_FILE, redact(to_toml(experiment)).encode())
    text = "\n".join(_lines(experiment, run, step, evaluations))
    write_atomic(folder / "README.md", redact(text).encode())


def _newest(events: Iterable[EventLine]) -> list[EventLine]:
    """Events without those that a resume replaced: of each step the newest attempt's, in the order of steps."""
    kept = {line.event.step: line for line in events if isinstance(line.event, Evaluated)}
    return [kept[step] for step in sorted(kept)]


def _lines(experiment: Experiment, run: Path, step: int, evaluations: list[Evaluated]) -> Iterable[str]:
    causal = experiment.objective == "causal"
    about = read_json(run / "run.json")
    yield from _front_matter(experiment, causal)
    yield f"\n# {experiment.name}\n"
    goal = "next tokens" if causal else "masked tokens"
    start = f"from the weights of `{experiment.model.weights}`" if experiment.model.weights else "from scratch"
    yield f"A {experiment.model.architecture} trained {start} to predict {goal}, {step:,} optimizer steps, with"
    yield f"tpudeck {tpudeck.__version__} (run `{about['id']}`)."
    if experiment.summary:
        yield f"\n{experiment.summary}"
    yield from _data(experiment, run)
    yield from _recipe(experiment)
    yield from _results(step, evaluations, causal)
    yield from _versions(about)


def _front_matter(experiment: Experiment, causal: bool) -> Iterable[str]:
    yield "---"
    yield "library_name: transformers"
    yield f"pipeline_tag: {'text-generation' if causal else 'fill-mask'}"
    if experiment.model.weights.startswith("hub:"):
        yield f"base_model: {experiment.model.weights.removeprefix('hub:')}"
    yield f"tags:\n- tpudeck\n- {experiment.model.architecture}"
    if experiment.corpus.source.startswith("hub:"):
        yield f"datasets:\n- {experiment.corpus.source.removeprefix('hub:')}"
    yield "---"


def _data(experiment: Experiment, run: Path) -> Iterable[str]:
    shards = _result(run, "shards")
    tokenizer = _result(run, "tokenizer")
    corpus = {key: value for key, value in experiment.corpus.model_dump(exclude_none=True).items() if value != ""}
    yield "\n## Data\n"
    yield from _table(("corpus", "value"), corpus.items())
    for split in ("train", "validation"):
        counts = shards.get(split)
        if isinstance(counts, Mapping) and "sequences" in counts:
            tokens = f", {format_count(counts['tokens'])} tokens" if "tokens" in counts else ""
            yield f"\n{split}: {counts['sequences']:,} sequences of {experiment.shards.sequence_length}{tokens}"
    if tokenizer.keys() >= {"vocab_size", "hash"}:
        size = f"{tokenizer['vocab_size']:,} tokens"
        yield f"\ntokenizer: {experiment.tokenizer.kind}, {size}, SHA-256 `{tokenizer['hash']}`"


def _recipe(experiment: Experiment) -> Iterable[str]:
    yield "\n## Recipe\n"
    shown = {"model": experiment.model, "train": experiment.train}
    rows = flatten({name: section.model_dump(exclude_none=True) for name, section in shown.items()})
    yield from _table(("setting", "value"), rows)
    yield f"\nThe complete recipe is in `{_RECIPE_FILE}`; `tpudeck run {_RECIPE_FILE}` repeats it."


def _results(step: int, evaluations: list[Evaluated], causal: bool) -> Iterable[str]:
    yield "\n## Results\n"
    of_step = [event for event in evaluations if event.step == step]
    for event in of_step[-1:]:
        yield from _table(
            ("held-out text", f"step {step:,}"),
            {
                "loss (nats per predicted token)": _number(event.eval_loss),
                "perplexity": _number(event.perplexity),
                "accuracy on predicted tokens": f"{event.accuracy:.2%}",
                "loss of token frequencies alone": _number(event.baseline_loss),
                "predicted tokens": f"{event.targets:,}",
            }.items(),
        )
        if not causal:
            yield "\nEvery predicted position is hidden in evaluation: none is left visible or replaced at random."
    if not of_step:
        yield f"Step {step:,} was not evaluated."
    yield f"\n![loss by step]({_CURVE_FILE})"


def _versions(about: Mapping[str, Any]) -> Iterable[str]:
    versions = about.get("versions")
    if isinstance(versions, Mapping) and versions:
        yield "\n## Versions\n"
        yield from _table(("package", "version"), versions.items())


def _table(head: tuple[str, str], rows: Iterable[tuple[str, Any]]) -> Iterable[str]:
    yield f"| {head[0]} | {head[1]} |\n|---|---|"
    for key, value in rows:
        yield f"| {_cell(key)} | {_cell(value)} |"


def _cell(value: Any) -> str:
    """Text that stays in its cell and means nothing to Markdown."""
    text = " ".join(str(value).split())
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return text


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else str(value)


def _result(run: Path, task: str) -> dict[str, Any]:
    """What a stage of the run said at its end; empty where it said nothing."""
    try:
        return dict(read_json(run / "results" / f"{task}.json")["result"])
    except (FileNotFoundError, KeyError, orjson.JSONDecodeError):
        return {}
