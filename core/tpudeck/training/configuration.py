"""An experiment → the class and the configuration of Transformers that it describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import transformers

from tpudeck.errors import Fault, PresetError
from tpudeck.plan import padded_vocab_size
from tpudeck.presets import FAMILIES

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["Vocabulary", "configuration", "model_class", "vocabulary_of"]


@dataclass(frozen=True)
class Vocabulary:
    """What a model must know of its tokenizer."""

    size: int
    """Largest id + 1."""
    pad_id: int
    bos_id: int
    eos_id: int
    padded: bool = True
    """Whether the embedding table has rows beyond the tokens, up to what matrix units like."""

    @property
    def padded_size(self) -> int:
        return padded_vocab_size(self.size) if self.padded else self.size


def vocabulary_of(tokenizer: LoadedTokenizer) -> Vocabulary:
    """What a model must know of this tokenizer."""
    return Vocabulary(tokenizer.vocab_size, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)


_CLASSES = {
    "roberta": "TFRobertaForMaskedLM",
    "bert": "TFBertForMaskedLM",
    "distilbert": "TFDistilBertForMaskedLM",
    "electra": "TFElectraForMaskedLM",
    "gpt2": "TFGPT2LMHeadModel",
}


def model_class(architecture: str) -> Any:
    """The TensorFlow class; :class:`PresetError` where Transformers has none of that name."""
    name = _CLASSES.get(architecture, architecture)
    found = getattr(transformers, name, None)
    if found is None or not hasattr(found, "config_class"):
        fault = Fault(
            "model.architecture",
            f"must be a TensorFlow class of Transformers {transformers.__version__}",
            repr(architecture),
            f"one of {', '.join(FAMILIES)} always works",
        )
        raise PresetError([fault])
    return found


def configuration(experiment: Experiment, vocabulary: Vocabulary) -> Any:
    """The configuration of the experiment's model: its class's own defaults but for what the experiment says."""
    config_class = model_class(experiment.model.architecture).config_class
    names = _NAMES.get(experiment.model.architecture, _BERT_NAMES)
    model, family = experiment.model, experiment.family
    values = {
        "layers": model.layers,
        "width": model.width,
        "heads": model.heads,
        "feed_forward": experiment.feed_forward,
        "positions": experiment.max_positions + family.position_offset,
        "dropout": model.dropout,
        "embedding_width": experiment.embedding_width,
    }
    if model.norm_epsilon is not None:
        values["norm_epsilon"] = model.norm_epsilon
    special = {"pad_token_id": vocabulary.pad_id, "bos_token_id": vocabulary.bos_id, "eos_token_id": vocabulary.eos_id}
    sizes = {key: values[value] for value, keys in names.items() if value in values for key in keys}
    given = {"vocab_size": vocabulary.padded_size, "initializer_range": model.initializer_range, **special, **sizes}
    return config_class(**_EXTRA.get(model.architecture, {}) | given)


_BERT_NAMES = {
    "layers": ("num_hidden_layers",),
    "width": ("hidden_size",),
    "embedding_width": ("embedding_size",),
    "heads": ("num_attention_heads",),
    "feed_forward": ("intermediate_size",),
    "positions": ("max_position_embeddings",),
    "dropout": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "norm_epsilon": ("layer_norm_eps",),
}
"""What we say → the configuration's keys. `embedding_size` is that of models that can embed at a smaller width."""

_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "bert": _BERT_NAMES | {"embedding_width": ()},
    "roberta": _BERT_NAMES | {"embedding_width": ()},
    "distilbert": {
        "layers": ("n_layers",),
        "width": ("dim",),
        "heads": ("n_heads",),
        "feed_forward": ("hidden_dim",),
        "positions": ("max_position_embeddings",),
        "dropout": ("dropout", "attention_dropout"),
    },
    "gpt2": {
        "layers": ("n_layer",),
        "width": ("n_embd",),
        "heads": ("n_head",),
        "feed_forward": ("n_inner",),
        "positions": ("n_positions",),
        "dropout": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        "norm_epsilon": ("layer_norm_epsilon",),
    },
}

_EXTRA: dict[str, dict[str, Any]] = {"roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5}}
"""As in the published configurations of the base models, where the class's defaults differ from them."""
