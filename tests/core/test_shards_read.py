"""Reading shard sets: any sequences by number, other people's files, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardsets import build_set, expected_sequences, some_documents, tokenizer
from tpudeck.errors import ArtefactError
from tpudeck.shards import ShardSet, open_set
from tpudeck.tfrecord import encode_example, frame

TRAIN, VALIDATION = some_documents(150), some_documents(20, seed=1)
SEQUENCES = expected_sequences(TRAIN)[0]


@pytest.fixture(params=["compact", "published"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> ShardSet:
    words = tokenizer(tmp_path / "tokenizer")
    return build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, layout=request.param)


def some_shard(folder: Path) -> Path:
    """The fourth training shard; it holds the sequences 30 to 39."""
    names = ("shard-00003.tfrecord", "dataset-3-10.tfrecord")
    (shard,) = (path for path in (folder / "train").iterdir() if path.name in names)
    return shard


def test_sequences_are_taken_in_the_order_asked_repeats_included(made: ShardSet) -> None:
    asked = [len(SEQUENCES) - 1, 0, 35, 35, 7, 31]
    taken = open_set(made.folder).split("train").take(np.array(asked))
    assert taken.dtype == np.int32
    assert taken.tolist() == [SEQUENCES[index] for index in asked]
    assert made.split("train").take([]).shape == (0, 16)


def test_numbers_outside_the_set_are_refused(made: ShardSet) -> None:
    for index in (-1, len(SEQUENCES)):
        with pytest.raises(IndexError, match="numbered from 0"):
            made.split("train").take([index])


def test_chunks_are_all_sequences_in_order(made: ShardSet) -> None:
    assert np.concatenate(list(made.split("train").chunks(9))).tolist() == SEQUENCES


def test_a_sequence_is_found_in_its_file(made: ShardSet) -> None:
    path, offset = made.split("train").locate(33)
    assert path == some_shard(made.folder)
    assert offset > 12


def test_published_shards_without_a_manifest_are_read_by_counting_frames(tmp_path: Path) -> None:
    words = tokenizer(tmp_path / "tokenizer")
    made = build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, layout="published")
    counts = made.token_counts
    (made.folder / "manifest.json").unlink()
    (made.folder / "token-counts.npy").unlink()
    wrong_name = made.folder / "train" / "dataset-0-999.tfrecord"
    (made.folder / "train" / "dataset-0-10.tfrecord").rename(wrong_name)
    foreign = open_set(made.folder)
    assert foreign.splits == ("train", "validation")
    assert foreign.sequence_length == 16
    assert foreign.tokenizer_hash == ""
    assert foreign.split("train").take(np.arange(len(SEQUENCES))).tolist() == SEQUENCES
    assert foreign.vocab_size == max(max(sequence) for sequence in SEQUENCES) + 1
    assert foreign.token_counts.tolist() == counts[: foreign.vocab_size].tolist()


def test_files_directly_in_a_folder_are_a_training_split(tmp_path: Path) -> None:
    record = frame(encode_example({"input_ids": np.array([5, 6, 7]), "attention_mask": np.array([1, 1, 0])}))
    (tmp_path / "a.tfrecord").write_bytes(record * 3)
    assert open_set(tmp_path).split("train").take([2]).tolist() == [[5, 6, 7]]
    with pytest.raises(ArtefactError, match="has no validation split, it has train"):
        open_set(tmp_path).split("validation")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (frame(encode_example({"tokens": np.array([1])})), "offset 0, a record has no int64 feature 'input_ids'"),
        (frame(b"\xff\xff\xff"), "offset 0, an integer is cut off"),
        (b"hello, world, this is text", "not a TFRecord file"),
        (b"", "only empty files"),
    ],
)
def test_files_that_are_no_published_shards_are_told_apart(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.tfrecord").write_bytes(content)
    with pytest.raises(ArtefactError, match=message):
        open_set(tmp_path)


def test_a_folder_without_shards_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="holds no shards"):
        open_set(tmp_path)


def test_a_record_of_another_length_is_an_error_with_file_and_offset(tmp_path: Path) -> None:
    usual = frame(encode_example({"input_ids": np.array([5, 6, 7])}))
    odd = frame(encode_example({"input_ids": np.array([5, 6])}))
    (tmp_path / "a.tfrecord").write_bytes(usual * 2 + odd)
    sequences = open_set(tmp_path).split("train")
    assert sequences.take([1, 0]).tolist() == [[5, 6, 7]] * 2
    offset = 2 * len(usual) + 12
    with pytest.raises(ArtefactError, match=rf"a\.tfrecord .* offset {offset}, a record holds 2 input_ids"):
        sequences.take([0, 2, 1])


def test_a_truncated_or_missing_shard_is_found_when_the_set_is_opened(made: ShardSet) -> None:
    shard = some_shard(made.folder)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-9])
    with pytest.raises(ArtefactError, match=rf"{shard.name} is truncated: it ends at offset {len(whole) - 9}"):
        open_set(made.folder)
    shard.unlink()
    with pytest.raises(ArtefactError, match=rf"{shard.name} is missing"):
        open_set(made.folder)


def test_a_corrupted_record_is_an_error_with_file_and_offset_when_it_is_taken(made: ShardSet) -> None:
    shard = some_shard(made.folder)
    _, offset = made.split("train").locate(34)
    data = bytearray(shard.read_bytes())
    data[offset + 5] ^= 1
    shard.write_bytes(data)
    sequences = open_set(made.folder).split("train")
    assert sequences.take([33, 35]).tolist() == [SEQUENCES[33], SEQUENCES[35]]
    with pytest.raises(ArtefactError, match=rf"{shard.name} is corrupted: the record at offset {offset}"):
        sequences.take([33, 34])


def test_an_id_beyond_the_vocabulary_is_an_error(tmp_path: Path) -> None:
    words = tokenizer(tmp_path / "tokenizer")
    made = build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    shard = some_shard(made.folder)
    shard.write_bytes(made.layout.encode(np.full((10, 16), words.vocab_size)))
    with pytest.raises(ArtefactError, match=rf"{shard.name} .* an id is 65, and the vocabulary has 65 entries"):
        open_set(made.folder).split("train").take([0, 30])


def test_a_tokenizer_that_does_not_belong_is_an_error_that_names_both(made: ShardSet, tmp_path: Path) -> None:
    made.require_tokenizer(made.tokenizer_hash, "tokenizer")
    other = tokenizer(tmp_path / "other", ["only", "three", "words"])
    with pytest.raises(ArtefactError, match=rf"{made.tokenizer_hash[:12]}.*other is {other.hash[:12]}"):
        made.require_tokenizer(other.hash, other.folder)


@pytest.mark.parametrize("damage", ["{", "[]", '{"format_version": 1}', '{"format_version": 99}'])
def test_a_manifest_that_cannot_be_understood_is_an_error(made: ShardSet, damage: str) -> None:
    (made.folder / "manifest.json").write_text(damage)
    with pytest.raises(ArtefactError, match=r"manifest\.json (is damaged|has format version 99)"):
        open_set(made.folder)
