"""What training is given: the experiment, its tokenizer and its shards; checked before TensorFlow is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck import pretrained
from tpudeck.errors import ArtefactError, Fault, InputError, PresetError
from tpudeck.shards import ShardSet, open_set
from tpudeck.storage import is_bucket, read_json
from tpudeck.tokenizer import LoadedTokenizer, load

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.pretrained import Weights

__all__ = ["Inputs", "read_inputs", "read_tokenizer"]


@dataclass(frozen=True)
class Inputs:
    """An experiment with the artefacts that its run made or found."""

    experiment: Experiment
    tokenizer: LoadedTokenizer
    shards: ShardSet
    weights: Weights | None
    """What to start from; none where that is random weights, or a checkpoint of the run itself."""


def read_inputs(run: Path, experiment: Experiment) -> Inputs:
    """The tokenizer and shards that a run folder names; :class:`InputError` where they don't fit the experiment."""
    tokenizer = read_tokenizer(run)
    shards = open_set(_place(run, "shards"))
    shards.require_tokenizer(tokenizer.hash, tokenizer.folder)
    shards.require_length(experiment.shards.sequence_length)
    if experiment.objective == "masked" and tokenizer.mask_id is None:
        raise InputError(
            f"masked language modelling needs a mask token, and the tokenizer in {tokenizer.folder} has none",
            hint="use another tokenizer, or model.architecture = gpt2",
        )
    ordinary = tokenizer.vocab_size - len(tokenizer.special_ids)
    if ordinary < 1:
        fault = Fault("tokenizer.vocab_size", "must leave room for ordinary tokens", str(tokenizer.vocab_size))
        raise PresetError([fault], source=experiment.name)
    begun = any((run / "checkpoints").glob("step-*/manifest.json"))
    weights = pretrained.find(experiment) if experiment.model.weights and not begun else None
    return Inputs(experiment, tokenizer, shards, weights)


def read_tokenizer(run: Path) -> LoadedTokenizer:
    """The tokenizer of a run; :class:`ArtefactError` where its file has changed since the run made or chose it."""
    tokenizer = load(_place(run, "tokenizer"))
    expected = _result(run, "tokenizer").get("hash")
    if expected not in (None, tokenizer.hash):
        raise ArtefactError(
            f"the tokenizer in {tokenizer.folder} is {tokenizer.hash[:12]}, and this run began with {expected[:12]}",
            hint="put the file back, or start a new run",
        )
    return tokenizer


def _place(run: Path, task: str) -> Path | str:
    """Where an artefact is: relative folders are those of the run itself."""
    folder = str(_result(run, task)["folder"])
    return folder if is_bucket(folder) else run / folder


def _result(run: Path, task: str) -> dict[str, Any]:
    path = run / "results" / f"{task}.json"
    try:
        outcome = read_json(path)
        return dict(outcome["result"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ArtefactError(
            f"{run} has no {task} yet: {path.name} is missing or unfinished", hint=f"its {task} stage comes first"
        ) from error
