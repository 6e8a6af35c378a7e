"""Exported folders: Transformers opens them with nothing missing, nothing unexpected, and the same logits."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tinyruns import TinyRuns, tiny_experiment
from tpudeck.errors import InputError
from tpudeck.presets import FAMILIES
from tpudeck.tokenizer import load
from tpudeck.training.configuration import vocabulary_of
from tpudeck.training.export import export_model, state_dict
from tpudeck.training.model import LanguageModel, build_model

pytestmark = pytest.mark.training

IDS = np.random.default_rng(0).integers(5, 500, (2, 16)).astype(np.int32)


def exported(tiny_runs: TinyRuns, architecture: str, folder: Path) -> tuple[LanguageModel, np.ndarray]:
    """A fresh model written to a folder, and its logits."""
    experiment = tiny_experiment(model={"architecture": architecture, "initializer_range": 0.3})
    tokenizer = load(tiny_runs.tokenizer(experiment.family.specials))
    model = build_model(experiment, vocabulary_of(tokenizer))
    for weight in model.weights.values():
        weight.assign_add(tf.random.stateless_normal(weight.shape, [1, 2]) * 0.01)  # no bias is zero
    export_model(model, tokenizer, folder)
    everywhere = np.tile(np.arange(16, dtype=np.int32), (2, 1))
    return model, model.logits(tf.constant(IDS), tf.constant(everywhere)).numpy()[..., : tokenizer.vocab_size]


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_opens_an_export_with_no_key_missing_or_unexpected(
    tiny_runs: TinyRuns, tmp_path: Path, family: str
) -> None:
    """Through the code with which its TensorFlow classes read PyTorch's weights; `make torch` does it with PyTorch."""
    import transformers
    from safetensors.numpy import load_file
    from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

    model, expected = exported(tiny_runs, family, tmp_path / "model")
    assert model.vocabulary.size == 500 and expected.shape[-1] == 500
    kind = getattr(transformers, model.class_name)
    empty = kind(kind.config_class.from_pretrained(tmp_path / "model"))
    weights = load_file(tmp_path / "model" / "model.safetensors")
    opened, info = load_pytorch_state_dict_in_tf2_model(empty, weights, output_loading_info=True)
    assert not any(info.values()), info
    np.testing.assert_allclose(opened(IDS).logits.numpy(), expected, atol=2e-5)


def test_padding_of_the_vocabulary_is_cut_away_and_nothing_else(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    """Also where another axis happens to have the padded size."""
    experiment = tiny_experiment(model={"feed_forward": 512, "max_positions": 512})
    tokenizer = load(tiny_runs.tokenizer(experiment.family.specials))
    state = state_dict(build_model(experiment, vocabulary_of(tokenizer)))
    assert state["roberta.embeddings.word_embeddings.weight"].shape == (500, 32)
    assert state["lm_head.bias"].shape == (500,)
    assert state["roberta.encoder.layer.0.intermediate.dense.weight"].shape == (512, 32)
    assert state["roberta.embeddings.position_embeddings.weight"].shape == (514, 32)


def test_the_folder_says_what_it_holds(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    exported(tiny_runs, "roberta", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["architectures"], config["vocab_size"]) == (["RobertaForMaskedLM"], 500)
    assert load(tmp_path / "model").vocab_size == 500


def test_a_folder_that_holds_something_is_left_alone(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        exported(tiny_runs, "roberta", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_class_with_a_projection_of_its_own_is_exported_untied_and_whole(tiny_runs: TinyRuns, tmp_path: Path) -> None:
    model, _ = exported(tiny_runs, "TFMobileBertForMaskedLM", tmp_path / "model")
    state = state_dict(model)
    assert state["cls.predictions.decoder.weight"].shape == (500, 32)
    assert state["cls.predictions.dense.weight"].shape == (0, 500)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.torch
@pytest.mark.parametrize("family", FAMILIES)
def test_pytorch_gives_the_same_logits(tiny_runs: TinyRuns, tmp_path: Path, family: str) -> None:
    _, expected = exported(tiny_runs, family, tmp_path / "model")
    np.savez(tmp_path / "expected.npz", ids=IDS, logits=expected)
    script = f"""
        import numpy as np, torch, transformers
        assert int(transformers.__version__.split(".")[0]) >= 5
        kind = transformers.{"AutoModelForCausalLM" if family == "gpt2" else "AutoModelForMaskedLM"}
        model, info = kind.from_pretrained({str(tmp_path / "model")!r}, output_loading_info=True)
        assert not any(info.values()), info
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
        expected = np.load({str(tmp_path / "expected.npz")!r})
        with torch.no_grad():
            logits = model.eval()(torch.tensor(expected["ids"], dtype=torch.long)).logits.numpy()
        np.testing.assert_allclose(logits, expected["logits"], rtol=1e-4, atol=5e-5)
    """
    done = subprocess.run(
        [os.environ["TPUDECK_TORCH_PYTHON"], "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
