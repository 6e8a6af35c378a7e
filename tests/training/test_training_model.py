"""The forward pass: the same numbers as Transformers' own classes give, and nothing outside the vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tinyruns import tiny_experiment
from tpudeck.errors import InputError, PresetError
from tpudeck.presets import FAMILIES
from tpudeck.training.configuration import Vocabulary, configuration, model_class
from tpudeck.training.model import LanguageModel, build_model
from tpudeck.training.names import by_name

pytestmark = pytest.mark.training

VOCABULARY = Vocabulary(size=500, pad_id=1, bos_id=0, eos_id=2)
IDS = np.random.default_rng(0).integers(5, 500, (3, 16)).astype(np.int32)
EVERYWHERE = np.tile(np.arange(16, dtype=np.int32), (3, 1))


def build(architecture: str, **train: Any) -> LanguageModel:
    model = {"architecture": architecture, "layers": 2, "initializer_range": 0.3}
    return build_model(tiny_experiment(model=model, train=train), VOCABULARY)


def logits(model: LanguageModel) -> np.ndarray:
    return np.asarray(model.logits(tf.constant(IDS), tf.constant(EVERYWHERE)))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers_own_class(family: str) -> None:
    ours = build(family)
    theirs = model_class(family)(
        configuration(tiny_experiment(model={"architecture": family, "layers": 2}), VOCABULARY)
    )
    theirs.build_in_name_scope()
    for name, variable in by_name(theirs.trainable_variables).items():
        variable.assign(ours.weights[name])
    expected = theirs(IDS).logits.numpy()[..., : VOCABULARY.size]
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits(ours)[..., : VOCABULARY.size], expected, atol=2e-5)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_bfloat16_logits_are_float32_and_near_those_of_float32(family: str) -> None:
    exact, coarse = logits(build(family)), logits(build(family, precision="bfloat16"))
    assert coarse.dtype == np.float32
    assert 0 < np.abs(coarse - exact)[..., : VOCABULARY.size].max() < 0.15 * np.abs(exact[..., : VOCABULARY.size]).max()


def test_a_class_we_know_nothing_of_has_no_padding() -> None:
    assert logits(build("TFCamembertForMaskedLM")).shape[-1] == 500


@pytest.mark.parametrize("architecture", ["roberta", "gpt2"])
def test_tokens_that_only_pad_the_vocabulary_are_out_of_reach(architecture: str) -> None:
    probabilities = tf.nn.softmax(logits(build(architecture))).numpy()
    assert probabilities.shape[-1] == 512
    assert (probabilities[..., VOCABULARY.size :] == 0).all()


def test_a_causal_model_does_not_see_what_comes_after() -> None:
    model = build("gpt2")
    changed = IDS.copy()
    changed[:, 10:] = 7
    before, after = logits(model), np.asarray(model.logits(tf.constant(changed), tf.constant(EVERYWHERE)))
    np.testing.assert_array_equal(before[:, :10], after[:, :10])
    assert np.abs(before[:, 10:] - after[:, 10:]).max() > 0.1


def test_weights_follow_from_the_seed_and_differ_between_layers() -> None:
    def values(seed: int) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in build("bert", seed=seed).weights.items()}

    one, again, other = values(1), values(1), values(2)
    for name, value in one.items():
        np.testing.assert_array_equal(value, again[name])
    query = "bert.encoder.layer.{}.attention.self.query.weight"
    assert not np.array_equal(one[query.format(0)], other[query.format(0)])
    assert not np.array_equal(one[query.format(0)], one[query.format(1)])


def test_an_architecture_without_a_tensorflow_class_is_refused() -> None:
    with pytest.raises(PresetError, match=r"model\.architecture: must be a TensorFlow class of Transformers"):
        model_class("TFModernBertForMaskedLM")


def test_a_class_that_cannot_be_built_from_these_sizes_is_refused() -> None:
    experiment = tiny_experiment()
    model = experiment.model.model_copy(update={"architecture": "TFFunnelForMaskedLM"})  # which no preset may name
    with pytest.raises(InputError, match="TFFunnelForMaskedLM cannot be built"):
        build_model(experiment.model_copy(update={"model": model}), VOCABULARY)
