"""Building shard sets: what is in them, that nothing changes their bytes, and what interrupts them."""

from __future__ import annotations

import dataclasses
import errno
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from shardsets import (
    EOS,
    Reporter,
    Text,
    build_set,
    contents,
    expected_sequences,
    some_documents,
    tokenizer,
)
from tpudeck.errors import ArtefactError, CorpusError, DiskFullError, InterruptedRunError
from tpudeck.shards import build, open_set
from tpudeck.shards.manifest import LENGTH_EDGES, Manifest
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck.tokenizer.encoding import Encoder

TRAIN, VALIDATION = some_documents(150), some_documents(20, seed=1)


@pytest.fixture
def words(tmp_path: Path) -> LoadedTokenizer:
    return tokenizer(tmp_path / "tokenizer")


def manifest(folder: Path) -> Manifest:
    found = Manifest.load(folder)
    assert found is not None
    return found


@pytest.mark.parametrize("layout", ["compact", "published"])
@pytest.mark.parametrize("enclosed", [True, False])
def test_sequences_are_the_stream_of_documents_cut_to_length(
    tmp_path: Path, words: LoadedTokenizer, layout: str, enclosed: bool
) -> None:
    made = build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, layout=layout, enclosed=enclosed)
    for split, documents in (("train", TRAIN), ("validation", VALIDATION)):
        sequences, dropped = expected_sequences(documents, enclosed=enclosed)
        taken = made.split(split).take(np.arange(len(sequences)))
        assert taken.tolist() == sequences
        assert len(made.split(split)) == len(sequences)
        assert manifest(tmp_path / "set").splits[split].dropped_tokens == dropped


