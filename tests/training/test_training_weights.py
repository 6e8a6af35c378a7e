"""Training that starts from existing weights: they arrive to the last bit, or it is said what doesn't fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from tinyruns import TinyRuns, events, tiny_experiment, train
from tpudeck import pretrained
from tpudeck.errors import ArtefactError, PresetError
from tpudeck.presets import FAMILIES, Experiment
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck.training.checkpoints import assign
from tpudeck.training.configuration import Vocabulary, vocabulary_of
from tpudeck.training.export import export_model
from tpudeck.training.initial import Started, start_from
from tpudeck.training.model import LanguageModel, build_model

pytestmark = pytest.mark.training

IDS = np.random.default_rng(0).integers(5, 500, (2, 16)).astype(np.int32)
Tensors = dict[str, npt.NDArray[Any]]


class Family:
    """One family's tiny model, written as a folder of weights."""

    def __init__(self, name: str, tiny_runs: TinyRuns, place: Path, **model: Any) -> None:
        self.shape = {"architecture": name, "initializer_range": 0.3, "feed_forward": 80, **model}
        experiment = tiny_experiment(model=self.shape)
        self.tokenizer: LoadedTokenizer = load(tiny_runs.tokenizer(experiment.family.specials))
        self.folder = place / "weights"
        self.model = self.built(seed=1)
        for weight in self.model.weights.values():
            weight.assign_add(tf.random.stateless_normal(weight.shape, [1, 2]) * 0.01)  # no bias is zero
        export_model(self.model, self.tokenizer, self.folder)

    def experiment(self, **model: Any) -> Experiment:
        return tiny_experiment(model=self.shape | {"weights": str(self.folder)} | model)

    def built(self, *, seed: int, vocabulary: Vocabulary | None = None, **model: Any) -> LanguageModel:
        experiment = tiny_experiment(model=self.shape | model, train={"seed": seed})
        return build_model(experiment, vocabulary or vocabulary_of(self.tokenizer))

    def started(self, **model: Any) -> tuple[LanguageModel, Started]:
        """A fresh model that took the folder's weights over."""
        fresh = self.built(seed=2, **model)
        return fresh, start_from(pretrained.find(self.experiment()), fresh)

    def tensors(self) -> Tensors:
        return load_file(self.folder / "model.safetensors")

    def rewrite(self, change: Callable[[Tensors], Tensors]) -> None:
        save_file(change(self.tensors()), self.folder / "model.safetensors")

    def configure(self, **changes: Any) -> None:
        path = self.folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def family(tiny_runs: TinyRuns, tmp_path: Path) -> Callable[..., Family]:
    return lambda name, **model: Family(name, tiny_runs, tmp_path, **model)


def logits(model: LanguageModel) -> npt.NDArray[np.float32]:
    everywhere = np.tile(np.arange(16, dtype=np.int32), (2, 1))
    found: npt.NDArray[np.float32] = model.logits(tf.constant(IDS), tf.constant(everywhere)).numpy()[..., :500]
    return found


