"""Documents that are nearly the same: how much of their word sequences they share, from sketches of constant size.

Two documents are compared by their *shingles*, the five-word windows of their letters (case, digits, punctuation and
spacing don't count; in scripts that are written without spaces a character is a word). Their resemblance is the Jaccard
index of the two sets, and documents with 0.8 or more are near copies.

Every document gets a sketch: its shingles are dealt into 64 bins, and of each bin 16 bits of the smallest hash are
kept. Two sketches agree in a bin with the probability of the Jaccard index, so that its estimate has a standard
deviation of sqrt(J (1 - J) / 64): 0.05 at the threshold. Pairs above 0.9 are found with 99 %, pairs below 0.65
counted with 1 %. Candidates are sketches that agree in one of 16 bands of four bins: so do 0.9998 of the pairs at the
threshold.

Sources: Broder, On the resemblance and containment of documents (1997); Li, Owen and Zhang, One permutation hashing
(2012); Shrivastava and Li, Densifying one permutation hashing via rotation (2014), for bins that stay empty; Li and
Koenig, b-bit minwise hashing (2010).

Shapes: D documents, K bins, W words.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpudeck.inspection.hashes import Hashes, mixed, random_odd, text_hashes

__all__ = ["NearCopies", "SketchIndex", "Sketches", "sketch"]

SHINGLE_WORDS = 5
BINS = 64
BANDS = 16
THRESHOLD = 0.8

_LETTERS_END = 0x40000
_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0x20000, _LETTERS_END - 1),
)  # fmt: skip
"""Thai, Lao, Burmese, Khmer, kana, and Chinese characters."""
_LETTER, _WORD = 1, 2


@dataclass(frozen=True)
class Sketches:
    """Sketches of some documents."""

    values_DK: npt.NDArray[np.uint16]
    least_D: Hashes
    """The smallest hash of all shingles: near copies mostly have the same one."""

    def __len__(self) -> int:
        return len(self.least_D)


def sketch(texts: Sequence[str]) -> Sketches:
    """Sketches of documents."""
    words, owner_W = _words(texts)
    hashes, owner = _shingles(words, owner_W)
    wordless = np.flatnonzero(np.bincount(owner_W, minlength=len(texts)) == 0)
    if len(wordless):  # such a document is its own only shingle
        hashes = np.concatenate([hashes, mixed(text_hashes([texts[index] for index in wordless.tolist()]))])
        owner = np.concatenate([owner, wordless])
    least_D = np.full(len(texts), 2**64 - 1, dtype=np.uint64)
    np.minimum.at(least_D, owner, mixed(hashes + np.uint64(1)))
    values = np.full(len(texts) * BINS, _EMPTY, dtype=np.uint64)
    bins = (hashes >> np.uint64(58)).astype(np.int64)
    np.minimum.at(values, owner * BINS + bins, hashes & np.uint64(2**58 - 1))
    return Sketches(_filled(values.reshape(-1, BINS)), least_D)


_EMPTY = np.uint64(2**64 - 1)


def _filled(values_DK: Hashes) -> npt.NDArray[np.uint16]:
    """Sixteen bits of every bin; an empty one borrows from the next to its right that is not, with the distance."""
    documents = len(values_DK)
    twice = np.concatenate([values_DK, values_DK], axis=1)
    places = np.where(twice != _EMPTY, np.arange(2 * BINS), 2 * BINS)
    nearest = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1][:, :BINS]
    distance = (nearest - np.arange(BINS)).astype(np.uint64)
    borrowed = twice[np.arange(documents)[:, None], np.minimum(nearest, 2 * BINS - 1)]
    return (mixed(borrowed + distance * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFF)).astype(np.uint16)


def _words(texts: Sequence[str]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The words of documents as hashes, and which document each belongs to."""
    joined = "\0".join(text.replace("\0", " ") for text in texts).casefold()
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds()[np.minimum(codes, _LETTERS_END - 1)]
    letters = np.flatnonzero(kinds)
    if not len(letters):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    kinds = kinds[letters]
    begins = np.empty(len(letters), dtype=bool)
    begins[0] = True
    begins[1:] = (np.diff(letters) > 1) | (kinds[1:] == _WORD) | (kinds[:-1] == _WORD)
    starts = np.flatnonzero(begins)
    inside = np.arange(len(letters)) - np.repeat(starts, np.diff(starts, append=len(letters)))
    products = (codes[letters].astype(np.uint64) + np.uint64(1)) * random_odd(64, seed=1)[inside & 63]
    return mixed(np.add.reduceat(products, starts)), np.cumsum(codes == 0)[letters[starts]]


@functools.lru_cache(maxsize=1)
def _kinds() -> npt.NDArray[np.uint8]:
    """For every character: no letter, a letter, or a word by itself."""
    marks = map(chr, range(_LETTERS_END))
    letters = (mark.isalpha() or unicodedata.category(mark)[0] == "M" for mark in marks)
    kinds = np.fromiter(letters, dtype=np.uint8, count=_LETTERS_END)
    for first, last in _WITHOUT_SPACES:
        kinds[first : last + 1] *= _WORD
    return kinds


