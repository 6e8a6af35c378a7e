"""Verification finds every kind of damage, in every file, and says where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardsets import build_set, expected_sequences, some_documents, tokenizer
from tpudeck.errors import ArtefactError
from tpudeck.shards import ShardSet
from tpudeck.shards.verify import verify
from tpudeck.tfrecord import encode_example, frame

TRAIN, VALIDATION = some_documents(150), some_documents(20, seed=1)


@pytest.fixture(params=["compact", "published"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> ShardSet:
    words = tokenizer(tmp_path / "tokenizer")
    return build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, layout=request.param)


def shard(made: ShardSet, index: int) -> Path:
    return made.split("train").locate(index * 10)[0]


def test_a_whole_set_has_no_faults_and_is_counted(made: ShardSet) -> None:
    said: list[tuple[int, int]] = []
    found = verify(made.folder, lambda done, total: said.append((done, total)))
    sequences = len(expected_sequences(TRAIN)[0]) + len(expected_sequences(VALIDATION)[0])
    assert found.faults == []
    assert (found.sequences, found.tokens) == (sequences, sequences * 16)
    assert found.size_bytes == sum(path.stat().st_size for path in made.folder.rglob("*.tfrecord"))
    assert said[-1] == (found.files, found.files)


def test_damage_in_several_files_is_told_all_at_once(made: ShardSet) -> None:
    truncated, flipped, missing, swapped = (shard(made, index) for index in range(4))
    truncated.write_bytes(truncated.read_bytes()[:-9])
    data = bytearray(flipped.read_bytes())
    data[made.split("train").locate(13)[1] + 4] ^= 1
    flipped.write_bytes(data)
    missing.unlink()
    swapped.write_bytes(made.layout.encode(np.full((10, 16), 7)))
    faults = verify(made.folder).faults
    assert len(faults) == 4
    for path, kind in ((truncated, "truncated"), (flipped, "corrupted at offset"), (missing, "No such file"),
                       (swapped, "not the file that the manifest describes")):  # fmt: skip
        assert any(str(path) in fault and kind in fault for fault in faults), (kind, faults)


def test_a_missing_or_added_record_is_counted(made: ShardSet) -> None:
    path = shard(made, 2)
    path.write_bytes(path.read_bytes() + made.layout.encode(np.full((1, 16), 7)))
    (fault,) = verify(made.folder).faults
    assert fault == f"{path} holds 11 records, and the manifest says 10"


def test_an_id_beyond_the_vocabulary_is_found_with_its_offset(made: ShardSet) -> None:
    ids = np.full((10, 16), 7)
    ids[6, 3] = 65
    path = shard(made, 2)
    path.write_bytes(made.layout.encode(ids))
    offset = 6 * len(made.layout.encode(ids[:1]))
    (fault,) = verify(made.folder).faults
    assert f"{path} does not belong to this set: at offset {offset}, an id is 65" in fault


def test_token_frequencies_that_are_not_those_of_the_shards_are_found(made: ShardSet) -> None:
    counts = made.token_counts.copy()
    counts[9] += 1
    np.save(made.folder / "token-counts.npy", counts)
    (fault,) = verify(made.folder).faults
    assert f"do not add up to the {made.token_counts.sum()} tokens" in fault
    counts[10] -= 1
    np.save(made.folder / "token-counts.npy", counts)
    (fault,) = verify(made.folder).faults
    assert "are not those of its training shards" in fault


def test_without_a_manifest_file_names_are_held_against_what_is_in_them(tmp_path: Path) -> None:
    record = frame(encode_example({"input_ids": np.array([5, 6, 7])}))
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "dataset-0-2.tfrecord").write_bytes(record * 2)
    (tmp_path / "train" / "dataset-1-5.tfrecord").write_bytes(record * 3)
    (tmp_path / "train" / "dataset-2-1.tfrecord").write_bytes(b"not a record at all")
    found = verify(tmp_path)
    assert not found.manifest
    assert found.sequences == 2
    assert len(found.faults) == 2
    assert "holds 3 records, and its name says 5" in found.faults[0]
    assert "not a TFRecord file" in found.faults[1]


def test_a_folder_without_shards_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="holds no shards"):
        verify(tmp_path)
