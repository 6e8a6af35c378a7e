"""Lines that TensorFlow prints on every machine without a GPU and that mean nothing.

They come from C++, straight to the file descriptor, as errors; turning errors off would hide the real ones. So what is
written while devices are looked for is held back, and passed on without them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from typing import TypeVar

__all__ = ["quieted"]

_NOISE = (b"failed call to cuInit", b"All log messages before absl::InitializeLog() is called")
_STDERR = 2

T = TypeVar("T")


def quieted(look: Callable[[], T]) -> T:
    """Call a function; of what it writes to standard error, pass on all but the noise."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), _STDERR)
        try:
            return look()
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not any(part in line for part in _NOISE):
                    os.write(_STDERR, line)
