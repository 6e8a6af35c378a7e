"""A checkpoint as a folder that Transformers opens, with PyTorch, in version 4.57 and in 5.

Weights get the names and the orientation of PyTorch's layers and are written as safetensors, without torch. The rows
that only fill the vocabulary up to a multiple of 128 are cut away. Tied weights are written once, as the loader expects
it: the projection onto the vocabulary is the embedding table.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck.errors import InputError, WorkError
from tpudeck.training.names import to_pytorch

if TYPE_CHECKING:
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck.training.model import LanguageModel

__all__ = ["export_model", "state_dict"]


def export_model(model: LanguageModel, tokenizer: LoadedTokenizer, folder: Path) -> int:
    """Write the model folder, aside and then renamed; its size in bytes.

    Raises :class:`InputError` where the folder already holds something.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", hint="name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        _write(model, tokenizer, aside)
        if folder.exists():
            folder.rmdir()
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return sum(path.stat().st_size for path in folder.iterdir())


def state_dict(model: LanguageModel) -> dict[str, npt.NDArray[Any]]:
    """The weights as PyTorch holds them, with the true vocabulary."""
    vocabulary = model.vocabulary
    state = {}
    for name, variable in model.weights.items():
        value = to_pytorch(variable, variable.numpy())
        state[name] = np.ascontiguousarray(value[: vocabulary.size] if name in model.per_token else value)
    return state


def _write(model: LanguageModel, tokenizer: LoadedTokenizer, folder: Path) -> None:
    from safetensors.numpy import save_file

    state = state_dict(model)
    for name, value in state.items():
        if not np.isfinite(value).all():
            raise WorkError(f"the weight {name} is not finite", hint="export an earlier checkpoint")
    path = folder / "model.safetensors"
    save_file(state, path, metadata={"format": "pt"})
    path.chmod(0o644)  # the library writes files that only their owner may read
    _pytorch_config(model).save_pretrained(folder)
    tokenizer.save(folder, model_max_length=model.most_tokens)


def _pytorch_config(model: LanguageModel) -> Any:
    config = model.config.__class__.from_dict(model.config.to_dict())
    config.vocab_size = model.vocabulary.size
    config.architectures = [model.class_name.removeprefix("TF")]
    # TensorFlow's MobileBERT learns a projection of its own, which PyTorch's would otherwise tie to the table.
    config.tie_word_embeddings = not any(name.endswith(".decoder.weight") for name in model.weights)
    return config
