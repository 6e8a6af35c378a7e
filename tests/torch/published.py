"""Models as PyTorch and today's Transformers make and save them: ``python published.py FOLDER IDS``.

One folder per model, each with what it answers, ``logits.npy``. Runs in an environment of its own, with nothing of this
project in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import transformers

import torch

SHAPE = {
    "vocab_size": 500,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 80,
}
MODELS = {
    "bert": transformers.BertForMaskedLM(transformers.BertConfig(**SHAPE)),
    "bert-with-all-its-heads": transformers.BertForPreTraining(transformers.BertConfig(**SHAPE)),
    "roberta": transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**SHAPE, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1)
    ),
    "camembert": transformers.CamembertForMaskedLM(
        transformers.CamembertConfig(**SHAPE, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5)
    ),
    "distilbert": transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(vocab_size=500, dim=32, n_layers=2, n_heads=2, hidden_dim=80)
    ),
    "electra": transformers.ElectraForMaskedLM(transformers.ElectraConfig(**SHAPE, embedding_size=16)),
    "gpt2": transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=500, n_embd=32, n_layer=2, n_head=2, n_positions=64)
    ),
}


def save(folder: Path, ids: torch.Tensor) -> None:
    for name, model in MODELS.items():
        model.eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.1 * torch.randn(weight.shape)  # no bias is zero, and no gain one
            answer = model(input_ids=ids)
        logits = answer.prediction_logits if "heads" in name else answer.logits
        model.save_pretrained(folder / name)
        np.save(folder / name / "logits.npy", logits.numpy())


if __name__ == "__main__":
    torch.manual_seed(0)
    save(Path(sys.argv[1]), torch.tensor(np.load(sys.argv[2]), dtype=torch.long))
