"""Files, local or in a bucket, behind a few functions.

A location is a string: ``gs://bucket/name`` or a local path. ``gs`` anywhere else in a path means nothing. The cloud
client is imported when the first bucket is touched, never before.

Whatever other processes read is written by :func:`write_atomic`: aside, flushed to the disk, then renamed, so that a
reader sees the old file or the new one and a kill leaves no half.
"""

from __future__ import annotations

import glob as _glob
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson

from tpudeck.errors import InputError

if TYPE_CHECKING:
    from google.cloud import storage as gcs

__all__ = [
    "exists",
    "hash_file",
    "is_bucket",
    "list_files",
    "open_binary",
    "read_json",
    "size_bytes",
    "write_atomic",
    "write_json",
]

_GLOB_CHARACTERS = frozenset("*?[")


def is_bucket(location: str | Path) -> bool:
    """Whether a location is in object storage: it begins with ``gs://``, nothing less."""
    return str(location).startswith("gs://")


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a local file so that it is there whole, or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(3)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """Write a local JSON file atomically, indented, keys in the order given."""
    write_atomic(path, orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def read_json(path: Path) -> Any:
    """A local JSON file as plain data; raises ``FileNotFoundError`` and ``orjson.JSONDecodeError`` as they are."""
    return orjson.loads(path.read_bytes())


def hash_file(path: Path) -> str:
    """SHA-256 of a local file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def open_binary(location: str | Path) -> IO[bytes]:
    """Open for reading, streaming, wherever it is."""
    if is_bucket(location):
        stream: IO[bytes] = _blob(str(location)).open("rb")
        return stream
    return Path(location).open("rb")


def exists(location: str | Path) -> bool:
    """Whether there is a file (or, locally, a folder) at this location."""
    if is_bucket(location):
        return bool(_blob(str(location)).exists())
    return Path(location).exists()


def size_bytes(location: str | Path) -> int:
    """Size of a file in bytes; ``FileNotFoundError`` where there is none."""
    if is_bucket(location):
        blob = _blob(str(location))
        blob.reload()
        return int(blob.size)
    return Path(location).stat().st_size


def list_files(location: str | Path) -> Iterator[str]:
    """The files a location names, sorted by name: itself, all below a folder, or all that match a glob.

    Hidden files and folders (a leading dot) are left out, as a shell does.
    """
    text = str(location)
    if is_bucket(text):
        yield from _list_bucket(text)
        return
    path = Path(text).expanduser()
    if path.is_dir():
        found = (Path(root) / name for root, _, names in _walk_visible(path) for name in names)
        yield from sorted(map(str, found))
    elif path.exists():
        yield str(path)
    elif _GLOB_CHARACTERS & set(text):
        matches = _glob.iglob(str(path), recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
        yield from sorted(name for name in matches if Path(name).is_file())


def _walk_visible(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield root, folders, [name for name in names if not name.startswith(".")]


def _split_bucket(location: str) -> tuple[str, str]:
    bucket, _, name = location.removeprefix("gs://").partition("/")
    if not bucket:
        raise InputError(f"a bucket location is gs://BUCKET/NAME, got {location!r}")
    return bucket, name


def _client() -> gcs.Client:
    from google.auth.exceptions import DefaultCredentialsError
    from google.cloud import storage as gcs

    try:
        return gcs.Client()
    except DefaultCredentialsError as error:
        raise InputError(
            "no credentials for object storage were found",
            hint="log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
        ) from error


def _blob(location: str) -> gcs.Blob:
    bucket, name = _split_bucket(location)
    return _client().bucket(bucket).blob(name)


def _list_bucket(location: str) -> Iterator[str]:
    bucket, name = _split_bucket(location)
    first = min((name.index(character) for character in _GLOB_CHARACTERS & set(name)), default=None)
    prefix = name if first is None else name[:first]
    for blob in _client().list_blobs(bucket, prefix=prefix, match_glob=None if first is None else name):
        inside = first is not None or blob.name == name or blob.name.startswith(name.rstrip("/") + "/") or not name
        if inside and not blob.name.endswith("/"):
            yield f"gs://{bucket}/{blob.name}"
