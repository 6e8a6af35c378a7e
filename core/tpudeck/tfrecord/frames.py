"""Frames: how records stand in a TFRecord file.

A file is a row of frames and nothing else::

    uint64  length of the record, little-endian
    uint32  masked CRC-32C of those eight bytes
    bytes   the record
    uint32  masked CRC-32C of the record

Reading distrusts everything. A length is believed only when its checksum agrees *and* so many bytes are left in the
file, so a damaged or foreign file never makes us allocate what it asks for. What is wrong is said with file and offset,
and the kinds are told apart: foreign, compressed, truncated, corrupted.

Source: ``record_writer.h`` of TensorFlow, for the framing and the mask.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from tpudeck import storage
from tpudeck.errors import ArtefactError

__all__ = [
    "FOOTER_BYTES",
    "HEADER_BYTES",
    "Record",
    "frame",
    "masked_crc32c",
    "masked_crc32cs",
    "read_records",
    "scan_records",
]

HEADER_BYTES = 12
FOOTER_BYTES = 4
_BLOCK_BYTES = 1 << 20

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = struct.Struct("<QI")

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x78\x01": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
}


def masked_crc32c(data: bytes | npt.NDArray[np.uint8]) -> int:
    """CRC-32C, rotated and shifted so that a checksum of data that holds checksums stays a good one."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def masked_crc32cs(records: Iterable[bytes | npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint32]:
    """The checksums of many records."""
    crcs = np.fromiter(map(google_crc32c.value, records), dtype=np.uint32)
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(0xA282EAD8)


def frame(record: bytes) -> bytes:
    """A record as it stands in a file."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CHECKSUM.pack(masked_crc32c(length)), record, _CHECKSUM.pack(masked_crc32c(record))))


class Record(NamedTuple):
    """A record and where its frame begins in the file."""

    offset: int
    data: bytes


def read_records(location: str | Path) -> Iterator[Record]:
    """The records of a file in order, every checksum verified; raises :class:`ArtefactError` at the first fault."""
    with _open(location) as file:
        size = file.seek(0, 2)
        file.seek(0)
        block, offset, start = b"", 0, 0  # `start` is where the next frame begins in `block`, `offset` in the file
        while offset < size:
            if len(block) - start < HEADER_BYTES:
                block, start = block[start:] + file.read(_BLOCK_BYTES), 0
            end = start + HEADER_BYTES
            length = _checked_length(block[start:end], location, offset, size)
            missing = end + length + FOOTER_BYTES - len(block)
            if missing > 0:
                block, start = block[start:] + file.read(max(missing, _BLOCK_BYTES)), 0
                end = HEADER_BYTES
            data = block[end : end + length]
            footer = block[end + length : end + length + FOOTER_BYTES]
            if len(footer) < FOOTER_BYTES:
                raise _truncated(location, offset, f"the file became shorter while it was read ({size} bytes before)")
            if _CHECKSUM.unpack(footer)[0] != masked_crc32c(data):
                raise _corrupted(location, offset, "the checksum of the record does not match its bytes")
            yield Record(offset, data)
            start = end + length + FOOTER_BYTES
            offset += HEADER_BYTES + length + FOOTER_BYTES


def scan_records(location: str | Path) -> npt.NDArray[np.int64]:
    """Where each record begins and how long it is, as rows (offset of its bytes, length): the headers are read and
    verified, the records are skipped. Few lengths are all that most files have, so equal headers are verified once."""
    found: list[int] = []
    known: dict[bytes, int] = {}
    with _open(location) as file:
        size = file.seek(0, 2)
        offset = 0
        while offset < size:
            file.seek(offset)
            block, start = file.read(_BLOCK_BYTES), 0
            last = max(0, len(block) - HEADER_BYTES)
            while start <= last:
                header = block[start : start + HEADER_BYTES]
                try:
                    frame_bytes = known[header]
                except KeyError:
                    length = _checked_length(header, location, offset + start, size)
                    frame_bytes = known[header] = HEADER_BYTES + length + FOOTER_BYTES
                found.append(frame_bytes)
                start += frame_bytes
            offset += start
        if offset > size:
            _checked_length(header, location, offset - frame_bytes, size)
    frame_sizes = np.array(found, dtype=np.int64)
    starts = np.cumsum(frame_sizes) - frame_sizes
    return np.stack([starts + HEADER_BYTES, frame_sizes - (HEADER_BYTES + FOOTER_BYTES)], axis=1)


def _open(location: str | Path) -> IO[bytes]:
    try:
        return storage.open_binary(location)
    except OSError as error:
        raise ArtefactError(f"{location} cannot be read: {error.strerror or error}") from error


def _checked_length(header: bytes, location: str | Path, offset: int, size: int) -> int:
    """The length in a frame's header, once it is believed."""
    if len(header) == HEADER_BYTES:
        length, checksum = _HEADER.unpack(header)
        if checksum == masked_crc32c(header[:8]):
            left = size - offset - HEADER_BYTES - FOOTER_BYTES
            if length > left:
                raise _truncated(location, offset, f"a record of {length} bytes begins, and {max(left, 0)} are left")
            return int(length)
    if offset == 0:
        raise _foreign(location, header)
    if len(header) < HEADER_BYTES:
        raise _truncated(location, offset, f"a record begins, and only {len(header)} bytes are left")
    raise _corrupted(location, offset, "the checksum of the record's length does not match")


def _foreign(location: str | Path, head: bytes) -> ArtefactError:
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return ArtefactError(
                f"{location} is compressed ({name}): tpudeck reads TFRecord files as they are",
                hint="decompress it first",
            )
    return ArtefactError(
        f"{location} is not a TFRecord file: it does not begin with a record (offset 0, bytes {head[:8].hex(' ')})",
        hint="take it out of the folder, or restore it if it should be one",
    )


def _truncated(location: str | Path, offset: int, what: str) -> ArtefactError:
    return ArtefactError(f"{location} is truncated: at offset {offset} {what}", hint="copy or build the file again")


def _corrupted(location: str | Path, offset: int, what: str) -> ArtefactError:
    return ArtefactError(f"{location} is corrupted at offset {offset}: {what}", hint="copy or build the file again")
