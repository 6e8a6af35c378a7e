"""Training starts from what PyTorch and Transformers 5 saved: the same logits, before any step."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tinyruns import tiny_experiment
from tpudeck import pretrained
from tpudeck.presets import experiment_from, merge

pytestmark = [pytest.mark.training, pytest.mark.torch, pytest.mark.slow]

MODELS = ["bert", "bert-with-all-its-heads", "roberta", "camembert", "distilbert", "electra", "gpt2"]
IDS = np.random.default_rng(0).integers(5, 500, (3, 16), dtype=np.int32)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("published")
    np.save(place / "ids.npy", IDS)
    program = Path(__file__).with_name("published.py")
    subprocess.run([os.environ["TPUDECK_TORCH_PYTHON"], program, place, place / "ids.npy"], check=True)
    return place


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_model_that_was_saved(published: Path, name: str) -> None:
    import tensorflow as tf

    from tpudeck.training.configuration import Vocabulary
    from tpudeck.training.initial import start_from
    from tpudeck.training.model import build_model

    changes = pretrained.as_changes(pretrained.describe(str(published / name)))
    experiment = experiment_from(merge(tiny_experiment().model_dump(), changes))
    model = build_model(experiment, Vocabulary(size=500, pad_id=1, bos_id=0, eos_id=2))
    started = start_from(pretrained.find(experiment), model)
    assert (started.fresh, started.new_tokens) == ((), 0)
    everywhere = np.tile(np.arange(IDS.shape[1], dtype=np.int32), (len(IDS), 1))
    ours = model.logits(tf.constant(IDS), tf.constant(everywhere)).numpy()[..., :500]
    theirs = np.load(published / name / "logits.npy")
    assert np.abs(theirs).max() > 0.5
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
