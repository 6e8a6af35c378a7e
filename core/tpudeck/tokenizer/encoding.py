"""Encoding documents by the batch, as arrays, and where it can be a word at a time.

Most tokenizers cut text into words first and never look across the cut, so that a word has the same tokens wherever it
stands; and text is made of few words, again and again. What a word becomes is therefore asked once and remembered, and
the tokens of a document are gathered from what is known of its words: several times faster than encoding it.

Words are looked up by Python, where threads would wait for each other, so long text is encoded by several processes,
each of which remembers its own words. Whole documents are encoded by the threads of the tokenizer itself.

The result is that of the tokenizer, always. :mod:`~tpudeck.tokenizer.words` knows the kinds of tokenizer for which
cutting first changes nothing; every other one is given whole documents.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError
from tpudeck.parallel import cores, in_order
from tpudeck.tokenizer.loaded import LoadedTokenizer, load
from tpudeck.tokenizer.words import word_cutter

__all__ = ["Encoded", "Encoder", "encode_batches", "most_processes"]

_ALONE_CHARACTERS = 4_000_000
"""So much is encoded before other processes have started."""
_MOST_PROCESSES = 4
"""More would wait for the one that reads the text and writes the result."""

_MEMORY_BYTES = 32 << 20
_WORD_BYTES = 140
"""What a remembered word takes beside its text: a number, a place in the dictionary, rows in arrays."""


class Encoded(NamedTuple):
    """The tokens of some texts in a row, without those that begin and end a document."""

    ids: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int64]
    """How many belong to each text."""


_NOTHING = Encoded(np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64))


class Encoder:
    """Encodes batches of documents exactly as the tokenizer does."""

    def __init__(self, tokenizer: LoadedTokenizer, *, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._tokenizer = tokenizer
        self._cut = word_cutter(tokenizer.rust)
        self._memory_bytes = memory_bytes
        self._numbers = _Numbers()
        self._known = _NOTHING
        self._held_bytes = 0

    @property
    def by_words(self) -> bool:
        return self._cut is not None

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Raises :class:`ArtefactError` where the tokenizer cannot encode the text."""
        if self._cut is None:
            return self._ask(texts)
        counts: list[int] = []
        numbers = self._numbers_of(_counted(map(self._cut, texts), counts))
        ids, lengths = _rows(self._known, numbers)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        encoded = Encoded(ids, np.diff(ends[np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])]))
        if self._held_bytes > self._memory_bytes:
            self._forget()
        return encoded

    def _numbers_of(self, words: Iterable[list[str]]) -> npt.NDArray[np.int64]:
        """Where each word stands among the known ones; what is new is learned."""
        try:
            # Text after text, so that the words of one are still in the processor's cache when they are looked up.
            found = map(self._numbers.__getitem__, itertools.chain.from_iterable(words))
            numbers = np.fromiter(found, dtype=np.int64)
            if new := self._numbers.take_new():
                self._known = _joined(self._known, self._ask(new))
                self._held_bytes += _WORD_BYTES * len(new) + sum(map(sys.getsizeof, new))
        except BaseException:
            self._forget()  # words have numbers, and nothing is known of them
            raise
        return numbers

    def _forget(self) -> None:
        """Begin anew: memory stays bounded, and what is common comes back at once."""
        self._numbers = _Numbers()
        self._known = _NOTHING
        self._held_bytes = 0

    def _ask(self, texts: Sequence[str]) -> Encoded:
        """The tokenizer's answer, by all its threads."""
        try:
            found = self._tokenizer.rust.encode_batch_fast(list(texts), add_special_tokens=False)
        except Exception as error:  # the Rust side raises nothing more particular
            raise ArtefactError(
                f"the tokenizer in {self._tokenizer.folder} cannot encode this text: {error}",
                hint="a tokenizer needs an unknown token, or bytes to fall back on, for characters it has not seen",
            ) from error
        ids = [encoding.ids for encoding in found]
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        flat = np.fromiter(itertools.chain.from_iterable(ids), dtype=np.uint32, count=int(lengths.sum()))
        return Encoded(flat, lengths)


def _counted(words: Iterable[list[str]], counts: list[int]) -> Iterator[list[str]]:
    """The words of each text, their number noted."""
    for of_text in words:
        counts.append(len(of_text))
        yield of_text


def encode_batches(
    tokenizer: LoadedTokenizer, batches: Iterable[list[str]], *, processes: int | None = None
) -> Generator[Encoded, None, None]:
    """Batch after batch, in order; what comes after the first megabytes by several processes, where words allow it."""
    encoder = Encoder(tokenizer)
    processes = processes or most_processes()
    if processes == 1 or not encoder.by_words:
        yield from map(encoder.encode, batches)
        return
    left = iter(batches)
    yield from map(encoder.encode, _first(left, _ALONE_CHARACTERS))
    yield from in_order(functools.partial(_encode, tokenizer.folder, tokenizer.hash), left, processes)


def most_processes() -> int:
    """How many processes are of use."""
    return min(cores(), _MOST_PROCESSES)


def _first(batches: Iterator[list[str]], characters: int) -> Iterator[list[str]]:
    """Batches until there are so many characters."""
    while characters > 0 and (batch := next(batches, None)) is not None:
        characters -= sum(map(len, batch))
        yield batch


def _encode(folder: Path, hash_: str, texts: list[str]) -> Encoded:
    return _encoder(folder, hash_).encode(texts)


@functools.lru_cache(maxsize=1)
def _encoder(folder: Path, hash_: str) -> Encoder:
    """The encoder of this process, which is one of several."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = load(folder)
    if tokenizer.hash != hash_:
        raise ArtefactError(f"the tokenizer in {folder} was changed while text was encoded with it")
    return Encoder(tokenizer)


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        self._new.append(word)
        return number

    def take_new(self) -> list[str]:
        new, self._new = self._new, []
        return new


def _joined(known: Encoded, new: Encoded) -> Encoded:
    return Encoded(np.concatenate([known.ids, new.ids]), np.concatenate([known.lengths, new.lengths]))


def _rows(known: Encoded, numbers: npt.NDArray[np.int64]) -> Encoded:
    """Those of the known texts that have these numbers."""
    starts = np.cumsum(known.lengths) - known.lengths
    lengths = known.lengths[numbers]
    ends = np.cumsum(lengths)
    before = starts[numbers] - (ends - lengths)  # from a place in the result to the place it comes from
    total = int(ends[-1]) if len(ends) else 0
    return Encoded(known.ids[np.arange(total) + np.repeat(before, lengths)], lengths)
