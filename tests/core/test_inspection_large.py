"""Twenty-five megabytes of real text, through corpus, shards and statistics: every number against a plain count."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardsets import BOS, EOS, SPECIALS, UNK, Reporter, packing, tokenizer
from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.corpus import open_corpus
from tpudeck.corpus.builtin import documents as builtin_documents
from tpudeck.corpus.documents import is_held_out
from tpudeck.inspection.corpora import inspect_corpus
from tpudeck.inspection.shards import inspect_shards
from tpudeck.inspection.tokenizers import inspect_tokenizer
from tpudeck.presets import experiment_from
from tpudeck.presets.schema import Corpus
from tpudeck.shards.build import build
from tpudeck.tokenizer import LoadedTokenizer, load

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


def jaccard_repeats(texts: list[str], least: float) -> set[int]:
    """Documents that resemble an earlier one at least so much, by comparing shingles with all that share one."""
    owners: dict[tuple[str, ...], list[int]] = {}
    shingles: list[set[tuple[str, ...]]] = []
    found = set()
    for number, text in enumerate(texts):
        words = re.sub(r"[\W\d_]+", " ", text.casefold()).split()
        mine = {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))}
        near = Counter(other for shingle in mine for other in owners.get(shingle, ()))
        if any(n >= least * (len(mine) + len(shingles[other]) - n) for other, n in near.items()):
            found.add(number)
        shingles.append(mine)
        for shingle in mine:
            owners.setdefault(shingle, []).append(number)
    return found


@pytest.mark.slow
def test_near_copies_in_real_text_are_those_that_comparing_shingles_finds() -> None:
    texts = list(builtin_documents())
    found = inspect_corpus([texts[first : first + 500] for first in range(0, len(texts), 500)], [])
    repeats = round(found["splits"]["train"]["near_duplicate_share"] * len(texts))
    assert len(jaccard_repeats(texts, 0.9)) * 0.98 <= repeats <= len(jaccard_repeats(texts, 0.65)) * 1.02


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unigram", "byte_bpe"])
def test_every_number_of_a_tokenizer_on_real_text_is_what_a_plain_count_gives(tmp_path: Path, kind: str) -> None:
    written = write_text(tmp_path / "text.txt", 25)
    loaded = trained(tmp_path, kind)
    found = inspect_tokenizer(loaded, [written[first : first + 1000] for first in range(0, len(written), 1000)])
    counts: Counter[int] = Counter()
    characters = words = failures = 0
    stands_for = {id_: loaded.rust.decode([id_], skip_special_tokens=False) for id_ in range(loaded.vocab_size)}
    for text in written:
        encoding = loaded.rust.encode(text, add_special_tokens=False)
        counts.update(encoding.ids)
        characters, words = characters + len(text), words + len(text.split())
        decoded = loaded.rust.decode(encoding.ids, skip_special_tokens=False)
        normal = text if loaded.rust.normalizer is None else loaded.rust.normalizer.normalize_str(text)
        failures += "".join(decoded.split()) != "".join(normal.split())
    tokens = sum(counts.values())
    single = sum(count for id_, count in counts.items() if len(stands_for[id_].strip()) <= 1)
    ordered = sorted(counts.values(), reverse=True)
    ordinary = [id_ for id_ in range(loaded.vocab_size) if id_ not in loaded.special_ids]
    assert (found["documents"], found["characters"], found["words"]) == (len(written), characters, words)
    assert found["tokens"] == tokens
    assert found["characters_per_token"] == pytest.approx(characters / tokens)
    assert found["tokens_per_word"] == pytest.approx(tokens / words)
    assert found["unknown_share"] == pytest.approx(counts[loaded.unk_id or -1] / tokens)
    assert found["single_character_share"] == pytest.approx(single / tokens)
    assert found["round_trip_failures"] == failures
    assert found["never_used"] == sum(not counts[id_] for id_ in ordinary)
    assert found["unused_ids"] == 0
    for k, share in found["coverage"]:
        assert share == pytest.approx(sum(ordered[:k]) / tokens)
    assert found["zipf"] == [(rank, ordered[rank - 1]) for rank, _ in found["zipf"]]
    lengths = Counter(len(stands_for[id_].strip()) for id_ in ordinary)
    assert {row["characters"]: row["vocabulary"] for row in found["token_lengths"]} == lengths
    assert sum(row["text"] for row in found["token_lengths"]) == sum(counts[id_] for id_ in ordinary)
    assert [entry["count"] for entry in found["rarest_tokens"]] == sorted(
        counts[id_] for id_ in ordinary if counts[id_]
    )[:20]
    assert [len(stands_for[entry["id"]].strip()) for entry in found["longest_tokens"]] == sorted(
        (len(stands_for[id_].strip()) for id_ in ordinary), reverse=True
    )[:20]
    found_literals = {special: count for special in SPECIALS if (count := sum(text.count(special) for text in written))}
    assert found["literal_specials"] == found_literals


def trained(folder: Path, kind: str) -> LoadedTokenizer:
    experiment = experiment_from(
        {"tokenizer": {"kind": kind, "vocab_size": 2000, "sample_mb": 1}, "train": {"steps": 1, "global_batch_size": 1}}
    )
    return load(jobs.run("tokenizer", experiment, home=Home(folder / "home"))["folder"])


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
