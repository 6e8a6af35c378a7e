"""Building with several processes: the same bytes, and nothing left behind whatever ends them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardsets import Reporter, Text, build_set, contents, some_documents, tokenizer
from tpudeck.errors import ArtefactError, InterruptedRunError, WorkError
from tpudeck.tokenizer import LoadedTokenizer, encoding
from tpudeck.tokenizer.encoding import encode_batches

TRAIN, VALIDATION = some_documents(150), some_documents(20, seed=1)


@pytest.fixture(autouse=True)
def no_text_is_too_short_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_ALONE_CHARACTERS", 0)


@pytest.fixture
def words(tmp_path: Path) -> LoadedTokenizer:
    return tokenizer(tmp_path / "tokenizer")


def build(folder: Path, words: LoadedTokenizer, processes: int, reporter: Reporter | None = None) -> None:
    build_set(folder, words, train=TRAIN, validation=VALIDATION, processes=processes, reporter=reporter)


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path, words: LoadedTokenizer) -> None:
    for processes in (1, 2, 3):
        build(tmp_path / str(processes), words, processes)
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "3")


def test_a_build_that_is_stopped_ends_its_processes_and_goes_on(tmp_path: Path, words: LoadedTokenizer) -> None:
    build(tmp_path / "whole", words, 1)
    with pytest.raises(InterruptedRunError):
        build(tmp_path / "set", words, 2, Reporter(stop_after=20))
    assert not multiprocessing.active_children()
    build(tmp_path / "set", words, 2)
    assert contents(tmp_path / "set") == contents(tmp_path / "whole")


def test_a_process_that_is_killed_is_said_and_all_end(words: LoadedTokenizer) -> None:
    def batches() -> Iterator[list[str]]:
        for number in range(100_000):  # until it is noticed
            if number == 12:
                os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
            yield TRAIN[:7]

    with pytest.raises(WorkError, match="was killed") as caught:
        deque(encode_batches(words, batches(), processes=2), maxlen=0)
    assert "the same command again" in caught.value.hint
    assert not multiprocessing.active_children()


def test_a_tokenizer_that_is_changed_meanwhile_is_refused(tmp_path: Path, words: LoadedTokenizer) -> None:
    encoded = encode_batches(words, Text(TRAIN), processes=2)
    tokenizer(words.folder, ["other", "words"])
    with pytest.raises(ArtefactError, match="was changed while text was encoded"):
        list(encoded)


def test_what_the_tokenizer_says_in_another_process_is_said_here(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    from tpudeck.tokenizer import load

    rust = Tokenizer(models.WordLevel({"w1": 0, "[CLS]": 1}))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["[CLS]"])
    rust.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ArtefactError, match="cannot encode this text") as caught:
        list(encode_batches(load(tmp_path), [["w1"], ["unheard-of"]], processes=2))
    assert "unknown token" in caught.value.hint