def _shingles(words: Hashes, owner_W: npt.NDArray[np.int64]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Hashes of the windows of five words within a document; a shorter document is one window."""
    count = len(words)
    factors = random_odd(SHINGLE_WORDS, seed=2)
    hashes = words * factors[0]
    whole = np.zeros(count, dtype=bool)
    for ahead in range(1, SHINGLE_WORDS):
        together = owner_W[ahead:] == owner_W[: max(0, count - ahead)]
        hashes[: max(0, count - ahead)] += np.where(together, words[ahead:] * factors[ahead], np.uint64(0))
        if ahead == SHINGLE_WORDS - 1:
            whole[: len(together)] = together
    if count:
        whole |= np.diff(owner_W, prepend=-1) != 0
    return mixed(hashes[whole]), owner_W[whole]


def _bands(values_DK: npt.NDArray[np.uint16]) -> Hashes:
    """A number for each band of a sketch: four bins, exactly; bands by column."""
    return np.ascontiguousarray(values_DK).view(np.uint64)


def _agree(left_NK: npt.NDArray[np.uint16], right_NK: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    return np.asarray((left_NK == right_NK).mean(axis=1) >= THRESHOLD)


class NearCopies:
    """Sketches of a text, at most so many: beyond that only documents whose smallest hash is below a threshold.

    Near copies share that hash with the probability of their resemblance, so both of a pair are kept or neither, but
    for a fifth of the pairs at the threshold: from a sample, the share of near copies is too low by that much at most.
    """

    def __init__(self, most_kept: int = 1 << 19) -> None:
        self._most_kept = most_kept
        self._shift = 0
        self._parts: list[Sketches] = []
        self._kept = 0

    def add(self, found: Sketches) -> None:
        self._parts.append(self._below(found))
        self._kept += len(self._parts[-1])
        while self._kept > self._most_kept:
            self._shift += 1
            self._parts = [self._below(part) for part in self._parts]
            self._kept = sum(map(len, self._parts))

    def _below(self, found: Sketches) -> Sketches:
        if not self._shift:
            return found
        kept = found.least_D <= np.uint64((2**64 - 1) >> self._shift)
        return Sketches(found.values_DK[kept], found.least_D[kept])

    @property
    def exact(self) -> bool:
        """Whether all documents were kept."""
        return self._shift == 0

    @property
    def kept(self) -> int:
        return self._kept

    def values(self) -> npt.NDArray[np.uint16]:
        return np.concatenate([np.zeros((0, BINS), dtype=np.uint16), *(part.values_DK for part in self._parts)])

    def repeats(self) -> int:
        """Documents that nearly repeat an earlier one."""
        values_DK = self.values()
        repeats = np.zeros(len(values_DK), dtype=bool)
        for band in _bands(values_DK).T:
            order = np.argsort(band, kind="stable")
            same = band[order[1:]] == band[order[:-1]]
            later = np.flatnonzero(same) + 1
            starts = np.flatnonzero(np.concatenate([[True], ~same])) if len(order) else later
            first = order[starts[np.searchsorted(starts, later, side="right") - 1]]
            for earlier in (first, order[later - 1]):  # a band's documents with its first, and each with the one before
                pairs = _agree_in_parts(values_DK, earlier, order[later])
                repeats[order[later][pairs]] = True
        return int(repeats.sum())


def _agree_in_parts(
    values_DK: npt.NDArray[np.uint16], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], most: int = 1 << 16
) -> npt.NDArray[np.bool_]:
    """Which pairs agree; some at a time, so that their sketches are not all copied at once."""
    agree = np.zeros(len(left), dtype=bool)
    for at in range(0, len(left), most):
        part = slice(at, at + most)
        agree[part] = _agree(values_DK[left[part]], values_DK[right[part]])
    return agree


class SketchIndex:
    """Documents that others are looked up among."""

    def __init__(self, values_DK: npt.NDArray[np.uint16]) -> None:
        self._values_DK = values_DK
        bands = _bands(values_DK)
        self._orders = [np.argsort(band, kind="stable") for band in bands.T]
        self._sorted = [band[order] for band, order in zip(bands.T, self._orders, strict=True)]
        self.met = np.zeros(len(values_DK), dtype=bool)
        """Which of the documents had a near copy among those that were looked up."""

    def look_up(self, found: Sketches) -> npt.NDArray[np.bool_]:
        """Which of some documents have a near copy here."""
        hits = np.zeros(len(found), dtype=bool)
        if not len(self._values_DK):
            return hits
        for band, order, known in zip(_bands(found.values_DK).T, self._orders, self._sorted, strict=True):
            first, end = np.searchsorted(known, band, side="left"), np.searchsorted(known, band, side="right")
            sizes = np.minimum(end - first, _MOST_CANDIDATES)
            asked = np.repeat(np.arange(len(band)), sizes)
            ahead = np.arange(len(asked)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            candidates = order[first[asked] + ahead]
            agree = _agree(found.values_DK[asked], self._values_DK[candidates])
            hits[asked[agree]] = True
            self.met[candidates[agree]] = True
        return hits


_MOST_CANDIDATES = 16
"""Of documents that agree in a band: where there are more, they are all the same template."""
