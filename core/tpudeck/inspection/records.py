"""Records as text, as they stand and as training sees them at a given step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.masking import mask_batch
from tpudeck.shards import ShardSet
from tpudeck.shards.order import batch_rows
from tpudeck.storage import read_json

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["find_tokenizer", "number_in_set", "records", "training_records"]


def records(
    shards: ShardSet, split: str, indices: npt.NDArray[np.int64], tokenizer: LoadedTokenizer | None
) -> list[dict[str, Any]]:
    """Sequences by number: where each is, its ids, and with a tokenizer its pieces and text."""
    sequences = shards.split(split)
    ids_NS = sequences.take(indices)
    return [
        _record(int(index), *sequences.locate(int(index)), ids.tolist(), tokenizer)
        for index, ids in zip(indices, ids_NS, strict=True)
    ]


def training_records(
    shards: ShardSet, experiment: Experiment, tokenizer: LoadedTokenizer, *, step: int, global_batch: int, count: int
) -> list[dict[str, Any]]:
    """The first sequences of the global batch of a step (counted from 0), with the masks that training draws there."""
    if tokenizer.mask_id is None or experiment.objective == "causal":
        raise InputError("a causal model is trained without masks", hint="leave --step out")
    seed = experiment.train.seed
    sequences = shards.split("train")
    rows = batch_rows(step, seed=seed, global_batch=global_batch, shard_sizes=sequences.shard_sizes)[:count]
    masked = mask_batch(
        sequences.take(rows),
        seed=seed,
        step=step,
        microstep=0,
        first_row=0,
        mask_id=tokenizer.mask_id,
        special_ids=tokenizer.special_ids,
        vocab_size=tokenizer.vocab_size,
        count=experiment.masked_per_sequence,
    )
    shown = records(shards, "train", rows, tokenizer)
    for row, record in enumerate(shown):
        asked = masked.weights_BP[row] > 0
        record["inputs"] = masked.inputs_BS[row].tolist()
        record["input_tokens"] = [_piece(tokenizer, id_) for id_ in record["inputs"]]
        record["masked_positions"] = masked.positions_BP[row][asked].tolist()
    return shown


def number_in_set(shards: ShardSet, split: str, shard: int, record: int) -> int:
    """The number of record n of shard k, both counted from 0."""
    sizes = shards.split(split).shard_sizes
    if not 0 <= shard < len(sizes):
        raise InputError(f"{split} has the shards 0 to {len(sizes) - 1}, got {shard}")
    if not 0 <= record < sizes[shard]:
        raise InputError(f"shard {shard} has the records 0 to {sizes[shard] - 1}, got {record}")
    return sum(sizes[:shard]) + record


def find_tokenizer(home: Home, hash_: str) -> Path | None:
    """The folder of the kept tokenizer with this hash."""
    for path in sorted(home.tokenizers.glob("*/manifest.json")):
        try:
            manifest: Mapping[str, Any] = read_json(path)
        except (OSError, orjson.JSONDecodeError):
            continue
        if hash_ and manifest.get("hash") == hash_:
            return path.parent
    return None


def _record(index: int, path: Path, offset: int, ids: list[int], tokenizer: LoadedTokenizer | None) -> dict[str, Any]:
    record: dict[str, Any] = {"index": index, "file": str(path), "offset": offset, "ids": ids}
    if tokenizer is not None:
        record["tokens"] = [_piece(tokenizer, id_) for id_ in ids]
        record["text"] = tokenizer.rust.decode(ids, skip_special_tokens=False)
    return record


def _piece(tokenizer: LoadedTokenizer, id_: int) -> str:
    piece = tokenizer.rust.id_to_token(id_)
    return f"<{id_}>" if piece is None else str(piece)
