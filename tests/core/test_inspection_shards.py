"""Statistics of shard sets against an independent count in plain Python; findings; constant memory."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardsets import BOS, EOS, UNK, WORDS, build_set, expected_sequences, some_documents, tokenizer
from tpudeck.errors import ArtefactError
from tpudeck.inspection.curves import coverage_curve, zipf_curve
from tpudeck.inspection.hashes import Distinct, row_hashes
from tpudeck.inspection.shards import inspect_shards
from tpudeck.shards import ShardSet, open_set
from tpudeck.tfrecord import encode_example, frame

TRAIN, VALIDATION = some_documents(150), some_documents(20, seed=1)


def make(tmp_path: Path, train: list[str] = TRAIN, validation: list[str] = VALIDATION, **changed: Any) -> ShardSet:
    return build_set(tmp_path / "set", tokenizer(tmp_path / "tokenizer"), train=train, validation=validation, **changed)


def messages(found: dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in found["findings"])


@pytest.mark.parametrize("layout", ["compact", "published"])
def test_every_number_is_what_a_plain_count_gives(tmp_path: Path, layout: str) -> None:
    made = make(tmp_path, layout=layout)
    found = inspect_shards(made)
    for split, documents in (("train", TRAIN), ("validation", VALIDATION)):
        sequences, dropped = expected_sequences(documents)
        tokens = [token for sequence in sequences for token in sequence]
        counts = Counter(tokens)
        about = found["splits"][split]
        assert about["sequences"] == len(sequences)
        assert about["tokens"] == len(tokens)
        assert about["used_tokens"] == len(counts)
        assert about["special_share"] == pytest.approx((counts[BOS] + counts[EOS]) / len(tokens))
        assert about["unknown_share"] == pytest.approx(counts[UNK] / len(tokens))
        assert about["dropped_tokens"] == dropped
        assert about["padding_share"] == 0
        assert about["documents"] == len(documents)
        assert about["bytes"] == sum(path.stat().st_size for path in (made.folder / split).iterdir())
        assert sum(about["document_lengths"]["counts"]) == sum(bool(document.split()) for document in documents)


def test_the_numbers_of_a_file_are_those_of_its_sequences(tmp_path: Path) -> None:
    found = inspect_shards(make(tmp_path))
    sequences = expected_sequences(TRAIN)[0]
    counts = Counter(token for sequence in sequences for token in sequence)
    total = sum(counts.values()) + 65
    third = [token for sequence in sequences[20:30] for token in sequence]
    file = found["files"]["train"][2]
    assert file["name"] == "shard-00002.tfrecord"
    assert file["sequences"] == 10
    assert file["unknown_share"] == pytest.approx(third.count(UNK) / 160)
    expected = sum(-math.log((counts[token] + 1) / total) for token in third) / 160
    assert file["unigram_nats"] == pytest.approx(expected)


def test_curves_agree_with_sorted_counts(tmp_path: Path) -> None:
    found = inspect_shards(make(tmp_path))
    counts = Counter(token for sequence in expected_sequences(TRAIN)[0] for token in sequence)
    ordered = sorted(counts.values(), reverse=True)
    assert found["zipf"] == [(rank, ordered[rank - 1]) for rank, _ in found["zipf"]]
    for k, share in found["coverage"]:
        assert share == pytest.approx(sum(ordered[:k]) / sum(ordered))
    assert found["coverage"][-1] == (len(ordered), 1.0)
    assert [entry["count"] for entry in found["top_tokens"]] == ordered[:20]


def test_repeated_sequences_are_counted_and_found(tmp_path: Path) -> None:
    repeated = ["w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14"] * 30  # with its ends exactly one sequence
    found = inspect_shards(make(tmp_path, train=[*repeated, *TRAIN]))
    sequences = expected_sequences([*repeated, *TRAIN])[0]
    repeats = len(sequences) - len(set(map(tuple, sequences)))
    assert repeats >= 29
    assert found["splits"]["train"]["duplicate_share"] == pytest.approx(repeats / len(sequences))
    assert "repeat another, token for token" in messages(found)


def test_a_file_of_other_text_is_found_and_usual_ones_are_not(tmp_path: Path) -> None:
    usual = ["w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14"] * 100
    odd = ["w50 w51 w52 w53 w54 w55 w56 w57 w58 w59 w50 w51 w52 w53"] * 10
    found = inspect_shards(make(tmp_path, train=[*usual[:40], *odd, *usual]))
    unlike = [line for line in messages(found).split("\n") if "unlike the others" in line]
    assert len(unlike) == 1
    assert "train: shard-00004.tfrecord is unlike the others" in unlike[0]
    assert "unlike" not in messages(inspect_shards(make(tmp_path / "usual")))


def test_unknown_unused_and_cut_are_found(tmp_path: Path) -> None:
    documents = [f"strange w{number % 30} " + "w1 " * 40 for number in range(60)]
    found = messages(inspect_shards(make(tmp_path, train=documents)))
    assert "of the tokens are the unknown token" in found
    assert "never occur" in found
    assert "100.0 % of the documents do not lie within one sequence of 16 tokens" in found


def test_other_peoples_shards_are_inspected_without_a_manifest(tmp_path: Path) -> None:
    def record(ids: list[int], mask: list[int]) -> bytes:
        return frame(encode_example({"input_ids": np.array(ids), "attention_mask": np.array(mask)}))

    (tmp_path / "a.tfrecord").write_bytes(record([5, 6, 7, 0], [1, 1, 1, 0]) + record([5, 9, 0, 0], [1, 1, 0, 0]))
    found = inspect_shards(open_set(tmp_path))
    about = found["splits"]["train"]
    assert (about["sequences"], about["tokens"], about["used_tokens"]) == (2, 8, 5)
    assert about["padding_share"] == 3 / 8
    assert about["unknown_share"] is None
    assert found["vocab_size"] == 10
    assert "37.5 % of the tokens are padding" in messages(found)


def test_copies_of_a_record_are_all_in_a_sample_or_none_is(tmp_path: Path) -> None:
    rng = random.Random(0)
    documents = [" ".join(rng.choices([*WORDS, "unheard-of"], k=14)) for _ in range(2000)]  # with ends, a sequence each
    made = make(tmp_path, train=documents + documents[:500], shard_sequences=200)
    whole = inspect_shards(made)["splits"]["train"]
    sample = inspect_shards(made, share=0.3)
    about = sample["splits"]["train"]
    assert about["sequences"] == whole["sequences"]
    assert 0.2 < about["sampled_sequences"] / about["sequences"] < 0.4
    assert whole["duplicate_share"] == 0.2
    for name in ("unknown_share", "duplicate_share"):
        assert abs(about[name] - whole[name]) <= 1.6 * about[f"{name}_error"]  # three standard deviations
        assert 0 < about[f"{name}_error"] < 0.05
        assert whole[f"{name}_error"] == 0
    assert about["padding_share"] == 0 < about["padding_share_error"]


@pytest.mark.parametrize(("share", "layout"), [(1.0, "compact"), (0.5, "compact"), (1.0, "published")])
def test_several_processes_give_the_numbers_of_one(tmp_path: Path, share: float, layout: str) -> None:
    made = make(tmp_path, layout=layout)
    assert inspect_shards(made, share=share, workers=2) == inspect_shards(made, share=share)


def test_an_id_that_no_vocabulary_reaches_is_damage(tmp_path: Path) -> None:
    data = frame(encode_example({"input_ids": np.array([1, 2, 2**31 - 1])}))
    (tmp_path / "a.tfrecord").write_bytes(data)
    with pytest.raises(ArtefactError, match="no vocabulary reaches"):
        inspect_shards(open_set(tmp_path))


def test_files_that_were_replaced_are_read_anew(tmp_path: Path) -> None:
    for ids in ([1, 2, 3], [4, 4, 4]):
        (tmp_path / "new").write_bytes(frame(encode_example({"input_ids": np.array(ids)})))
        (tmp_path / "new").replace(tmp_path / "a.tfrecord")
        found = inspect_shards(open_set(tmp_path))
        assert found["splits"]["train"]["used_tokens"] == len(set(ids))


def test_damage_is_an_error_and_not_a_statistic(tmp_path: Path) -> None:
    made = make(tmp_path)
    path, offset = made.split("train").locate(25)
    data = bytearray(path.read_bytes())
    data[offset + 8] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match=f"the record at offset {offset}"):
        inspect_shards(open_set(made.folder))


def test_progress_ends_with_all_sequences(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    inspect_shards(make(tmp_path), lambda done, total: said.append((done, total)))
    total = len(expected_sequences(TRAIN)[0]) + len(expected_sequences(VALIDATION)[0])
    assert said[-1] == (total, total)


# ---- curves ------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=200), st.integers(1, 50))
@settings(max_examples=50, deadline=None)
def test_repeats_are_exact_while_there_is_room(rows: list[list[int]], parts: int) -> None:
    distinct = Distinct()
    for part in np.array_split(np.array(rows, dtype=np.int32), parts):
        distinct.add(row_hashes(part))
    assert distinct.exact
    assert distinct.repeat_share == pytest.approx((len(rows) - len(set(map(tuple, rows)))) / len(rows))


def test_beyond_its_room_the_share_is_an_estimate_within_its_error() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(0, 20_000, (40_000, 1)), 10**6 + np.arange(60_000)[:, None]])
    distinct = Distinct(most_kept=4000)
    for part in np.array_split(rng.permutation(values).astype(np.int32), 50):
        distinct.add(row_hashes(part))
    true_share = 1 - len(np.unique(values)) / len(values)
    assert not distinct.exact
    assert len(distinct._values) <= 4000
    assert 0 < distinct.error < 0.02
    assert abs(distinct.repeat_share - true_share) < 2 * distinct.error


def test_curves_of_nothing_are_empty() -> None:
    nothing = np.zeros(5, dtype=np.int64)
    assert zipf_curve(nothing) == coverage_curve(nothing) == []
