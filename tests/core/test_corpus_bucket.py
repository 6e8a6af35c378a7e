"""A corpus in a bucket: a real object-store server, the real client."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

import pyarrow
import pytest
from pyarrow import parquet

from tpudeck.corpus import fingerprint, open_corpus
from tpudeck.errors import CorpusError
from tpudeck.presets.schema import Corpus
from tpudeck.storage import bucket

if TYPE_CHECKING:
    from gcsfaults import ObjectStore


def corpus(source: str) -> Corpus:
    return Corpus(source=source, validation_fraction=1e-9)


def read(source: str) -> list[str]:
    return [document for batch in open_corpus(corpus(source), "train") for document in batch]


def test_every_kind_of_file_is_read_from_a_bucket(object_store: ObjectStore) -> None:
    table = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": ["four"]}), table)
    objects = {
        "a.txt": b"one\n",
        "b.jsonl.gz": gzip.compress(b'{"text": "two"}\n'),
        "c.csv": b"text\nthree\n",
        "d.parquet": table.getvalue(),
        "picture.png": b"\x89PNG\0",
    }
    for name, data in objects.items():
        bucket.write_bytes(f"gs://bucket/corpus/{name}", data)
    assert read("gs://bucket/corpus") == ["one", "two", "three", "four"]
    assert read("gs://bucket/corpus/*.csv") == ["three"]
    assert read("gs://bucket/corpus/a.txt") == ["one"]


def test_a_fingerprint_follows_the_generation_of_an_object(object_store: ObjectStore) -> None:
    first = bucket.write_bytes("gs://bucket/corpus/a.txt", b"one\n")
    before = fingerprint(corpus("gs://bucket/corpus"))
    assert fingerprint(corpus("gs://bucket/corpus")) == before
    bucket.write_bytes("gs://bucket/corpus/a.txt", b"two\n", replaces=first.generation)
    assert fingerprint(corpus("gs://bucket/corpus")) != before


def test_an_empty_place_in_a_bucket_is_an_error(object_store: ObjectStore) -> None:
    with pytest.raises(CorpusError, match="there is no file or folder gs://bucket/nothing"):
        read("gs://bucket/nothing")
