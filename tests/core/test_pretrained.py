"""Weights to start from, as far as that is known without TensorFlow: their shape, their tokenizer, their refusals."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from gcsfaults import ObjectStore
from tpudeck import jobs, launch, pretrained
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, PresetError
from tpudeck.presets import Experiment, experiment_from, merge
from tpudeck.storage import sets
from tpudeck.tokenizer import load

ROBERTA = {
    "model_type": "roberta", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 66, "layer_norm_eps": 1e-5, "vocab_size": 100,
    "tie_word_embeddings": True, "hidden_act": "gelu", "pad_token_id": 1,
}  # fmt: skip
PUBLISHED = {
    "roberta-base": (
        ROBERTA | {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
                   "max_position_embeddings": 514},
        {"architecture": "roberta", "layers": 12, "width": 768, "heads": 12, "feed_forward": 3072, "max_positions": 512,
         "norm_epsilon": "none", "embedding_width": "none"},
    ),
    "gpt2": (
        {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_inner": None,
         "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5},
        {"architecture": "gpt2", "layers": 12, "width": 768, "heads": 12, "feed_forward": 3072, "max_positions": 1024,
         "norm_epsilon": "none", "embedding_width": "none"},
    ),
    "distilbert-base-uncased": (
        {"model_type": "distilbert", "n_layers": 6, "dim": 768, "n_heads": 12, "hidden_dim": 3072,
         "max_position_embeddings": 512, "activation": "gelu", "tie_weights_": True},
        {"architecture": "distilbert", "layers": 6, "width": 768, "heads": 12, "feed_forward": 3072,
         "max_positions": 512, "norm_epsilon": "none", "embedding_width": "none"},
    ),
    "electra-small-generator": (
        {"model_type": "electra", "num_hidden_layers": 12, "hidden_size": 256, "num_attention_heads": 4,
         "intermediate_size": 1024, "max_position_embeddings": 512, "embedding_size": 128, "layer_norm_eps": 1e-12},
        {"architecture": "electra", "layers": 12, "width": 256, "heads": 4, "feed_forward": 1024, "max_positions": 512,
         "norm_epsilon": "none", "embedding_width": 128},
    ),
    "xlm-roberta with an epsilon of its own": (
        ROBERTA | {"model_type": "xlm-roberta", "layer_norm_eps": 1e-6},
        {"architecture": "roberta", "layers": 2, "width": 32, "heads": 2, "feed_forward": 128, "max_positions": 64,
         "norm_epsilon": 1e-6, "embedding_width": "none"},
    ),
}  # fmt: skip


def write(folder: Path, config: dict[str, Any], *, tokens: tuple[str, ...] = ("a", "b", "c")) -> Path:
    """A folder of weights, as far as it is looked at here."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    write_tokenizer(folder, tokens)
    return folder


def write_tokenizer(folder: Path, tokens: tuple[str, ...]) -> Path:
    from tokenizers import models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *tokens]
    rust = Tokenizer(models.WordLevel({name: id_ for id_, name in enumerate(names)}, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(names[:5])
    rust.save(str(folder / "tokenizer.json"))
    return folder


def experiment(weights: Path | str, **changes: Any) -> Experiment:
    shape = {"layers": 2, "width": 32, "heads": 2, "max_positions": 64, "weights": str(weights)}
    plain = {"model": shape, "shards": {"sequence_length": 32}, "train": {"steps": 1, "global_batch_size": 8}}
    return experiment_from(merge(plain, changes))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_shape_of_published_models_is_understood(tmp_path: Path, name: str) -> None:
    config, shape = PUBLISHED[name]
    weights = write(tmp_path / "model", config)
    changes = pretrained.as_changes(pretrained.describe(str(weights)))
    assert changes == {"model": shape | {"weights": str(weights)}}
    plain = {"shards": {"sequence_length": 32}, "train": {"steps": 1, "global_batch_size": 8}}
    assert pretrained.fitting(experiment_from(merge(plain, changes))) is not None


def test_every_difference_is_told_with_what_was_asked_and_what_was_found(tmp_path: Path) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    asked = experiment(weights, model={"layers": 3, "feed_forward": 64, "max_positions": 32})
    with pytest.raises(PresetError) as caught:
        pretrained.fitting(asked)
    told = {fault.path: (fault.rule, fault.got) for fault in caught.value.faults}
    assert {path: got for path, (_, got) in told.items()} == {
        "model.layers": "3", "model.feed_forward": "64", "model.max_positions": "32",
    }  # fmt: skip
    assert told["model.layers"][0].startswith("is 2 in the weights")
    assert "--weights" in caught.value.show()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "llama"}, "is a model of type llama"),
        ({"hidden_act": "relu"}, "hidden_act is relu"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is relative_key"),
        ({"pad_token_id": 0}, "pad_token_id is 0"),
        ({"hidden_size": None}, "does not say hidden_size"),
    ],
)
def test_models_that_compute_something_else_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    weights = write(tmp_path / "model", ROBERTA | change)
    with pytest.raises(ArtefactError, match=said):
        pretrained.fitting(experiment(weights))


