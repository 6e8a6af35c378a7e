"""The batches of any step, ready to be fed: a pure function of (seed, step), made on the host with numpy.

Several steps are stacked, for one call of the compiled loop, and the next stack is made by a thread while the device
works on this one. Row r of a global batch gets the same masks however the batch is split: it is masked whole, then cut
into A microsteps x R replicas x B sequences.

Shapes: K stacked steps, G rows in a global batch (A·R·B), S tokens, P predicted positions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tpudeck.masking import MaskedBatch, mask_batch
from tpudeck.shards.order import batch_rows, shards_ahead
from tpudeck.training.step import Batch

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.shards import Sequences
    from tpudeck.tokenizer import LoadedTokenizer

__all__ = ["Ahead", "Batches"]


class Batches:
    """Training batches by step, and evaluation batches in order."""

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: LoadedTokenizer,
        training: Sequences,
        validation: Sequences,
        *,
        global_batch: int,
        replicas: int,
    ) -> None:
        self._seed = experiment.train.seed
        self._count = experiment.masked_per_sequence
        self._causal = experiment.objective == "causal"
        self._tokenizer = tokenizer
        self._training = training
        self._validation = validation
        self._global_batch = global_batch
        seed, sizes = experiment.train.seed, training.shard_sizes
        self._rows = functools.partial(batch_rows, seed=seed, global_batch=global_batch, shard_sizes=sizes)
        self._shards_ahead = functools.partial(shards_ahead, seed=seed, global_batch=global_batch, shard_sizes=sizes)
        self._microsteps = experiment.train.accumulation_steps
        self._replicas = replicas

    def training(self, first_step: int, count: int) -> Batch:
        """The batches of ``count`` steps, each part [K, A, R, B, …]."""
        self._training.prepare(self._shards_ahead(first_step))
        parts = [self._masked(step) for step in range(first_step, first_step + count)]
        outer = (count, self._microsteps, self._replicas, -1)
        return Batch(*(np.stack(part).reshape(*outer, part[0].shape[-1]) for part in zip(*parts, strict=True)))

    def evaluation(self) -> Iterator[Batch]:
        """The whole validation set, every target hidden, each part [R, B, …].

        The last batch is filled up with rows that don't count.
        """
        rows = self._global_batch // self._microsteps
        for first in range(0, len(self._validation), rows):
            indices = np.arange(first, first + rows).clip(max=len(self._validation) - 1)
            batch = self._hide(self._validation.take(indices), first, step=0, policy="evaluate")
            batch.weights_BP[len(self._validation) - first :] = 0
            yield Batch(*(part.reshape(self._replicas, -1, part.shape[-1]) for part in batch))

    def _masked(self, step: int) -> MaskedBatch:
        return self._hide(self._training.take(self._rows(step)), 0, step=step, policy="train")

    def _hide(self, ids_GS: npt.NDArray[np.int32], first_row: int, *, step: int, policy: str) -> MaskedBatch:
        if self._causal:
            return _next_tokens(ids_GS)
        tokenizer = self._tokenizer
        assert tokenizer.mask_id is not None, "checked before training"
        return mask_batch(
            ids_GS,
            seed=self._seed,
            step=step,
            microstep=0,
            first_row=first_row,
            mask_id=tokenizer.mask_id,
            special_ids=tokenizer.special_ids,
            vocab_size=tokenizer.vocab_size,
            count=self._count,
            policy="evaluate" if policy == "evaluate" else "train",
        )


def _next_tokens(ids_GS: npt.NDArray[np.int32]) -> MaskedBatch:
    """Every position but the last predicts its successor."""
    rows, length = ids_GS.shape
    positions_GP = np.tile(np.arange(length - 1, dtype=np.int32), (rows, 1))
    return MaskedBatch(ids_GS, positions_GP, ids_GS[:, 1:].copy(), np.ones((rows, length - 1), np.float32))


class Ahead:
    """Makes the batches of the next call while the device works on this one."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._next: tuple[int, int, Future[Batch]] | None = None

    def prepare(self, first_step: int, count: int) -> None:
        """Begin to make the batches of these steps."""
        if count > 0:
            self._next = first_step, count, self._thread.submit(self._batches.training, first_step, count)

    def take(self, first_step: int, count: int) -> Batch:
        """The batches of these steps; waits where they aren't ready."""
        if self._next is None or self._next[:2] != (first_step, count):
            self.prepare(first_step, count)
        assert self._next is not None
        *_, future = self._next
        self._next = None
        return future.result()

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
