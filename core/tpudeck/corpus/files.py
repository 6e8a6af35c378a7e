"""Rows from files: text, JSON lines, CSV and Parquet, plain or compressed, local or in a bucket.

The suffix says what a file is: ``.txt`` (and anything unknown) is text, then ``.jsonl``, ``.csv``, ``.tsv``,
``.parquet``; ``.gz`` and ``.zst`` may follow. Everything streams. Files of text are UTF-8 (or say otherwise with a
byte-order mark); bytes that are not are replaced by U+FFFD; a file with a NUL byte at its beginning is not text.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast

import orjson

from tpudeck import storage
from tpudeck.corpus.documents import CorpusCounts
from tpudeck.errors import CorpusError

__all__ = ["Unit", "check_column", "find_files", "kind_of", "rows"]

Unit = Literal["line", "paragraph"]
"""What one document is in a file of text."""

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 64 << 20
"""A longer line is cut (text), or is no row (JSON, CSV): a row has to fit in memory."""

_KINDS = {
    **dict.fromkeys((".txt", ".text", ".md", ".rst", ".raw", ".tokens", ""), "text"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_COMPRESSED = {".gz", ".zst"}

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte-order marks; UTF-32 before UTF-16, whose mark it begins with."""


def kind_of(name: str) -> str | None:
    """``text``, ``jsonl``, ``csv`` or ``parquet`` by suffix; none where the suffix is unknown."""
    return _KINDS.get(_suffixes(name)[0])


def _suffixes(name: str) -> tuple[str, str]:
    """The suffix that says what a file is, and the one that says how it is compressed (or nothing)."""
    path = PurePosixPath(name)
    compression = path.suffix.lower()
    if compression not in _COMPRESSED:
        return compression, ""
    return PurePosixPath(path.stem).suffix.lower(), compression


def find_files(source: str) -> tuple[list[str], int]:
    """The files that a source names, and how many were skipped.

    In a folder, files with an unknown suffix are skipped; a file or glob given outright is text where its suffix says
    nothing else.
    """
    found = list(storage.list_files(source))
    if not found:
        raise _nothing_there(source)
    outright = found == [source] or _is_glob(source) or not _is_folder(source)
    files = found if outright else [name for name in found if kind_of(name)]
    if not files:
        raise CorpusError(f"the folder {source} holds no file of text, JSON lines, CSV or Parquet")
    for name in files:
        if not storage.is_bucket(name) and not Path(name).is_file():
            what = "is not a regular file, and a corpus is read more than once"
            raise CorpusError(f"{name} {what if Path(name).exists() else 'is a link that leads nowhere'}")
    return files, len(found) - len(files)


def _is_glob(source: str) -> bool:
    return bool(set("*?[") & set(source)) and not storage.exists(source)


def _is_folder(source: str) -> bool:
    return storage.is_bucket(source) or Path(source).expanduser().is_dir()


def _nothing_there(source: str) -> CorpusError:
    if _is_glob(source):
        what = f"no file matches {source}"
    elif not storage.is_bucket(source) and _is_folder(source):
        what = f"there is no file in the folder {source}"
    else:
        what = f"there is no file or folder {source}"
    return CorpusError(what, hint="a corpus is a file, folder or glob, gs://…, hub:ORG/NAME or builtin")


def rows(name: str, *, column: str, unit: Unit, counts: CorpusCounts) -> Iterator[list[Any]]:
    """The rows of one file, in batches; a :class:`CorpusError` names the file and what is wrong with it."""
    kind = kind_of(name) or "text"
    try:
        with _opened(name, seekable=kind == "parquet") as file:
            if kind == "parquet":
                yield from _parquet(file, name, column)
                return
            lines = _lines(file, name)
            if kind == "text":
                yield from _paragraphs(lines) if unit == "paragraph" else _decoded(lines)
            elif kind == "jsonl":
                yield from _jsonl(lines, name, column, counts)
            else:
                yield from _csv(lines, name, column, counts)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{name} is damaged: {error}", hint="compress it again, or fetch it again") from error
    except OSError as error:
        raise CorpusError(f"{name} cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(name: str, *, seekable: bool) -> Iterator[IO[bytes]]:
    """A file's content, decompressed; on a disk first where it must be seekable and is not."""
    compression = _suffixes(name)[1]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(storage.open_binary(name))
        if compression == ".gz":
            file = stack.enter_context(cast("IO[bytes]", gzip.GzipFile(fileobj=file)))
        elif compression == ".zst":
            file = stack.enter_context(io.BufferedReader(_ZstandardFile(file), _BLOCK_BYTES))
        if compression and seekable:
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy, _BLOCK_BYTES)
            copy.seek(0)
            file = copy
        yield file


class _ZstandardFile(io.RawIOBase):
    """The content of a ``.zst`` file, frame after frame; the library's own reader takes one that was cut for whole."""

    _READ_BYTES = 1 << 16

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._frame: Any = None
        self._compressed = b""
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            self._compressed = self._compressed or self._file.read(self._READ_BYTES)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("it ends in the middle")
                return 0
            self._decompress()
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def _decompress(self) -> None:
        import zstandard

        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            self._content = memoryview(self._frame.decompress(self._compressed))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
        self._compressed = self._frame.unused_data
        if self._frame.eof:
            self._frame = None


