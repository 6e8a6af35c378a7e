"""Keeping ``console.log`` from filling the disk, while stages write to it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["rotate"]

MOST_BYTES = 16 << 20


def rotate(path: Path, *, most_bytes: int = MOST_BYTES) -> bool:
    """Where the log has grown too large, copy it to ``console.log.1`` and empty it; whether that was done.

    It cannot be renamed: the stage would go on writing into the renamed file. It writes in append mode, so after the
    cut it goes on at the beginning.
    """
    try:
        if path.stat().st_size <= most_bytes:
            return False
        shutil.copyfile(path, path.with_name(path.name + ".1"))
    except OSError:  # no room for the copy: the newest output is worth more than the old
        path.with_name(path.name + ".1").unlink(missing_ok=True)
        if not path.exists():
            return False
    os.truncate(path, 0)
    return True
