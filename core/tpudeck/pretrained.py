"""Weights to start from: found, described, and compared with an experiment before anything is trained.

A folder as ``tpudeck export`` and ``tpudeck push`` write it, and as models lie on the Hub: ``config.json``, weights
under PyTorch's names in safetensors (one file, or several with an index), and the tokenizer they were trained with.

What the five families have in common with published models is a table here; whatever else a configuration says must be
what our arithmetic does, or the weights are refused: a model that computes something else would start from noise.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tpudeck.errors import ArtefactError, Fault, PresetError
from tpudeck.folders import bring
from tpudeck.presets.schema import FAMILIES, NONE, Experiment
from tpudeck.storage import hash_file, read_json

__all__ = ["Weights", "as_changes", "describe", "find", "fitting"]

_CONFIG, _ONE_FILE, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

_FAMILY_OF = {"camembert": "roberta", "xlm-roberta": "roberta"} | {family: family for family in FAMILIES}
"""`model_type` → whose layout and names the weights have."""

_BERT_KEYS = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
_KEYS = {
    "distilbert": {
        "layers": "n_layers",
        "width": "dim",
        "heads": "n_heads",
        "feed_forward": "hidden_dim",
        "max_positions": "max_position_embeddings",
    },
    "gpt2": {
        "layers": "n_layer",
        "width": "n_embd",
        "heads": "n_head",
        "feed_forward": "n_inner",
        "max_positions": "n_positions",
    },
}
"""What we say → the configuration's key; the other families use BERT's."""

_EPSILON = {"bert": 1e-12, "roberta": 1e-5, "distilbert": 1e-12, "electra": 1e-12, "gpt2": 1e-5}
"""Of the LayerNorms, where an experiment doesn't say it."""

_MUST_BE: Mapping[str, Any] = {
    "hidden_act": "gelu",
    "activation": "gelu",
    "activation_function": "gelu_new",
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "is_decoder": False,
}
"""What our arithmetic does, as configurations say it. A key that is not there has the value that we need."""


@dataclass(frozen=True)
class Weights:
    """A folder with weights, described by its configuration."""

    source: str
    revision: str
    commit: str
    """Of a repository on the Hub."""
    folder: Path
    config: Mapping[str, Any]

    @property
    def family(self) -> str:
        return _FAMILY_OF[str(self.config["model_type"])]

    @property
    def name(self) -> str:
        return f"{self.source}@{self.commit[:12]}" if self.commit else self.source

    @functools.cached_property
    def files(self) -> tuple[Path, ...]:
        """The safetensors files; :class:`ArtefactError` where they are missing."""
        if (self.folder / _ONE_FILE).exists():
            return (self.folder / _ONE_FILE,)
        if not (self.folder / _INDEX).exists():
            raise ArtefactError(
                f"{self.source} holds no {_ONE_FILE}",
                hint="weights in other formats (pytorch_model.bin) can run code and are never read: "
                "save them again with safe_serialization",
            )
        named = _json(self.folder / _INDEX).get("weight_map")
        names = sorted(set(map(str, named.values()))) if isinstance(named, dict) else []
        if not names:
            raise ArtefactError(f"{self.folder / _INDEX} names no files of weights")
        for name in names:
            if Path(name).name != name or not (self.folder / name).exists():
                raise ArtefactError(f"{self.source} is not whole: its index names {name}, which is not there")
        return tuple(self.folder / name for name in names)

    def record(self) -> dict[str, str]:
        """Which weights these are, for the record of a run."""
        digest = hashlib.sha256("".join(map(hash_file, self.files)).encode()).hexdigest()
        hash_ = hash_file(self.files[0]) if len(self.files) == 1 else digest
        return {"source": self.source, "commit": self.commit, "hash": hash_}


def find(experiment: Experiment) -> Weights:
    """The weights an experiment starts from, brought here, and fit for it."""
    return _fit(experiment, (_CONFIG, _INDEX, _ONE_FILE, "model-*.safetensors"))


def fitting(experiment: Experiment) -> Weights | None:
    """What the weights are that an experiment starts from, and that they fit it, by their configuration alone.

    Raises :class:`PresetError` with everything in which they differ, :class:`ArtefactError` where nothing could fit.
    """
    return _fit(experiment, (_CONFIG,)) if experiment.model.weights else None


def describe(source: str, revision: str = "") -> Weights:
    """What weights are, by their configuration alone."""
    return _read(source, revision, (_CONFIG,))