def _blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    """A file of text as UTF-8, block by block, without its byte-order mark."""
    first = file.read(_BLOCK_BYTES)
    mark, encoding = next(((mark, encoding) for mark, encoding in _MARKS if first.startswith(mark)), (b"", "utf-8"))
    first = first[len(mark) :]
    rest = iter(lambda: file.read(_BLOCK_BYTES), b"")
    blocks = itertools.chain([first], rest)
    if encoding != "utf-8":
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        yield from (decoder.decode(block).encode() for block in blocks)
        return
    if (at := first.find(b"\0", 0, 1 << 16)) >= 0:
        raise CorpusError(
            f"{name} is not text: there is a zero byte at {at}",
            hint="give text, JSON lines, CSV or Parquet with the right suffix; UTF-16 needs a byte-order mark",
        )
    yield from blocks


def _lines(file: IO[bytes], name: str) -> Iterator[list[bytes]]:
    """The lines of a file without their ends, in batches; a line longer than the limit comes in pieces."""
    rest: list[bytes] = []
    waiting = 0
    for block in _blocks(file, name):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, head]).split(b"\n")
            rest, waiting = [], 0
        rest.append(tail)
        waiting += len(tail)
        if waiting > _LONGEST_LINE_BYTES:
            piece, space, tail = b"".join(rest).rpartition(b" ")
            yield [piece if space else tail]
            rest = [tail] if space else []
            waiting = sum(map(len, rest))
    if waiting:
        yield [b"".join(rest)]


def _decoded(lines: Iterator[list[bytes]]) -> Iterator[list[str]]:
    for batch in lines:
        yield [line.decode(errors="replace") for line in batch]


def _paragraphs(lines: Iterator[list[bytes]]) -> Iterator[list[str]]:
    """Lines up to a blank one, joined by spaces."""
    paragraph: list[str] = []
    length = 0
    for batch in _decoded(lines):
        done: list[str] = []
        for line in batch:
            stripped = line.strip()
            if stripped:
                paragraph.append(stripped)
                length += len(stripped)
            if paragraph and (not stripped or length > _LONGEST_LINE_BYTES):
                done.append(" ".join(paragraph))
                paragraph, length = [], 0
        yield done
    yield [" ".join(paragraph)] if paragraph else []


def _jsonl(lines: Iterator[list[bytes]], name: str, column: str, counts: CorpusCounts) -> Iterator[list[Any]]:
    checked = False
    for batch in lines:
        objects = []
        for line in batch:
            if not line or line.isspace():
                counts.blank += 1
                continue
            value = _json_object(line)
            if value is None:
                counts.malformed += 1
            else:
                objects.append(value)
        if not checked and (objects or counts.malformed):
            if not objects:
                raise _not_json_lines(name, batch)
            check_column(column, {key for value in objects[:1000] for key in value}, name)
            checked = True
        yield [value.get(column) for value in objects]


def _not_json_lines(name: str, batch: list[bytes]) -> CorpusError:
    begins = next(line for line in batch if line.strip())[:60].decode(errors="replace")
    return CorpusError(
        f"{name} does not hold one JSON object per line; it begins {begins!r}",
        hint="jq -c '.[]' turns a JSON array into JSON lines",
    )


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        # What other writers let through: NaN, halves of surrogate pairs, bytes that are not UTF-8.
        try:
            value = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _csv(lines: Iterator[list[bytes]], name: str, column: str, counts: CorpusCounts) -> Iterator[list[Any]]:
    decoded = (line.decode(errors="replace").rstrip("\r") + "\n" for batch in lines for line in batch)
    text = itertools.chain(decoded, [_END_OF_CSV])
    delimiter = "\t" if _suffixes(name)[0] == ".tsv" else ","
    csv.field_size_limit(_LONGEST_LINE_BYTES)
    reader = csv.reader(text, delimiter=delimiter)
    header = next(_csv_rows(reader, counts), [])
    check_column(column, header, name)
    index = header.index(column)
    rows = _csv_rows(reader, counts)
    while batch := list(itertools.islice(rows, 1000)):
        yield [row[index] if index < len(row) else None for row in batch]


_END_OF_CSV = "\ue000end of file\ue000"
"""A row of its own behind the last, unless a field without end swallows it: Python's reader keeps such a field."""


def _csv_rows(reader: Iterator[list[str]], counts: CorpusCounts) -> Iterator[list[str]]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            counts.malformed += 1
            continue
        if row and row[-1].endswith(_END_OF_CSV):
            counts.malformed += row != [_END_OF_CSV]
            return
        if row:
            yield row
        else:
            counts.blank += 1


def _parquet(file: IO[bytes], name: str, column: str) -> Iterator[list[Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(file, pre_buffer=False)
        check_column(column, table.schema_arrow.names, name)
        kind = table.schema_arrow.field(column).type
        if not _holds_text(kind):
            raise CorpusError(f"column {column} of {name} holds {kind}, not text")
        for batch in table.iter_batches(batch_size=1000, columns=[column]):
            yield batch.column(0).to_pylist()
    except pyarrow.ArrowException as error:
        raise CorpusError(f"{name} is not a Parquet file, or damaged: {error}") from error


def _holds_text(kind: Any) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)
    )


def check_column(column: str, known: Iterable[str], name: str) -> None:
    """Raise a :class:`CorpusError` that names the columns there are, where the one that is wanted is not among them."""
    names = sorted(known)
    if column not in names:
        there = ", ".join(names[:20]) or "no column at all"
        raise CorpusError(
            f"{name} has no column {column!r}; it has {there}", hint="choose one with --column or corpus.column"
        )
