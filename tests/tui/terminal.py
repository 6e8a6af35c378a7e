"""The console on a real pseudo-terminal, read through a terminal emulator."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence

import pyte

__all__ = ["Terminal", "terminal"]


class Terminal:
    """A program on a terminal of its own: what it wrote, what one sees, and its keyboard."""

    def __init__(self, command: Sequence[str], *, size: tuple[int, int], environ: dict[str, str]) -> None:
        self.width, self.height = size
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, close_fds=True, start_new_session=True,
            env=environ, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.written = 0
        """Bytes so far."""
        self.emulator = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.emulator)

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if hasattr(self, "emulator"):
            self.emulator.resize(height, width)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float) -> bytes:
        """Everything it writes within so many seconds."""
        end, chunks = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0 and (data := self._chunk(left)):
            chunks.append(data)
        return b"".join(chunks)

    def settle(self, *, quiet_s: float = 0.1) -> float:
        """Read until nothing has come for a while; when the last byte came, in seconds from now."""
        started = last = time.monotonic()
        while self._chunk(quiet_s):
            last = time.monotonic()
        return last - started

    def _chunk(self, timeout_s: float) -> bytes:
        """What comes next; nothing where nothing comes in time, or the other side is gone."""
        if not select.select([self.master], [], [], timeout_s)[0]:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""
        self.written += len(data)
        # The emulator chokes on the kitty keyboard protocol, which is of no interest here.
        self._stream.feed(data.replace(b"\x1b[>1u", b"").replace(b"\x1b[<u", b"").replace(b"\x1b[?u", b""))
        return data

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.emulator.display)

    def until(self, holds: str | Callable[[str], bool], *, within_s: float = 20.0) -> float:
        """Read until the screen says something; how long that took since the start, in seconds."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            self.read(0.02)
            if holds in self.text if isinstance(holds, str) else holds(self.text):
                return time.monotonic() - self.started
        raise AssertionError(f"{holds!r} was never on the screen; it shows\n{self.text}")

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)


@contextlib.contextmanager
def terminal(
    *arguments: str, size: tuple[int, int] = (80, 24), command: Sequence[str] = (), **environ: str
) -> Iterator[Terminal]:
    """The console, or another command, on a terminal."""
    plain = {
        key: value
        for key, value in os.environ.items()
        if key not in {"NO_COLOR", "COLORTERM", "PYTHONDONTWRITEBYTECODE"}
    }
    found = Terminal(
        command or (sys.executable, "-m", "tpudeck_tui", *arguments),
        size=size,
        environ=plain | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | environ,
    )
    try:
        yield found
    finally:
        found.close()
