"""Twenty-five megabytes of real text, through corpus, shards and statistics: every number against a plain count."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardsets import BOS, EOS, SPECIALS, UNK, Reporter, packing, tokenizer
from tpudeck.corpus import open_corpus
from tpudeck.corpus.builtin import documents as builtin_documents
from tpudeck.corpus.documents import is_held_out
from tpudeck.inspection.corpora import inspect_corpus
from tpudeck.inspection.shards import inspect_shards
from tpudeck.presets.schema import Corpus
from tpudeck.shards.build import build

LENGTH = 128


def write_text(path: Path, megabytes: int) -> list[str]:
    """The built-in corpus over and over, a word in ten replaced; the documents as they stand in the file."""
    rng = random.Random(0)
    pool = [word for document in builtin_documents()[:1000] for word in document.split()]
    written: list[str] = []
    size = 0
    while size < megabytes * 10**6:
        for document in builtin_documents():
            line = " ".join(rng.choice(pool) if rng.random() < 0.1 else word for word in document.split())
            written.append(line)
            size += len(line.encode()) + 1
    path.write_text("\n".join(written), encoding="utf-8")
    return written


@pytest.mark.slow
def test_every_number_on_real_text_is_what_a_plain_count_gives(tmp_path: Path) -> None:
    written = write_text(tmp_path / "text.txt", 25)
    settings = Corpus(source=str(tmp_path / "text.txt"))
    frequent = Counter(word for document in written[:20_000] for word in document.split())
    known = [word for word, _ in frequent.most_common(5000) if word not in SPECIALS]
    words = tokenizer(tmp_path / "tokenizer", known)
    made = build(
        tmp_path / "set",
        key="key",
        packing=packing(sequence_length=LENGTH, shard_sequences=4096),
        tokenizer=words,
        open_documents=lambda split: open_corpus(settings, split),
        corpus_fingerprint="",
        versions={},
        reporter=Reporter(),
    )
    found = inspect_shards(made)
    of_text = inspect_corpus(open_corpus(settings, "train"), open_corpus(settings, "validation"))

    ids = {word: id_ for id_, word in enumerate(SPECIALS + known)}
    for split in ("train", "validation"):
        mine = [text for text in written if is_held_out(text.encode(), 0.05) == (split == "validation")]
        stream = [token for text in mine for token in (BOS, *(ids.get(word, UNK) for word in text.split()), EOS)]
        ends = np.cumsum([len(text.split()) + 2 for text in mine])
        starts = np.concatenate([[0], ends[:-1]])
        sequences = len(stream) // LENGTH
        used = stream[: sequences * LENGTH]
        counts = Counter(used)
        about = found["splits"][split]
        assert about["documents"] == len(mine)
        assert about["sequences"] == sequences
        assert about["dropped_tokens"] == len(stream) - len(used)
        assert about["cut_documents"] == (starts // LENGTH != (ends - 1) // LENGTH).sum()
        assert about["used_tokens"] == len(counts)
        assert about["unknown_share"] == pytest.approx(counts[UNK] / len(used))
        assert about["special_share"] == pytest.approx((counts[BOS] + counts[EOS]) / len(used))
        rows = Counter(tuple(used[at : at + LENGTH]) for at in range(0, len(used), LENGTH))
        assert about["duplicate_share"] == pytest.approx(1 - len(rows) / sequences)
        side = of_text["splits"][split]
        assert side["documents"] == len(mine)
        assert side["characters"] == sum(map(len, mine))
        assert side["different_characters"] == len(set().union(*map(set, mine)))
        assert side["duplicate_share"] == pytest.approx(1 - len(set(mine)) / len(mine))
        if split == "train":
            assert made.token_counts.tolist() == [counts[id_] for id_ in range(words.vocab_size)]
            assert [entry["count"] for entry in found["top_tokens"]] == [n for _, n in counts.most_common(20)]
