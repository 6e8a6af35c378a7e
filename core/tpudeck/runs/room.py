"""Room for arrays that grow as long as a run does: in memory while small, beyond that in a file without a name.

Somebody watches a run for days. What is kept of it must not pile up in memory that only this process can give back, so
large arrays lie in a mapped temporary file: the kernel writes its pages out, and :meth:`Room.rest` takes them out of
this process until somebody looks at them again. The file has no name and ends with the last array that lies in it.
Where no file can be had, it is memory after all.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Room"]

_FILE_FROM_BYTES = 4 << 20
_FOLDER = Path("/var/tmp")  # on disk even where /tmp is memory


class Room:
    """So many 8-byte words, as integers and as floats."""

    def __init__(self, words: int) -> None:
        self._map = _mapped(words * 8) if words * 8 >= _FILE_FROM_BYTES else None
        self.words: npt.NDArray[np.int64] = (
            np.empty(words, np.int64) if self._map is None else np.frombuffer(self._map, np.int64)
        )
        self.floats: npt.NDArray[np.float64] = self.words.view(np.float64)

    def rest(self) -> None:
        """Nobody looks at it for now."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


def _mapped(size: int) -> mmap.mmap | None:
    """A file of that size, mapped. All of it is allocated now: a full disk is an error here, not a crash later."""
    if not hasattr(os, "posix_fallocate"):
        return None
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=_FOLDER if _FOLDER.is_dir() else None) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)
    return None
