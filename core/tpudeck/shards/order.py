"""Which sequences make up the global batch of a step: a pure function of (seed, step).

Training reads an endless stream of epochs. In each, every sequence comes once: the shards are put in a random order,
taken in groups of about 2^17 sequences, and the sequences of a group are shuffled together. So a large set is read
from disk group by group, and still a batch mixes many shards. A batch may straddle two epochs; nothing is dropped.

There is no iterator to save: any step is found in constant time, at the cost of shuffling the groups that it touches,
which the neighbouring steps share.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tpudeck.philox import Purpose, philox

__all__ = ["batch_rows", "shards_ahead"]

GROUP_SEQUENCES = 1 << 17
"""A group is closed when it holds at least so many sequences (64 MiB of 16-bit tokens at 256 tokens each)."""

_WHOLE_SHARDS = 0xFFFFFFFF
"""Stands for a group's number where the shards themselves are permuted."""


def batch_rows(step: int, *, seed: int, global_batch: int, shard_sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """The sequences of a step (counted from 0), as indices into the set; ``shard_sizes`` in sequences."""
    sizes = tuple(shard_sizes)
    total = sum(sizes)
    if total < 1:
        raise ValueError("there are no sequences to draw from")
    epoch, offset = divmod(step * global_batch, total)
    parts: list[npt.NDArray[np.int64]] = []
    missing = global_batch
    while missing:
        part = _from_epoch(seed, epoch, sizes, offset, min(missing, total - offset))
        parts.append(part)
        missing -= len(part)
        offset += len(part)
        if offset == total:
            epoch, offset = epoch + 1, 0
    return np.concatenate(parts)


def shards_ahead(step: int, *, seed: int, global_batch: int, shard_sizes: Sequence[int]) -> list[int]:
    """The shards from which the batches from this step on are taken: those of its group, then those of the next."""
    sizes = tuple(shard_sizes)
    epoch, offset = divmod(step * global_batch, sum(sizes))
    plan = _plan(seed, epoch, sizes)
    group = int(np.searchsorted(plan.starts, offset, side="right")) - 1
    last = group + 1 == len(plan.shards)
    following = _plan(seed, epoch + 1, sizes).shards[0] if last else plan.shards[group + 1]
    firsts = [first for first, _ in (*plan.shards[group], *following)]
    return list(dict.fromkeys(np.searchsorted(np.cumsum(sizes), firsts, side="right").tolist()))


class _Epoch(NamedTuple):
    """The groups of an epoch: where each begins in the epoch, and the sequences it holds, shard by shard."""

    starts: npt.NDArray[np.int64]
    shards: tuple[tuple[tuple[int, int], ...], ...]
    """Per group its shards, each as (first sequence, one past the last)."""


def _from_epoch(seed: int, epoch: int, sizes: tuple[int, ...], offset: int, most: int) -> npt.NDArray[np.int64]:
    """Up to ``most`` sequences from this place of an epoch, not past the end of a group."""
    plan = _plan(seed, epoch, sizes)
    group = int(np.searchsorted(plan.starts, offset, side="right")) - 1
    inside = offset - int(plan.starts[group])
    return _group(seed, epoch, sizes, group)[inside : inside + most]


@functools.lru_cache(maxsize=4)
def _plan(seed: int, epoch: int, sizes: tuple[int, ...]) -> _Epoch:
    ends = np.cumsum(sizes)
    groups: list[tuple[tuple[int, int], ...]] = []
    starts: list[int] = []
    group: list[tuple[int, int]] = []
    done = held = 0
    for shard in _permutation(len(sizes), seed, epoch, _WHOLE_SHARDS):
        group.append((int(ends[shard]) - sizes[shard], int(ends[shard])))
        held += sizes[shard]
        if held >= GROUP_SEQUENCES or done + held == ends[-1]:
            groups.append(tuple(group))
            starts.append(done)
            done, held, group = done + held, 0, []
    return _Epoch(np.array(starts, dtype=np.int64), tuple(groups))


@functools.lru_cache(maxsize=4)
def _group(seed: int, epoch: int, sizes: tuple[int, ...], group: int) -> npt.NDArray[np.int64]:
    """The sequences of a group, shuffled."""
    shards = _plan(seed, epoch, sizes).shards[group]
    sequences = np.concatenate([np.arange(first, end, dtype=np.int64) for first, end in shards])
    shuffled = sequences[_permutation(len(sequences), seed, epoch, group)]
    shuffled.flags.writeable = False
    return shuffled


def _permutation(length: int, seed: int, epoch: int, group: int) -> npt.NDArray[np.int64]:
    """A random order of ``length`` things: that of 64-bit random numbers drawn for them.

    Not numpy's ``permutation``, whose stream may change between versions.
    """
    high, low, *_ = philox((np.arange(length), group, epoch, Purpose.SHUFFLE.word(0)), seed)
    return np.argsort((high << np.uint64(32)) | low, kind="stable")
