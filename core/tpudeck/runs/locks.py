"""Locks that the kernel frees when their owner dies, however it dies.

A lock is an ``flock`` on a file. Descriptors are close-on-exec: one that a child inherits by accident would keep the
lock after its owner's death. Where a child is *meant* to inherit one (a launcher hands the run's lock to the
supervisor), the descriptor is named in ``pass_fds``.

Probing takes the lock in shared mode for a few microseconds, so probes never disturb each other; an owner-to-be tries a
few times before it believes that somebody else is the owner.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from tpudeck.errors import InputError

__all__ = ["acquire", "held", "machine_folder", "make_shared", "release"]

_MACHINE_FOLDER = Path("/tmp/tpudeck-locks")

_TRIES = 20
_PAUSE_S = 0.005


def acquire(path: Path, *, mode: int = 0o644, tries: int = _TRIES) -> int | None:
    """Take a lock for good: its descriptor, or none where somebody else has it."""
    descriptor = _open(path, mode)
    for attempt in range(tries):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(_PAUSE_S)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor
    os.close(descriptor)
    return None


def _open(path: Path, mode: int) -> int:
    """Open first, create second: in a sticky folder, creating over somebody else's file is refused."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, mode)
        if os.fstat(descriptor).st_mode & 0o777 != mode:
            os.fchmod(descriptor, mode)
        return descriptor


def machine_folder() -> Path:
    """Where the locks of devices lie, the machine's and no home's: ``TPUDECK_LOCKS``, or what all users share."""
    folder = Path(os.environ.get("TPUDECK_LOCKS") or _MACHINE_FOLDER)
    try:
        make_shared(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(
            f"the locks of devices need a folder, and {folder} cannot be one: {error.strerror}",
            hint="TPUDECK_LOCKS names another place",
        ) from error
    return folder


def make_shared(folder: Path) -> None:
    """A folder in which every user of the machine can make files, and remove only their own."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # another user was faster
            folder.chmod(0o1777)


def release(descriptor: int) -> None:
    """Give a lock back (unless a child inherited it: then it is free when both have closed it)."""
    os.close(descriptor)


def held(path: Path) -> bool:
    """Whether somebody owns the lock now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
