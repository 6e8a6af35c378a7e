"""Documents: which there are, which side they are on, and what is counted."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tpudeck.corpus import MAX_DOCUMENT_CHARACTERS, Documents, builtin, fingerprint, open_corpus
from tpudeck.corpus.documents import CorpusCounts, HeldOut, is_held_out
from tpudeck.errors import CorpusError
from tpudeck.presets.schema import Corpus

ALL = 1e-9
"""A validation fraction that holds nothing out."""


def corpus(source: Path | str, **changes: Any) -> Corpus:
    return Corpus(source=str(source), **{"validation_fraction": ALL, **changes})


def read(settings: Corpus, split: Any = "train") -> tuple[list[str], CorpusCounts]:
    documents = open_corpus(settings, split)
    return [document for batch in documents for document in batch], documents.counts


def from_rows(*rows: Any) -> tuple[list[str], CorpusCounts]:
    documents = Documents(lambda counts: iter([list(rows)]), name="rows")
    return [document for batch in documents for document in batch], documents.counts


# The built-in corpus


def test_builtin_is_real_english_of_more_than_a_million_characters() -> None:
    documents, counts = read(corpus("builtin"))
    assert counts.characters > 1_500_000
    assert counts.documents > 10_000
    assert sum("Return True if" in document for document in documents) > 50
    assert len(set(documents)) == len(documents)


def test_builtin_is_the_same_in_another_process_whatever_is_installed_or_imported() -> None:
    program = (
        "import hashlib, sys\n"
        "{setup}\n"
        "from tpudeck.corpus import builtin\n"
        "print(hashlib.sha256(repr(builtin.documents()).encode('utf-8', 'replace')).hexdigest(), builtin.fingerprint())"
    )

    def told(setup: str, *flags: str) -> str:
        command = [sys.executable, *flags, "-c", program.format(setup=setup)]
        environment = {**os.environ, "PYTHONHASHSEED": "random", "PYTHONWARNINGS": "ignore"}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    plain = told("")
    assert plain == told("import builtins, numpy; builtins.extra = len; builtins._ = 'left by a shell'")
    assert plain == told("", "-OO")


def test_builtin_reads_docstrings_without_importing_modules() -> None:
    program = "import sys; from tpudeck.corpus import builtin; builtin.documents(); print('antigravity' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "False"
    assert said.stderr == ""


def test_a_python_without_documentation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "_texts", lambda: iter(()))
    builtin.documents.cache_clear()
    try:
        with pytest.raises(CorpusError, match="carries no documentation"):
            builtin.documents()
    finally:
        builtin.documents.cache_clear()


# Text


def test_a_line_is_a_document_and_blank_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  two  \n \t \nthree")
    documents, counts = read(corpus(tmp_path / "a.txt"))
    assert documents == ["one", "two", "three"]
    assert (counts.documents, counts.characters, counts.blank) == (3, 11, 2)


def test_a_paragraph_can_be_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one line\nand its rest\n\n\nanother\n   \nlast\n")
    documents, _ = read(corpus(tmp_path / "a.txt", document="paragraph"))
    assert documents == ["one line and its rest", "another", "last"]


def test_windows_line_ends_are_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n\r\n")
    assert read(corpus(tmp_path / "a.txt"))[0] == ["one", "two"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_says_how_a_file_is_encoded_and_is_no_text(tmp_path: Path, encoding: str) -> None:
    text = "\ufeffnaïve 日本語\nsecond 😀" if encoding == "utf-16-be" else "naïve 日本語\nsecond 😀"
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert read(corpus(tmp_path / "a.txt"))[0] == ["naïve 日本語", "second 😀"]


def test_characters_that_straddle_blocks_and_surrogates_of_utf_16_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpudeck.corpus.files._BLOCK_BYTES", 7)
    lines = ["naïve 日本語 😀😀", "x" * 50, "", "é" * 20, "😀"]
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "a.txt").write_bytes("\n".join(lines).encode(encoding))
        assert read(corpus(tmp_path / "a.txt"))[0] == [line for line in lines if line]


def test_bytes_that_are_not_utf_8_are_marked_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("café\nplain\n".encode("latin-1"))
    documents, counts = read(corpus(tmp_path / "a.txt"))
    assert documents == ["caf\ufffd", "plain"]
    assert counts.undecodable == 1


def test_a_binary_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x7fELF\x02\x01\x01\x00\x00")
    with pytest.raises(CorpusError, match=r"a\.txt is not text: there is a zero byte at 7"):
        read(corpus(tmp_path / "a.txt"))


def test_nul_characters_inside_a_text_are_removed_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a\\u0000b"}\n{"text": "\\u0000"}\n')
    documents, counts = read(corpus(tmp_path / "a.jsonl"))
    assert documents == ["ab"]
    assert (counts.nul, counts.blank) == (2, 1)


def test_a_huge_line_becomes_documents_of_bounded_length_and_loses_nothing(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(60_000)]
    (tmp_path / "a.txt").write_text(" ".join(words))
    documents, counts = read(corpus(tmp_path / "a.txt"))
    assert max(map(len, documents)) <= MAX_DOCUMENT_CHARACTERS
    assert " ".join(documents).split() == words
    assert counts.cut == 1
    assert counts.documents == len(documents) > 1


def test_a_line_beyond_the_longest_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpudeck.corpus.files._BLOCK_BYTES", 64)
    monkeypatch.setattr("tpudeck.corpus.files._LONGEST_LINE_BYTES", 256)
    words = [f"w{number}" for number in range(500)]
    (tmp_path / "a.txt").write_text("first\n" + " ".join(words) + "\nlast")
    documents, _ = read(corpus(tmp_path / "a.txt"))
    assert documents[0] == "first"
    assert documents[-1] == "last"
    assert " ".join(documents[1:-1]).split() == words


@given(st.text(alphabet=st.sampled_from("ab \n😀"), min_size=1).map(lambda text: text * 3))
@settings(max_examples=30, deadline=None)
def test_cutting_long_documents_keeps_every_character_but_white_space(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tpudeck.corpus.documents.MAX_DOCUMENT_CHARACTERS", 5)
        documents = Documents(lambda counts: iter([[text, "end"]]), name="x")
        pieces = [piece for batch in documents for piece in batch]
    assert "".join("".join(pieces).split()) == "".join(text.split()) + "end"
    assert max(map(len, pieces)) <= 5


# JSON lines


def test_json_lines_give_their_column_and_count_what_is_not_text(tmp_path: Path) -> None:
    lines = [
        '{"text": "one", "id": 1}',
        "{broken",
        "[1]",
        '"text"',
        '{"id": 2}',
        '{"text": null}',
        '{"text": 3}',
        "",
        '{"text": ""}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    documents, counts = read(corpus(tmp_path / "a.jsonl"))
    assert documents == ["one"]
    assert (counts.malformed, counts.null, counts.wrong_type, counts.blank) == (3, 2, 1, 2)


def test_json_lines_with_broken_encoding_are_kept_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "caf\xe9"}\n')
    documents, counts = read(corpus(tmp_path / "a.jsonl"))
    assert documents == ["caf\ufffd"]
    assert counts.undecodable == 1


def test_json_that_only_lenient_writers_make_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one", "score": NaN}\n{"text": "a\\ud800b"}\n{"text": [' + "[" * 50_000)
    documents, counts = read(corpus(tmp_path / "a.jsonl"))
    assert documents == ["one", "a\ufffdb"]
    assert counts.malformed == 1


def test_a_json_array_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"text": "one"}], indent=1))
    with pytest.raises(CorpusError, match="does not hold one JSON object per line") as caught:
        read(corpus(tmp_path / "a.json"))
    assert "jq" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'{"body": "x", "id": 1}\n'),
        ("a.csv", b"body,id\nx,1\n"),
        ("a.tsv", b"body\tid\nx\t1\n"),
    ],
)
def test_a_wrong_column_is_an_error_that_names_the_columns_there_are(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match="has no column 'text'; it has body, id"):
        read(corpus(tmp_path / name))
    assert read(corpus(tmp_path / name, column="body"))[0] == ["x"]


# CSV


def test_csv_fields_may_hold_quotes_commas_and_newlines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfid,text\r\n1,"a ""quoted"", and\r\nbroken line"\r\n\r\n2\r\n3,""\r\n4,plain\r\n'
    )
    documents, counts = read(corpus(tmp_path / "a.csv"))
    assert documents == ['a "quoted", and\nbroken line', "plain"]
    assert (counts.null, counts.blank) == (1, 2)


@pytest.mark.parametrize(
    ("rows", "kept", "malformed"),
    [
        (b'text,id\ngood,1\n"unclosed,2\n', ["good"], 1),
        (b'id,text\n3,"unclosed\n', ["good"], 1),
        (b"text\ngood", ["good"], 0),
        (b'text\n"good"', ["good"], 0),
    ],
)
def test_a_csv_field_without_end_is_no_document(tmp_path: Path, rows: bytes, kept: list[str], malformed: int) -> None:
    (tmp_path / "a.csv").write_bytes(rows)
    (tmp_path / "b.csv").write_bytes(b"text\ngood\n")
    documents, counts = read(corpus(tmp_path / "*.csv"))
    assert set(documents) == set(kept)
    assert counts.malformed == malformed


def test_a_csv_field_that_never_ends_is_malformed_not_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpudeck.corpus.files._LONGEST_LINE_BYTES", 1000)
    (tmp_path / "a.csv").write_text("text\ngood\n" + '"' + "never ends\n" * 500)
    documents, counts = read(corpus(tmp_path / "a.csv"))
    assert documents[0] == "good"
    assert counts.malformed >= 1


# Parquet


def test_parquet_gives_its_column_and_counts_nulls(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": ["one", None, "", "two"], "n": [1, 2, 3, 4]}), tmp_path / "a.parquet")
    documents, counts = read(corpus(tmp_path / "a.parquet"))
    assert documents == ["one", "two"]
    assert (counts.null, counts.blank) == (1, 1)


def test_parquet_with_dictionary_and_large_strings_is_text(tmp_path: Path) -> None:
    for kind in (pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())):
        parquet.write_table(pyarrow.table({"text": pyarrow.array(["one", "two"]).cast(kind)}), tmp_path / "a.parquet")
        assert read(corpus(tmp_path / "a.parquet"))[0] == ["one", "two"]


def test_parquet_without_the_column_or_with_numbers_in_it_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"n": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match="has no column 'text'; it has n"):
        read(corpus(tmp_path / "a.parquet"))
    with pytest.raises(CorpusError, match=r"column n of .* holds int64, not text"):
        read(corpus(tmp_path / "a.parquet", column="n"))


def test_a_truncated_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": ["one"]}), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-5])
    with pytest.raises(CorpusError, match=r"a\.parquet is not a Parquet file, or damaged"):
        read(corpus(tmp_path / "a.parquet"))


# Compression

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_every_kind_of_file_may_be_compressed(tmp_path: Path, suffix: str) -> None:
    parquet.write_table(pyarrow.table({"text": ["one", "two"]}), tmp_path / "plain.parquet")
    plain = {
        "a.txt": b"one\ntwo\n",
        "a.jsonl": b'{"text": "one"}\n{"text": "two"}\n',
        "a.csv": b"text\none\ntwo\n",
        "a.parquet": (tmp_path / "plain.parquet").read_bytes(),
    }
    for name, data in plain.items():
        (tmp_path / (name + suffix)).write_bytes(COMPRESSORS[suffix](data))
        assert read(corpus(tmp_path / (name + suffix)))[0] == ["one", "two"], name


def test_concatenated_gz_members_and_zst_frames_are_one_file(tmp_path: Path) -> None:
    for suffix, compress in COMPRESSORS.items():
        (tmp_path / f"a.txt{suffix}").write_bytes(compress(b"one\n") + compress(b"two\n"))
        assert read(corpus(tmp_path / f"a.txt{suffix}"))[0] == ["one", "two"]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_truncated_and_corrupted_compressed_files_are_refused_by_name(tmp_path: Path, suffix: str) -> None:
    data = COMPRESSORS[suffix](os.urandom(5000).hex().encode())
    path = tmp_path / f"a.txt{suffix}"
    for damaged in (data[:-500], data[:-3], b"not compressed at all", data[:3000] + b"\xff\xff\xff\xff" + data[3004:]):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError, match=rf"a\.txt\{suffix} is damaged"):
            read(corpus(path))


# Files, folders, globs


def test_a_folder_is_read_in_order_of_name_and_skips_what_holds_no_text(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.jsonl").write_text('{"text": "first"}')
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "part-00000").write_text("third")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    (tmp_path / ".hidden.txt").write_text("never")
    documents, counts = read(corpus(tmp_path))
    assert documents == ["first", "second", "third"]
    assert (counts.files, counts.skipped_files) == (3, 1)


def test_a_glob_takes_what_it_matches(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)
    assert read(corpus(tmp_path / "*.txt"))[0] == ["a.txt", "b.txt"]


def test_a_file_with_an_unknown_suffix_given_outright_is_text(tmp_path: Path) -> None:
    (tmp_path / "notes.xyz").write_text("text")
    assert read(corpus(tmp_path / "notes.xyz"))[0] == ["text"]


def test_nothing_to_open_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"there is no file or folder .*missing"):
        open_corpus(corpus(tmp_path / "missing.txt"), "train")
    with pytest.raises(CorpusError, match="no file matches"):
        open_corpus(corpus(tmp_path / "*.txt"), "train")
    with pytest.raises(CorpusError, match="there is no file in the folder"):
        open_corpus(corpus(tmp_path), "train")
    (tmp_path / "a.png").touch()
    with pytest.raises(CorpusError, match="holds no file of text"):
        open_corpus(corpus(tmp_path), "train")


def test_a_pipe_is_refused_because_it_can_be_read_once_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(CorpusError, match="is not a regular file"):
        open_corpus(corpus(tmp_path / "pipe.txt"), "train")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("nowhere")
    with pytest.raises(CorpusError, match=r"a\.txt is a link that leads nowhere"):
        open_corpus(corpus(tmp_path), "train")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("secret")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(CorpusError, match=r"a\.txt cannot be read: Permission denied"):
        read(corpus(tmp_path / "a.txt"))


@pytest.mark.parametrize("data", ["", "\n\n  \n", "\ufeff"])
def test_an_empty_corpus_is_an_error(tmp_path: Path, data: str) -> None:
    (tmp_path / "a.txt").write_text(data)
    with pytest.raises(CorpusError, match="holds no text"):
        read(corpus(tmp_path / "a.txt"))


def test_an_empty_corpus_says_what_it_held_instead(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": 1}\n{"text": 2}\n')
    with pytest.raises(CorpusError, match="holds no text: rows that are not text skipped: 2"):
        read(corpus(tmp_path / "a.jsonl"))


# Rows of all sorts


def test_rows_that_are_not_text_are_counted_by_kind() -> None:
    documents, counts = from_rows("a", None, 1, b"bytes", ["list"], " ", "b")
    assert documents == ["a", "b"]
    assert (counts.null, counts.wrong_type, counts.blank) == (1, 3, 1)


def test_halves_of_surrogate_pairs_become_replacement_marks() -> None:
    documents, counts = from_rows("a\ud800b")
    assert documents == ["a\ufffdb"]
    assert counts.undecodable == 1


def test_every_iteration_is_a_new_pass_with_its_own_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    documents = open_corpus(corpus(tmp_path / "a.txt"), "train")
    first = [list(batch) for batch in documents]
    assert documents.counts.documents == 2
    assert [list(batch) for batch in documents] == first
    assert documents.counts.documents == 2


def test_counts_grow_while_documents_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 2500)
    documents = open_corpus(corpus(tmp_path / "a.txt"), "train")
    assert [documents.counts.documents for _ in documents] == [1000, 2000, 2500]


# The validation split


def test_each_document_is_on_exactly_one_side_and_copies_are_together(tmp_path: Path) -> None:
    lines = [f"document {number % 700}" for number in range(2000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    train, _ = read(corpus(tmp_path / "a.txt", validation_fraction=0.2))
    validation, counts = read(corpus(tmp_path / "a.txt", validation_fraction=0.2), "validation")
    assert sorted(train + validation) == sorted(lines)
    assert not set(train) & set(validation)
    assert counts.held_out == len(train)
    assert 0.15 < len(set(validation)) / 700 < 0.25


@given(st.permutations([f"document {number}" for number in range(40)]))
@settings(max_examples=20, deadline=None)
def test_a_document_stays_on_its_side_in_any_order_and_company(order: list[str]) -> None:
    held_out = {document for document in order if is_held_out(document.encode(), 0.3)}
    documents = Documents(lambda counts: iter([list(order)]), name="x", held_out=HeldOut(0.3, validation=True))
    assert [document for batch in documents for document in batch] == [d for d in order if d in held_out]


def test_a_larger_fraction_only_adds_to_the_validation_side() -> None:
    documents = [f"document {number}".encode() for number in range(500)]
    small = {document for document in documents if is_held_out(document, 0.05)}
    assert small < {document for document in documents if is_held_out(document, 0.2)}


def test_a_corpus_whose_only_document_is_held_out_cannot_be_trained_on(tmp_path: Path) -> None:
    held_out = next(text for text in map(str, range(1000)) if is_held_out(text.encode(), 0.05))
    (tmp_path / "a.txt").write_text(held_out)
    with pytest.raises(CorpusError, match="leaves nothing to train on"):
        read(corpus(tmp_path / "a.txt", validation_fraction=0.05))


def test_max_documents_limits_what_is_read_of_both_sides_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(f"document {number}" for number in range(1000)))
    limited = corpus(tmp_path / "a.txt", validation_fraction=0.3, max_documents=100)
    assert len(read(limited)[0]) + len(read(limited, "validation")[0]) == 100


# Identity


def test_a_fingerprint_follows_content_not_place_or_name(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / "a.txt").write_text("text")
    (tmp_path / "two" / "other.txt").write_text("text")
    assert fingerprint(corpus(tmp_path / "one")) == fingerprint(corpus(tmp_path / "two" / "other.txt"))
    (tmp_path / "two" / "other.txt").write_text("Text")
    assert fingerprint(corpus(tmp_path / "one")) != fingerprint(corpus(tmp_path / "two"))


@pytest.mark.parametrize(
    "change", [{"column": "other"}, {"max_documents": 5}, {"validation_fraction": 0.2}, {"document": "paragraph"}]
)
def test_a_fingerprint_follows_how_the_text_is_read(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}')
    assert fingerprint(corpus(tmp_path / "a.jsonl")) != fingerprint(corpus(tmp_path / "a.jsonl", **change))


def test_the_same_bytes_under_a_suffix_that_reads_them_otherwise_are_another_corpus(tmp_path: Path) -> None:
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text('{"text": "x"}')
    assert fingerprint(corpus(tmp_path / "a.txt")) != fingerprint(corpus(tmp_path / "a.jsonl"))


def test_files_too_large_to_hash_count_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr("tpudeck.corpus.opening._HASHED_BYTES", 1)
    before = fingerprint(corpus(tmp_path / "a.txt"))
    assert fingerprint(corpus(tmp_path / "a.txt")) == before
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    assert fingerprint(corpus(tmp_path / "a.txt")) != before


# Memory


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from tpudeck.corpus import open_corpus\n"
        "from tpudeck.presets.schema import Corpus\n"
        "for batch in open_corpus(Corpus(source=sys.argv[1]), 'train'): pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak(megabytes: int, name: str) -> int:
        line = "A line of text that says nothing in particular, number {}.\n"
        with (tmp_path / name).open("w") as file:
            for number in range(megabytes * 18_000):
                file.write(line.format(number))
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert peak(64, "large.txt") < 1.2 * peak(4, "small.txt")
