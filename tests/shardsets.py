"""What tests of shard sets share: a small tokenizer, text to encode, and by plain Python what must come out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from tpudeck.errors import InterruptedRunError
from tpudeck.shards.build import build
from tpudeck.shards.manifest import Packing
from tpudeck.shards.sets import ShardSet
from tpudeck.tokenizer import LoadedTokenizer, load

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BOS, PAD, EOS, UNK, MASK = range(5)
WORDS = [f"w{number}" for number in range(60)]


def tokenizer(folder: Path, words: list[str] = WORDS) -> LoadedTokenizer:
    """One token per word."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: id_ for id_, word in enumerate(SPECIALS + words)}
    rust = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(SPECIALS)
    rust.save(str(folder / "tokenizer.json"))
    return load(folder)


class Counted:
    def __init__(self, documents: int) -> None:
        self.documents = documents

    def to_dict(self) -> dict[str, int]:
        return {"documents": self.documents}


class Text:
    """Documents in batches of a given size."""

    def __init__(self, documents: list[str], batch: int = 7) -> None:
        self.documents = documents
        self.batch = batch
        self.counts = Counted(len(documents))

    def __iter__(self) -> Iterator[list[str]]:
        for first in range(0, len(self.documents), self.batch):
            yield self.documents[first : first + self.batch]


def some_documents(count: int, *, seed: int = 0, longest: int = 40) -> list[str]:
    """Random words, some of them unknown; a few documents in which the tokenizer finds nothing."""
    rng = random.Random(seed)
    return [" ".join(rng.choices([*WORDS, "unheard-of"], k=rng.randrange(longest))) for _ in range(count)]


class Reporter:
    """Lets a build run, or stops it after some batches."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.left = stop_after
        self.said: list[dict[str, Any]] = []

    def progress(self, done: float, total: float | None, unit: str, **more: Any) -> None:
        self.said.append({"done": done, "total": total, "unit": unit, **more})

    def check_stop(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise InterruptedRunError("stopped")


def packing(**changed: Any) -> Packing:
    settings: dict[str, Any] = {"sequence_length": 16, "layout": "compact", "shard_sequences": 10, "enclosed": True}
    return Packing(**(settings | changed))


def build_set(
    folder: Path,
    tokenizer: LoadedTokenizer,
    *,
    train: list[str],
    validation: list[str],
    batch: int = 7,
    key: str = "key",
    reporter: Reporter | None = None,
    opened: Callable[[str], None] = lambda split: None,
    processes: int | None = None,
    **packing_changes: Any,
) -> ShardSet:
    """Build a set from lists of documents."""

    def open_documents(split: str) -> Text:
        opened(split)
        return Text(train if split == "train" else validation, batch)

    return build(
        folder,
        key=key,
        packing=packing(**packing_changes),
        tokenizer=tokenizer,
        open_documents=open_documents,
        corpus_fingerprint="fingerprint",
        versions={"tpudeck": "1"},
        reporter=reporter or Reporter(),
        processes=processes,
    )


def expected_sequences(documents: list[str], *, length: int = 16, enclosed: bool = True) -> tuple[list[list[int]], int]:
    """The sequences of some documents by the definition, one token at a time; and how many tokens are left over."""
    stream: list[int] = []
    for document in documents:
        ids = [SPECIALS.index("<unk>") if word not in WORDS else 5 + WORDS.index(word) for word in document.split()]
        if ids:
            stream += [*([BOS] if enclosed else []), *ids, EOS]
    full = len(stream) // length
    return [stream[row * length : (row + 1) * length] for row in range(full)], len(stream) - full * length


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