def _fit(experiment: Experiment, patterns: tuple[str, ...]) -> Weights:
    weights = _read(experiment.model.weights, experiment.model.weights_revision, patterns)
    _require_same_arithmetic(weights)
    if faults := list(_differences(experiment, weights)):
        raise PresetError(faults, source=experiment.name)
    return weights


def _read(source: str, revision: str, patterns: tuple[str, ...]) -> Weights:
    folder = bring(source, revision, patterns=patterns, what="folder of weights")
    config = _json(folder.path / _CONFIG)
    kind = str(config.get("model_type"))
    if kind not in _FAMILY_OF:
        raise ArtefactError(
            f"{source} is a model of type {kind}", hint=f"training starts from models of type {', '.join(_FAMILY_OF)}"
        )
    return Weights(source, revision, folder.commit, folder.path, config)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        hint = "a folder of weights is what `tpudeck export` or Transformers' save_pretrained writes"
        raise ArtefactError(f"{path.parent} holds no {path.name}", hint=hint) from None
    except orjson.JSONDecodeError as error:
        raise ArtefactError(f"{path} is damaged: {error}") from error
    if not isinstance(data, dict):
        raise ArtefactError(f"{path} is not what it should be: it holds no table")
    return data


def as_changes(weights: Weights) -> dict[str, Any]:
    """What an experiment has to say to be of these weights' shape, and to start from them."""
    shape = {key: NONE if value is None else value for key, value in _shape(weights).items()}
    return {"model": shape | {"weights": weights.source}}


def _shape(weights: Weights) -> dict[str, Any]:
    """The section ``model`` of an experiment, as far as these weights decide it; none where that is the default."""
    config, sizes, published = weights.config, _sizes(weights), _EPSILON[weights.family]
    epsilon = config.get("layer_norm_eps", config.get("layer_norm_epsilon", published))
    embedding_width = config.get("embedding_size", sizes["width"])
    if not isinstance(epsilon, (int, float)) or not isinstance(embedding_width, int):
        raise ArtefactError(f"the configuration of {weights.source} holds no numbers where they are expected")
    return {
        "architecture": weights.family,
        **sizes,
        "norm_epsilon": None if epsilon == published else epsilon,
        "embedding_width": None if embedding_width == sizes["width"] else embedding_width,
    }


def _sizes(weights: Weights) -> dict[str, int]:
    config, keys = weights.config, _KEYS.get(weights.family, _BERT_KEYS)
    found = {ours: config.get(theirs) for ours, theirs in keys.items()}
    if found["feed_forward"] is None and isinstance(found["width"], int):
        found["feed_forward"] = 4 * found["width"]
    sizes = {ours: value for ours, value in found.items() if isinstance(value, int)}
    if missing := [keys[ours] for ours in found.keys() - sizes.keys()]:
        raise ArtefactError(f"the configuration of {weights.source} does not say {', '.join(sorted(missing))}")
    sizes["max_positions"] -= FAMILIES[weights.family].position_offset
    return sizes


def _require_same_arithmetic(weights: Weights) -> None:
    config = weights.config
    wrong = [f"{key} is {config[key]}" for key, wanted in _MUST_BE.items() if config.get(key, wanted) != wanted]
    if weights.family == "roberta" and config.get("pad_token_id", 1) != 1:
        wrong.append(f"pad_token_id is {config['pad_token_id']}")  # positions are counted from it
    if wrong:
        raise ArtefactError(f"{weights.source} is no {weights.family} as it is trained here: {', '.join(wrong)}")


def _differences(experiment: Experiment, weights: Weights) -> Iterator[Fault]:
    model = experiment.model
    hint = f"tpudeck run … --weights {weights.source} takes over their shape"
    asked = {
        "architecture": model.architecture,
        "layers": model.layers,
        "width": model.width,
        "heads": model.heads,
        "feed_forward": experiment.feed_forward,
        "max_positions": experiment.max_positions,
        "norm_epsilon": None if model.norm_epsilon == _EPSILON[weights.family] else model.norm_epsilon,
        "embedding_width": None if model.embedding_width == model.width else model.embedding_width,
    }
    for key, value in _shape(weights).items():
        if asked[key] != value:
            rule = f"is {NONE if value is None else value} in the weights {weights.source}"
            yield Fault(f"model.{key}", rule, NONE if asked[key] is None else str(asked[key]), hint)
            hint = ""