def test_what_is_no_folder_of_weights_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="there is no folder of weights"):
        pretrained.describe(str(tmp_path / "nothing"))
    with pytest.raises(ArtefactError, match=r"holds no config\.json"):
        pretrained.describe(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ArtefactError, match="is damaged"):
        pretrained.describe(str(tmp_path))


@pytest.mark.parametrize("key", sorted({*ROBERTA, "embedding_size"}))
@pytest.mark.parametrize("value", ["big", None, [1], {"a": 1}, -1, 0.5, True])
def test_a_configuration_of_nonsense_is_a_mistake_and_not_a_crash(tmp_path: Path, key: str, value: Any) -> None:
    weights = write(tmp_path / "model", ROBERTA | {key: value})
    with contextlib.suppress(InputError):
        pretrained.as_changes(pretrained.describe(str(weights)))
        pretrained.fitting(experiment(weights))


@pytest.mark.parametrize(
    "index", [b"{}", b"[]", b"{", b'{"weight_map": [1]}', b'{"weight_map": {"a": 5}}', b'{"weight_map": {"a": "../b"}}']
)
def test_an_index_of_nonsense_is_explained(tmp_path: Path, index: bytes) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    (weights / "model.safetensors").rename(weights / "model.safetensors.index.json")
    (weights / "model.safetensors.index.json").write_bytes(index)
    with pytest.raises(ArtefactError, match=r"names|is damaged|no table"):
        _ = pretrained.find(experiment(weights)).files


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    (weights / "model.safetensors").rename(weights / "pytorch_model.bin")
    with pytest.raises(ArtefactError, match=r"holds no model\.safetensors"):
        _ = pretrained.find(experiment(weights)).files


def test_a_run_that_cannot_fit_its_weights_is_not_made(tmp_path: Path, home: Home) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    with pytest.raises(PresetError, match=r"model\.heads"):
        launch.create(experiment(weights, model={"heads": 4}), home=home)
    assert not list(home.runs.glob("*"))


def test_weights_bring_their_tokenizer_to_the_letter(tmp_path: Path, home: Home) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    plain = {"tokenizer": {"kind": "wordpiece", "vocab_size": 400}, "train": {"steps": 1, "global_batch_size": 8}}
    trained = jobs.run("tokenizer", experiment_from(plain))
    load(trained["folder"]).save(weights)
    made = jobs.run("tokenizer", experiment(weights))
    assert made["hash"] == trained["hash"]


def test_a_tokenizer_whose_ids_mean_something_else_is_refused(tmp_path: Path, home: Home) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    other = write_tokenizer(tmp_path / "other", ("a", "c", "b"))
    with pytest.raises(ArtefactError, match=r"2 of 8 tokens .* 'b' is 7 and was 6"):
        jobs.run("tokenizer", experiment(weights, tokenizer={"source": str(other)}))


def test_a_tokenizer_with_more_tokens_may_go_on(tmp_path: Path, home: Home) -> None:
    weights = write(tmp_path / "model", ROBERTA)
    larger = write_tokenizer(tmp_path / "larger", ("a", "b", "c", "d"))
    assert jobs.run("tokenizer", experiment(weights, tokenizer={"source": str(larger)}))["vocab_size"] == 9


def test_weights_come_from_a_bucket_once(object_store: ObjectStore, tmp_path: Path, home: Home) -> None:
    sets.push(write(tmp_path / "model", ROBERTA), "gs://bucket/model")
    asked = experiment("gs://bucket/model")
    weights = pretrained.find(asked)
    assert weights.files[0].read_bytes() == b"weights"
    object_store.reset()
    assert pretrained.find(asked).record() == weights.record()
    assert object_store.count(lambda request: request.reads_content) == 0
    with pytest.raises(ArtefactError, match="there is no folder of weights at gs://bucket/none"):
        pretrained.describe("gs://bucket/none")
