"""Local files that are there whole, or not at all.

Whatever other processes read is written by :func:`write_atomic`: aside, flushed to the disk, then renamed, so that a
reader sees the old file or the new one and a kill leaves no half.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

__all__ = ["hash_file", "read_json", "write_atomic", "write_json"]


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a local file so that it is there whole, or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(3).hex()}")
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
    import hashlib  # 3 ms, which a list of runs need not pay

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
