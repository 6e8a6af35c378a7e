"""The parameters that the plan counts are those of the models that training builds."""

from __future__ import annotations

import math

import pytest

from tpudeck import plan
from tpudeck.presets import FAMILIES, Experiment, experiment_from

pytestmark = pytest.mark.training

VOCAB = 1000


def built(experiment: Experiment) -> int:
    """Trainable parameters of the model as the trainer builds it."""
    from tpudeck.training.configuration import Vocabulary
    from tpudeck.training.model import build_model

    model = build_model(experiment, Vocabulary(VOCAB, pad_id=1, bos_id=0, eos_id=2))
    return sum(math.prod(weight.shape) for weight in model.weights.values())


@pytest.mark.parametrize(("family", "more"), [*((name, {}) for name in FAMILIES), ("electra", {"embedding_width": 24})])
def test_the_count_is_exact(family: str, more: dict[str, int]) -> None:
    shape = {"layers": 3, "width": 48, "heads": 4, "feed_forward": 112, "max_positions": 64}
    experiment = experiment_from(
        {
            "model": {"architecture": family} | shape | more,
            "shards": {"sequence_length": 32},
            "train": {"steps": 1, "global_batch_size": 1},
        }
    )
    assert plan.parameter_count(experiment, vocab_size=VOCAB) == built(experiment)