def test_every_number_of_the_manifest_is_what_a_plain_count_gives(tmp_path: Path, words: LoadedTokenizer) -> None:
    build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    split = manifest(tmp_path / "set").splits["train"]
    lengths = [len(document.split()) + 2 for document in TRAIN if document.split()]
    ends = np.cumsum(lengths)
    cut = sum((end - length) // 16 != (end - 1) // 16 for end, length in zip(ends, lengths, strict=True))
    histogram = Counter(max(edge for edge in LENGTH_EDGES.tolist() if edge <= length) for length in lengths)
    assert split.tally.documents == len(TRAIN)
    assert split.tally.empty_documents == len(TRAIN) - len(lengths) > 0
    assert split.tally.document_tokens == sum(lengths) == split.tokens + split.dropped_tokens
    assert split.tally.longest_document_tokens == max(lengths)
    assert split.tally.cut_documents == cut
    assert dict(zip(LENGTH_EDGES.tolist(), split.tally.document_lengths, strict=True)) == {
        edge: histogram[edge] for edge in LENGTH_EDGES.tolist()
    }
    assert [file.sequences for file in split.files] == [10] * (split.sequences // 10) + [split.sequences % 10]
    assert split.corpus == {"documents": len(TRAIN)}


def test_token_counts_are_those_of_the_training_sequences(tmp_path: Path, words: LoadedTokenizer) -> None:
    made = build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    counted = Counter(token for sequence in expected_sequences(TRAIN)[0] for token in sequence)
    assert made.token_counts.tolist() == [counted[id_] for id_ in range(words.vocab_size)]
    assert counted[EOS] > 100


@pytest.mark.parametrize("layout", ["compact", "published"])
@pytest.mark.parametrize("batch", [1, 3, 150])
def test_the_bytes_do_not_depend_on_how_the_text_comes_in_batches(
    tmp_path: Path, words: LoadedTokenizer, layout: str, batch: int
) -> None:
    for name, size in (("one", 7), ("other", batch)):
        build_set(tmp_path / name, words, train=TRAIN, validation=VALIDATION, batch=size, layout=layout)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


@pytest.mark.parametrize("layout", ["compact", "published"])
@pytest.mark.parametrize("after", [0, 1, 5, 9, 14, 22, 23])
def test_a_build_that_was_stopped_anywhere_goes_on_to_the_same_bytes(
    tmp_path: Path, words: LoadedTokenizer, layout: str, after: int
) -> None:
    text: dict[str, Any] = {"train": TRAIN, "validation": VALIDATION, "layout": layout}
    build_set(tmp_path / "whole", words, **text)
    with pytest.raises(InterruptedRunError):
        build_set(tmp_path / "set", words, **text, reporter=Reporter(stop_after=after))
    with pytest.raises(ArtefactError, match="unfinished"):
        open_set(tmp_path / "set")
    with pytest.raises(InterruptedRunError):
        build_set(tmp_path / "set", words, **text, batch=3, reporter=Reporter(stop_after=1))
    build_set(tmp_path / "set", words, **text, batch=2)
    assert contents(tmp_path / "set") == contents(tmp_path / "whole")


def test_what_is_finished_is_not_encoded_again(
    tmp_path: Path, words: LoadedTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InterruptedRunError):
        build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, reporter=Reporter(stop_after=21))
    encoded: list[str] = []
    encode = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", lambda self, texts: encoded.extend(texts) or encode(self, texts))
    build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    # The validation split and 126 of the 150 documents were encoded; a shard holds about 7 documents.
    assert 150 - 126 <= len(encoded) < 150 - 126 + 10


@pytest.mark.parametrize("damage", ["torn ledger", "missing shard", "changed shard", "leftover"])
def test_a_build_that_goes_on_trusts_only_what_it_finds_whole(
    tmp_path: Path, words: LoadedTokenizer, damage: str
) -> None:
    folder = tmp_path / "set"
    build_set(tmp_path / "whole", words, train=TRAIN, validation=VALIDATION)
    with pytest.raises(InterruptedRunError):
        build_set(folder, words, train=TRAIN, validation=VALIDATION, reporter=Reporter(stop_after=20))
    shard = folder / "train" / "shard-00003.tfrecord"
    if damage == "torn ledger":
        ledger = folder / "ledger.jsonl"
        ledger.write_bytes(ledger.read_bytes()[:-40])
    elif damage == "missing shard":
        shard.unlink()
    elif damage == "changed shard":
        shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    else:
        (folder / "train" / ".unfinished").write_bytes(b"half a shard")
    build_set(folder, words, train=TRAIN, validation=VALIDATION)
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_finished_set_is_found_ready(tmp_path: Path, words: LoadedTokenizer) -> None:
    opened: list[str] = []
    for _ in range(2):
        build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, opened=opened.append)
    assert opened == ["validation", "train"]


