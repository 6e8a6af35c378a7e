"""What a bucket says about an object, and the checksum by which it is known."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from google.cloud import storage as gcs

__all__ = ["Stored", "as_stored", "checksum", "checksum_bytes", "encode_crc32c"]

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Stored:
    """An object as the bucket describes it."""

    location: str
    size_bytes: int
    crc32c: str
    """As the service writes it: big-endian, base64."""
    generation: int


def checksum(path: Path, start: int = 0, size: int | None = None) -> str:
    """CRC32C of a local file, or of a part of it, as the service writes it."""
    crc = 0
    with path.open("rb") as file:
        file.seek(start)
        left = path.stat().st_size - start if size is None else size
        while left and (block := file.read(min(_BLOCK_BYTES, left))):
            crc = google_crc32c.extend(crc, block)
            left -= len(block)
    return encode_crc32c(crc)


def checksum_bytes(data: bytes) -> str:
    """CRC32C of bytes, as the service writes it."""
    return encode_crc32c(google_crc32c.value(data))


def encode_crc32c(crc: int) -> str:
    """As the service writes it."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


def as_stored(blob: gcs.Blob) -> Stored:
    """An object that the client has asked about."""
    location = f"gs://{blob.bucket.name}/{blob.name}"
    return Stored(location, int(blob.size), str(blob.crc32c), int(blob.generation))
