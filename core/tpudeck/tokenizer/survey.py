"""A look at the text before training: its alphabet, its size, what in it reads like a special token; and a sample.

The alphabet decides how small a vocabulary can be. Trainers learn of it too late: one fails after minutes, another
quietly makes a larger vocabulary.
"""

from __future__ import annotations

import heapq
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

__all__ = ["Survey", "even_sample"]


@dataclass
class Survey:
    """What a text is made of; :meth:`add` takes it batch by batch."""

    specials: tuple[str, ...]
    normalizer: Any
    """Of the tokenizer to be trained; none: text is taken as it is."""
    pairs_wanted: bool = False
    """Whether to look at neighbours too: WordPiece spells the inside of words with characters of its own."""
    documents: int = 0
    characters: int = 0
    bytes: int = 0
    alphabet: set[str] = field(default_factory=set)
    """Characters of the normalised text."""
    literals: Counter[str] = field(default_factory=Counter)
    """How often the text spells a special token."""
    _pairs: set[tuple[str, str]] = field(default_factory=set)

    def add(self, batch: Sequence[str]) -> None:
        text = "\n".join(batch)
        self.documents += len(batch)
        self.characters += sum(map(len, batch))
        self.bytes += sum(len(document.encode()) for document in batch)
        for special in self.specials:
            if count := text.count(special):
                self.literals[special] += count
        normal = text if self.normalizer is None else self.normalizer.normalize_str(text)
        self.alphabet.update(normal)
        if self.pairs_wanted:
            self._pairs.update(itertools.pairwise(normal))

    def inner_characters(self) -> list[str]:
        """Characters that occur inside words, where a word ends at white space and punctuation; sorted."""
        return sorted({second for first, second in self._pairs if _in_word(first) and _in_word(second)})


def _in_word(character: str) -> bool:
    """Whether BERT's pre-tokeniser leaves a character in the word around it."""
    punctuation = unicodedata.category(character).startswith("P") or (character.isascii() and not character.isalnum())
    return not character.isspace() and not punctuation


def even_sample(batches: Iterable[Sequence[str]], limit_bytes: int) -> Iterator[list[str]]:
    """About so many bytes of documents from all over the text, in their order; all of them where there are fewer.

    Those with the smallest content hashes are taken, so the sample does not depend on how the text is cut into files.
    Memory holds the sample, not the text.
    """
    kept: list[tuple[int, int, str]] = []
    size = 0
    index = 0
    for batch in batches:
        for document in batch:
            encoded = document.encode()
            # A heap with the largest hash on top; the hash has another key than the one of the validation split.
            key = -int.from_bytes(blake2b(encoded, digest_size=8, person=b"sample").digest(), "big")
            index += 1
            if size < limit_bytes or key > kept[0][0]:
                heapq.heappush(kept, (key, index, document))
                size += len(encoded)
            while len(kept) > 1 and size - len(kept[0][2].encode()) >= limit_bytes:
                size -= len(heapq.heappop(kept)[2].encode())
    kept.sort(key=lambda entry: entry[1])
    for start in range(0, len(kept), 1000):
        yield [document for _, _, document in kept[start : start + 1000]]