def test_a_place_that_holds_anything_else_is_refused(tmp_path: Path, words: LoadedTokenizer) -> None:
    build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    with pytest.raises(ArtefactError, match="holds the shard set key, and the one asked for is other"):
        build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION, key="other")
    with pytest.raises(InterruptedRunError):
        build_set(tmp_path / "half", words, train=TRAIN, validation=VALIDATION, reporter=Reporter(stop_after=3))
    with pytest.raises(ArtefactError, match="unfinished shard set of other settings"):
        build_set(tmp_path / "half", words, train=TRAIN, validation=VALIDATION, key="other")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(ArtefactError, match=r"not empty: it holds diary\.txt"):
        build_set(tmp_path / "mine", words, train=TRAIN, validation=VALIDATION)
    assert (tmp_path / "mine" / "diary.txt").exists()


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (["w1 w2"], VALIDATION, "the train text gives 4 tokens, and one sequence needs 16"),
        (TRAIN, ["w1"], "the validation text gives 3 tokens, and one sequence needs 16"),
        ([], VALIDATION, "the train text gives 0 tokens"),
    ],
)
def test_too_little_text_for_one_sequence_is_an_error_and_leaves_nothing(
    tmp_path: Path, words: LoadedTokenizer, train: list[str], validation: list[str], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(CorpusError, match=message):
            build_set(tmp_path / "set", words, train=train, validation=validation)
        assert not (tmp_path / "set").exists()


class Damaged:
    """Text that turns out to be damaged after some documents."""

    def __init__(self, documents: int) -> None:
        self.documents = documents

    def __iter__(self) -> Any:
        yield TRAIN[: self.documents]
        raise CorpusError("text.jsonl.gz is truncated")


@pytest.mark.parametrize(("documents", "kept"), [(2, False), (100, True)])
def test_text_that_cannot_be_read_to_its_end_costs_no_finished_shards(
    tmp_path: Path, words: LoadedTokenizer, monkeypatch: pytest.MonkeyPatch, documents: int, kept: bool
) -> None:
    monkeypatch.setattr(
        "shardsets.Text", lambda texts, batch: Text(texts) if texts is VALIDATION else Damaged(documents)
    )
    with pytest.raises(CorpusError, match="truncated"):
        build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    assert (tmp_path / "set" / "ledger.jsonl").exists() == kept


def test_a_full_disk_is_said_and_the_build_goes_on_when_there_is_room(
    tmp_path: Path, words: LoadedTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_set(tmp_path / "whole", words, train=TRAIN, validation=VALIDATION)
    room = [3]

    def fsync(descriptor: int) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(build.os, "fsync", fsync)
        with pytest.raises(DiskFullError, match="disk is full") as caught:
            build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    assert "goes on" in caught.value.hint
    build_set(tmp_path / "set", words, train=TRAIN, validation=VALIDATION)
    assert contents(tmp_path / "set") == contents(tmp_path / "whole")


def test_two_builds_of_one_set_at_once_make_it_once(tmp_path: Path, words: LoadedTokenizer) -> None:
    opened: list[str] = []
    builds = [
        threading.Thread(
            target=build_set,
            args=(tmp_path / "set", words),
            kwargs={"train": TRAIN, "validation": VALIDATION, "opened": opened.append},
        )
        for _ in range(3)
    ]
    for thread in builds:
        thread.start()
    for thread in builds:
        thread.join()
    assert opened == ["validation", "train"]
    assert len(open_set(tmp_path / "set").split("train")) == len(expected_sequences(TRAIN)[0])


def test_a_vocabulary_above_65536_is_kept_in_32_bits(tmp_path: Path) -> None:
    large = tokenizer(tmp_path / "tokenizer", [f"w{number}" for number in range(70_000)])
    documents = [f"w{number} w{69_999 - number}" for number in range(40)]
    made = build_set(tmp_path / "set", large, train=documents, validation=documents)
    assert 70_004 in made.split("train").take([0])
    assert made.vocab_size == 70_005


def test_a_tokenizer_that_cannot_encode_the_text_is_named(tmp_path: Path) -> None:
    rust = Tokenizer(models.Unigram([("<s>", 0.0), ("</s>", 0.0), ("a", -1.0)]))
    rust.add_special_tokens(["<s>", "</s>"])
    (tmp_path / "no-unknown").mkdir()
    rust.save(str(tmp_path / "no-unknown" / "tokenizer.json"))
    with pytest.raises(ArtefactError, match="no-unknown cannot encode this text"):
        build_set(tmp_path / "set", load(tmp_path / "no-unknown"), train=["aaa", "b"], validation=["aaa b"])
    assert not (tmp_path / "set").exists()


def test_an_id_beyond_the_vocabulary_is_refused(tmp_path: Path, words: LoadedTokenizer) -> None:
    smaller = dataclasses.replace(words, vocab_size=20)
    with pytest.raises(ArtefactError, match=r"gives the id 6., and its vocabulary has 20 entries"):
        build_set(tmp_path / "set", smaller, train=TRAIN, validation=VALIDATION)


def test_too_little_text_leaves_of_a_folder_what_was_in_it(words: LoadedTokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / ".keep").write_text("mine")
    with pytest.raises(CorpusError):
        build_set(folder, words, train=["w1"], validation=["w2"])
    assert contents(folder) == {".keep": b"mine"}
