"""An object as a stream: read in ranges of one generation, and checked where it is read from start to end."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import google_crc32c

from tpudeck.errors import RetryLaterError, WorkError
from tpudeck.storage.client import REQUEST_TIMEOUT_S, object_at, retry
from tpudeck.storage.refusals import explained
from tpudeck.storage.stored import Stored, encode_crc32c

__all__ = ["ObjectReader", "pinned"]


class ObjectReader(io.RawIOBase):
    """One generation of an object, read in ranges; checked where it was read from start to end."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._position = 0
        self._crc = 0
        self._checked = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._stored.size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        start, end = self._position, min(self._position + len(buffer), self._stored.size_bytes)
        if start >= end:
            return 0
        with pinned(self._stored.location):
            data = object_at(self._stored.location, self._stored.generation).download_as_bytes(
                start=start, end=end - 1, raw_download=True, checksum=None,
                timeout=REQUEST_TIMEOUT_S, retry=retry(),
            )  # fmt: skip
        if len(data) != end - start:
            raise WorkError(f"{self._stored.location}: asked for {end - start} bytes, got {len(data)}")
        buffer[: len(data)] = data
        self._position = end
        self._check(start, data)
        return len(data)

    def _check(self, start: int, data: bytes) -> None:
        if start != self._checked:
            return
        self._crc = google_crc32c.extend(self._crc, data)
        self._checked += len(data)
        if self._checked == self._stored.size_bytes and encode_crc32c(self._crc) != self._stored.crc32c:
            raise WorkError(f"{self._stored.location} arrived damaged: its checksum is wrong")


@contextlib.contextmanager
def pinned(location: str) -> Iterator[None]:
    """Say so where the generation that is being read is there no more."""
    try:
        with explained(location):
            yield
    except FileNotFoundError:
        raise RetryLaterError(f"{location} was replaced or deleted while it was read") from None
