"""Objects in Google Cloud Storage: verified both ways, never overwritten by accident.

Three rules carry everything above this module:

* **Checked.** The CRC32C of a file is computed here and compared with what the bucket says it stores; the client's own
  check ends where a download had to be resumed, because a range has no checksum of its own.
* **Preconditions.** An object is created only where there is none, and replaced or removed only while it is the
  generation that was seen. An answer lost on the way makes the retry fail its precondition; the checksum tells that
  apart from somebody else's object.
* **Deadlines.** A request waits so long and no longer, refusals that pass (429, 5xx, a cut connection) are retried with
  growing pauses until the deadline, and what is left is a :class:`RetryLaterError`.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tpudeck.errors import RetryLaterError, WorkError
from tpudeck.storage.client import REQUEST_TIMEOUT_S, bucket_named, client, object_at, retry, split
from tpudeck.storage.locations import GLOB_CHARACTERS
from tpudeck.storage.refusals import explained, no_bucket
from tpudeck.storage.stored import Stored, as_stored, checksum, checksum_bytes
from tpudeck.storage.streams import ObjectReader, pinned

if TYPE_CHECKING:
    pass

__all__ = [
    "Stored",
    "checksum",
    "checksum_bytes",
    "compose",
    "describe",
    "download",
    "match",
    "open_object",
    "probe",
    "read_bytes",
    "remove",
    "scan",
    "upload",
    "write_bytes",
]

_READ_BYTES = 16 << 20
"""One range of a streamed object."""
_PART_BYTES = 32 << 20
_MOST_PARTS = 32
"""A composition takes 32 components at most (Cloud Storage, "Composite objects")."""
_DOWNLOAD_ATTEMPTS = 3
_PAGE_OBJECTS = 1000
_PROBE_TIMEOUT_S = (3.0, 10.0)


# --- read ------------------------------------------------------------------------------------------------------------


def describe(location: str) -> Stored:
    """What the bucket knows about an object; ``FileNotFoundError`` where there is none."""
    with explained(location):
        blob = object_at(location)
        blob.reload(timeout=REQUEST_TIMEOUT_S, retry=retry())
        return as_stored(blob)


def probe(prefix: str) -> None:
    """Ask once, without patience, whether one may look here; raises what is refused, and :class:`RetryLaterError`."""
    bucket, name = split(prefix)
    try:
        with explained(prefix):
            next(iter(client().list_blobs(
                bucket_named(bucket), prefix=name, max_results=1, timeout=_PROBE_TIMEOUT_S, retry=None
            )), None)  # fmt: skip
    except FileNotFoundError:
        raise no_bucket(prefix) from None


def scan(prefix: str) -> Iterator[Stored]:
    """Every object whose location begins with a text, by name, page by page."""
    bucket, name = split(prefix)
    yield from _list(bucket, name)


def match(location: str) -> Iterator[Stored]:
    """The objects a location names: itself, all below it as a folder, or all that match a glob; hidden ones never."""
    bucket, name = split(location)
    if GLOB_CHARACTERS & set(name):
        prefix = re.split(r"[*?[]", name, maxsplit=1)[0]
        pattern = _glob_pattern(name)
    else:
        prefix = name.rstrip("/") + "/" if name else ""
        pattern = re.compile(re.escape(prefix) + ".*", re.DOTALL)
        if name and not name.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                yield describe(location)
    for stored in _list(bucket, prefix):
        found = split(stored.location)[1]
        hidden = any(part.startswith(".") for part in found[len(prefix) :].split("/"))
        if not hidden and not found.endswith("/") and pattern.fullmatch(found):
            yield stored


_GLOBS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a local path would read it; servers differ in what ``*`` matches."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", glob)
    literal, special = (
        map(re.escape, parts[::2]),
        (_GLOBS.get(part) or part.replace("[!", "[^") for part in parts[1::2]),
    )
    return re.compile("".join(part for pair in zip_longest(literal, special, fillvalue="") for part in pair), re.DOTALL)


def open_object(location: str) -> IO[bytes]:
    """An object as a stream; see :func:`tpudeck.storage.open_binary`."""
    return io.BufferedReader(ObjectReader(describe(location)), _READ_BYTES)


def read_bytes(location: str) -> bytes:
    """A small object as a whole, checked."""
    with open_object(location) as file:
        return file.read()


def download(stored: Stored, path: Path) -> None:
    """Bring one generation of an object to a local path: whole and checked, or not at all.

    An interrupted download leaves ``.NAME.GENERATION.part`` beside it, and the next one goes on from there. One that
    arrives damaged is fetched anew.
    """
    part = path.with_name(f".{path.name}.{stored.generation}.part")
    for _ in range(_DOWNLOAD_ATTEMPTS):
        with part.open("ab") as file, pinned(stored.location):
            if file.tell() < stored.size_bytes:
                object_at(stored.location, stored.generation).download_to_file(
                    file, start=file.tell(), raw_download=True, checksum=None,
                    timeout=REQUEST_TIMEOUT_S, retry=retry(),
                )  # fmt: skip
        if part.stat().st_size == stored.size_bytes and checksum(part) == stored.crc32c:
            part.replace(path)
            return
        part.unlink()
    raise WorkError(f"{stored.location} arrived damaged {_DOWNLOAD_ATTEMPTS} times: its checksum is wrong")


def _list(bucket: str, prefix: str) -> Iterator[Stored]:
    location = f"gs://{bucket}/{prefix}"
    try:
        with explained(location):
            blobs = client().list_blobs(
                bucket_named(bucket), prefix=prefix, fields="items(name,size,crc32c,generation),nextPageToken",
                page_size=_PAGE_OBJECTS, timeout=REQUEST_TIMEOUT_S, retry=retry(),
            )  # fmt: skip
            yield from map(as_stored, blobs)
    except FileNotFoundError:
        raise no_bucket(location) from None


# --- write -----------------------------------------------------------------------------------------------------------


def write_bytes(location: str, data: bytes, *, replaces: int = 0) -> Stored:
    """Write a small object: a new one, or in place of the generation ``replaces``."""
    return _put(location, io.BytesIO(data), len(data), checksum_bytes(data), replaces)


def upload(path: Path, location: str, *, crc32c: str | None = None, replaces: int = 0) -> Stored:
    """Upload a local file as a new object, or in place of the generation ``replaces``; the object is then checked.

    A large file goes up in parts that are composed at the end. Parts that an interrupted upload left are used again.
    Raises :class:`RetryLaterError` where the object is no longer (or not yet) the generation to replace.
    """
    size = path.stat().st_size
    crc32c = crc32c or checksum(path)
    if size > 2 * _PART_BYTES:
        return _upload_in_parts(path, location, size, crc32c, replaces)
    with path.open("rb") as file:
        return _put(location, file, size, crc32c, replaces)


def remove(stored: Stored) -> None:
    """Delete the generation that was seen; one that is gone already is no error."""
    with contextlib.suppress(FileNotFoundError), explained(stored.location):
        object_at(stored.location).delete(
            if_generation_match=stored.generation, timeout=REQUEST_TIMEOUT_S, retry=retry()
        )  # fmt: skip


def _put(location: str, file: IO[bytes] | _Part, size: int, crc32c: str, replaces: int) -> Stored:
    blob = object_at(location)
    blob.crc32c = crc32c  # the service refuses content that doesn't match
    try:
        with explained(location):
            blob.upload_from_file(
                file, size=size, if_generation_match=replaces, checksum=None,
                content_type="application/octet-stream", timeout=REQUEST_TIMEOUT_S, retry=retry(),
            )  # fmt: skip
            written = as_stored(blob)
    except (RetryLaterError, FileNotFoundError) as error:
        written = _already_there(location, crc32c, size, error)
    return _checked(written, crc32c, size)


def _already_there(location: str, crc32c: str, size: int, error: Exception) -> Stored:
    """The object that an upload put there although its answer was lost; else the error."""
    try:
        found = describe(location)
    except FileNotFoundError:
        raise (no_bucket(location) if isinstance(error, FileNotFoundError) else error) from None
    if (found.crc32c, found.size_bytes) != (crc32c, size):
        raise error
    return found


def _checked(written: Stored, crc32c: str, size: int) -> Stored:
    if (written.crc32c, written.size_bytes) == (crc32c, size):
        return written
    remove(written)
    raise WorkError(f"{written.location} was stored damaged and is removed again: its checksum is wrong")


def _upload_in_parts(path: Path, location: str, size: int, crc32c: str, replaces: int) -> Stored:
    parent, _, name = location.rpartition("/")
    key = base64.b64decode(crc32c).hex()
    prefix = f"{parent}/.parts/{name}-{key}-{size}/"
    part_bytes = max(_PART_BYTES, -(-size // _MOST_PARTS))
    there = {stored.location: stored for stored in scan(prefix)}
    parts: list[Stored] = []
    for index, start in enumerate(range(0, size, part_bytes)):
        length = min(part_bytes, size - start)
        part, part_crc32c = f"{prefix}{index:02d}", checksum(path, start, length)
        found = there.get(part)
        if found is None or found.crc32c != part_crc32c:
            with path.open("rb") as file:
                found = _put(part, _Part(file, start), length, part_crc32c, found.generation if found else 0)
        parts.append(found)
    written = compose(parts, location, crc32c=crc32c, replaces=replaces)
    for stored in parts:
        remove(stored)
    return written


class _Part(io.RawIOBase):
    """A file from some byte on, as a stream that begins at zero: the client uploads nothing else."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self._file = file
        self._start = start
        file.seek(start)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(self._start + offset) - self._start

    def tell(self) -> int:
        return self._file.tell() - self._start


def compose(parts: list[Stored], location: str, *, crc32c: str, replaces: int = 0) -> Stored:
    """Join up to 32 objects into another; the result is checked."""
    blob, size = object_at(location), sum(part.size_bytes for part in parts)
    blob.content_type = "application/octet-stream"
    try:
        with explained(location):
            blob.compose(
                [object_at(part.location, part.generation) for part in parts],
                if_generation_match=replaces, timeout=REQUEST_TIMEOUT_S, retry=retry(),
            )  # fmt: skip
            written = as_stored(blob)
    except (RetryLaterError, FileNotFoundError) as error:
        written = _already_there(location, crc32c, size, error)
    return _checked(written, crc32c, size)
