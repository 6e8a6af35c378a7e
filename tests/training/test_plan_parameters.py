"""The parameters that the plan counts are those that Transformers' TensorFlow classes have."""

from __future__ import annotations

import os

import pytest

from tpudeck import plan
from tpudeck.presets import experiment_from

pytestmark = pytest.mark.training

VOCAB, POSITIONS, LAYERS, WIDTH, HEADS, FEED_FORWARD = 1000, 64, 3, 48, 4, 112


def built(family: str) -> int:
    """Trainable parameters of the class that Transformers builds."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    import transformers as tr

    vocab = plan.padded_vocab_size(VOCAB)
    shape = {
        "vocab_size": vocab,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": FEED_FORWARD,
    }
    short = {"vocab_size": vocab, "n_layers": LAYERS, "n_heads": HEADS, "dim": WIDTH, "hidden_dim": FEED_FORWARD}
    gpt2 = {"vocab_size": vocab, "n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "n_inner": FEED_FORWARD}
    model = {
        "bert": lambda: tr.TFBertForMaskedLM(tr.BertConfig(**shape, max_position_embeddings=POSITIONS)),
        "roberta": lambda: tr.TFRobertaForMaskedLM(
            tr.RobertaConfig(**shape, max_position_embeddings=POSITIONS + 2, type_vocab_size=1)
        ),
        "distilbert": lambda: tr.TFDistilBertForMaskedLM(
            tr.DistilBertConfig(**short, max_position_embeddings=POSITIONS)
        ),
        "electra": lambda: tr.TFElectraForMaskedLM(
            tr.ElectraConfig(**shape, embedding_size=WIDTH, max_position_embeddings=POSITIONS)
        ),
        "gpt2": lambda: tr.TFGPT2LMHeadModel(tr.GPT2Config(**gpt2, n_positions=POSITIONS)),
    }[family]()
    model(tf.zeros((1, 8), tf.int32))
    return int(model.num_parameters(only_trainable=True))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
@pytest.mark.filterwarnings("ignore")
def test_the_count_is_exact(family: str) -> None:
    shape = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "feed_forward": FEED_FORWARD}
    experiment = experiment_from(
        {
            "model": {"architecture": family, "max_positions": POSITIONS} | shape,
            "shards": {"sequence_length": 32},
            "train": {"steps": 1, "global_batch_size": 1},
        }
    )
    assert plan.parameter_count(experiment, vocab_size=VOCAB) == built(family)