@pytest.mark.parametrize(
    ("name", "model"), [*((name, {}) for name in FAMILIES), ("electra", {"embedding_width": 48, "norm_epsilon": 1e-6})]
)
def test_weights_survive_export_start_and_export_to_the_last_bit(
    family: Callable[..., Family], tmp_path: Path, name: str, model: dict[str, Any]
) -> None:
    one = family(name, **model)
    other, started = one.started()
    assert (started.taken, started.fresh, started.new_tokens) == (len(other.weights), (), 0)
    np.testing.assert_array_equal(logits(other), logits(one.model))
    export_model(other, one.tokenizer, tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert again.keys() == one.tensors().keys()
    for key, value in one.tensors().items():
        np.testing.assert_array_equal(again[key], value, err_msg=key)


def test_a_run_starts_where_the_exported_one_ended_and_says_from_what(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    first = tiny_runs.run(tiny_experiment())
    before = train(first)
    export(first, tmp_path / "weights")
    settings = {"steps": 4, "learning_rate": 1e-30, "weight_decay": 0.0}
    second = tiny_runs.run(tiny_experiment(model={"weights": str(tmp_path / "weights")}, train=settings))
    train(second)
    evaluated = events(second, "evaluated")
    assert [line["step"] for line in evaluated] == [0, 4]
    assert [line["eval_loss"] for line in evaluated] == pytest.approx([before["eval_loss"]] * 2, abs=1e-5)
    assert [line["step"] for line in events(second, "checkpoint_saved")] == [0, 4]
    plan = json.loads((second / "plan.json").read_text())
    assert plan["weights"] == pretrained.describe(str(tmp_path / "weights")).record()
    assert "starts from" in events(second, "noticed")[0]["message"]


def test_a_resumed_run_does_not_ask_for_the_weights_again(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    first = tiny_runs.run(tiny_experiment())
    train(first)
    export(first, tmp_path / "weights")
    second = tiny_runs.run(tiny_experiment(model={"weights": str(tmp_path / "weights")}))
    result = train(second)
    (tmp_path / "weights" / "model.safetensors").unlink()
    assert train(second, attempt=2)["eval_loss"] == result["eval_loss"]
    assert events(second, "attempt_started")[-1]["resume_from_step"] == 6


def export(run: Path, folder: Path) -> None:
    from tpudeck.runs.checkpoints import Checkpoints
    from tpudeck.training.inputs import read_tokenizer

    tokenizer = read_tokenizer(run)
    model = build_model(tiny_experiment(), vocabulary_of(tokenizer))
    checkpoint = Checkpoints(run / "checkpoints").find("last")
    assign(model.weights, checkpoint.weights(), source=checkpoint.folder)
    export_model(model, tokenizer, folder)


def test_a_model_that_was_saved_without_its_head_gets_a_fresh_one(family: Callable[..., Family]) -> None:
    bert = family("bert")
    bert.rewrite(
        lambda tensors: (
            {key.removeprefix("bert."): value for key, value in tensors.items() if not key.startswith("cls.")}
            | {"pooler.dense.weight": np.ones((32, 32), np.float32)}
        )
    )
    model, started = bert.started()
    assert started.fresh and all(name.startswith("cls.predictions.") for name in started.fresh)
    assert "fresh" in started.in_words()
    for name, weight in model.weights.items():
        if name not in started.fresh:
            np.testing.assert_array_equal(weight[:500], bert.model.weights[name][:500], err_msg=name)


def test_what_old_files_call_differently_is_found(family: Callable[..., Family]) -> None:
    """As in the published BERT: gamma and beta, the projection beside its table, heads for other purposes."""
    bert = family("bert")

    def age(tensors: Tensors) -> Tensors:
        old = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
            for key, value in tensors.items()
        }
        old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].copy()
        old["cls.predictions.decoder.bias"] = old.pop("cls.predictions.bias")
        return old | {"cls.seq_relationship.bias": np.ones(2, np.float32)}

    bert.rewrite(age)
    model, started = bert.started()
    assert started.fresh == ()
    np.testing.assert_array_equal(logits(model), logits(bert.model))


def test_weights_in_several_files_and_in_half_precision_are_read(family: Callable[..., Family]) -> None:
    gpt2 = family("gpt2")
    tensors = {
        key.removeprefix("transformer."): value.astype(ml_dtypes.bfloat16) for key, value in gpt2.tensors().items()
    }
    (gpt2.folder / "model.safetensors").unlink()
    parts = [dict(list(tensors.items())[half::2]) for half in (0, 1)]
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, parts, strict=True):
        save_file(part, gpt2.folder / name)
    index = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    (gpt2.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    model, _ = gpt2.started()
    for name, weight in model.weights.items():
        np.testing.assert_allclose(weight[:500], gpt2.model.weights[name][:500], rtol=1e-2, err_msg=name)
    (gpt2.folder / names[1]).unlink()
    with pytest.raises(ArtefactError, match="is not whole"):
        gpt2.started()


def test_tokens_that_the_weights_do_not_know_start_fresh_and_are_counted(family: Callable[..., Family]) -> None:
    roberta = family("roberta")
    roberta.rewrite(
        lambda tensors: {key: value[:450] if len(value) == 500 else value for key, value in tensors.items()}
    )
    model, started = roberta.started()
    assert started.new_tokens == 50 and "50 tokens are new" in started.in_words()
    table = "roberta.embeddings.word_embeddings.weight"
    np.testing.assert_array_equal(model.weights[table][:450], roberta.model.weights[table][:450])
    assert np.abs(model.weights[table][450:500]).max() > 0


def untie(tensors: Tensors) -> Tensors:
    return tensors | {"lm_head.decoder.weight": tensors["roberta.embeddings.word_embeddings.weight"] + 1}


def cut(tensors: Tensors) -> Tensors:
    name = "roberta.encoder.layer.0.output.dense.weight"
    return tensors | {name: np.ascontiguousarray(tensors[name][:, :64])}


def lose(tensors: Tensors) -> Tensors:
    return {key: value for key, value in tensors.items() if "position" not in key}


def poison(tensors: Tensors) -> Tensors:
    return tensors | {"lm_head.dense.bias": np.full(32, np.nan, np.float32)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (untie, "projects onto the vocabulary with lm_head.decoder.weight"),
        (cut, r"layer.0.output.dense.weight .* has the shape \[32, 64\], .* \[32, 80\]"),
        (lose, "holds no weight roberta.embeddings.position_embeddings.weight"),
        (poison, "lm_head.dense.bias is not finite"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    family: Callable[..., Family], change: Callable[[Tensors], Tensors], said: str
) -> None:
    roberta = family("roberta")
    roberta.rewrite(change)
    with pytest.raises(ArtefactError, match=said):
        roberta.started()


def test_damaged_files_are_told_from_others(family: Callable[..., Family]) -> None:
    roberta = family("roberta")
    (roberta.folder / "model.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(ArtefactError, match="are damaged"):
        roberta.started()


def test_another_shape_is_refused_before_anything_is_read(family: Callable[..., Family]) -> None:
    roberta = family("roberta")
    with pytest.raises(PresetError, match=r"model\.layers: is 1 in the weights"):
        pretrained.find(roberta.experiment(layers=2))
