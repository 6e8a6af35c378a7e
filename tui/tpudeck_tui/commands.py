"""Commands of tpudeck at work beside the console: whatever takes longer than a blink.

Each is the command line that one could have typed, in a process and a session of its own. So the console imports
nothing for it and waits for nothing, it fails as it would in a terminal, and it goes on when the console is left: what
it writes goes to files without a name, not to pipes that break.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Any

import orjson

from tpudeck.config import Home
from tpudeck.errors import TpudeckError, WorkError

__all__ = ["Command"]

_TAIL_BYTES = 4096
_GRACE_S = 5.0
"""What was asked to stop and hasn't by then is ended."""


class Command:
    """One command line at work."""

    def __init__(self, words: Sequence[str], *, home: Home, title: str = "") -> None:
        self.words = tuple(words)
        self.title = title or words[0]
        self.started = time.monotonic()
        self._out, self._said = _nameless_file(self), _nameless_file(self)
        self._stop_by: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tpudeck.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._said,
            start_new_session=True,
            env=dict(os.environ) | {"TPUDECK_HOME": str(home.root), "PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"},
        )
        # Also of a command that nobody looks at any more no zombie is kept.
        threading.Thread(target=self._process.wait, name="command-ended", daemon=True).start()

    @property
    def line(self) -> str:
        """The command line, as one would type it."""
        return shlex.join(("tpudeck", *self.words))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def stopping(self) -> bool:
        return self._stop_by is not None

    def running(self) -> bool:
        """Whether it is still at work; one that does not stop when asked is ended here."""
        code = self._process.poll()
        if code is None and self._stop_by is not None and time.monotonic() > self._stop_by:
            self._signal(signal.SIGKILL)
        return code is None

    def stop(self) -> None:
        """Ask for an end, as ctrl+c in a terminal does."""
        if self._stop_by is None and self.running():
            self._stop_by = time.monotonic() + _GRACE_S
            self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def said(self) -> list[str]:
        """What it said so far: its narration, the newest line last."""
        return _lines(self._said, _TAIL_BYTES)

    def output(self) -> list[str]:
        """What it printed."""
        return _lines(self._out)

    def document(self) -> dict[str, Any]:
        """What it printed with ``--json``."""
        try:
            return dict(orjson.loads("\n".join(self.output())))
        except (orjson.JSONDecodeError, TypeError, ValueError) as error:
            raise WorkError(f"`{self.line}` printed no result", hint="try it in a terminal") from error

    def problem(self) -> TpudeckError | None:
        """Why it failed, in its own words, where it has ended and has failed."""
        code = self._process.poll()
        if code in {None, 0}:
            return None
        if self.stopping:
            return WorkError("stopped")
        said = self.said()
        last = max((place for place, line in enumerate(said) if line.startswith("tpudeck: ")), default=0)
        message, _, hint = "\n".join(said[last:]).removeprefix("tpudeck: ").partition("\n  → ")
        return WorkError(message.strip() or f"it ended with exit code {code}", hint=hint.strip())


def _nameless_file(owner: object) -> IO[bytes]:
    """A file that is gone when its owner and the child are."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 (its owner closes it)
    weakref.finalize(owner, file.close)
    return file


def _lines(file: IO[bytes], most_bytes: int | None = None) -> list[str]:
    """The lines of a file that another process writes; of a rewritten line what is seen last."""
    size = os.fstat(file.fileno()).st_size
    start = 0 if most_bytes is None else max(0, size - most_bytes)
    text = os.pread(file.fileno(), size - start, start).decode(errors="replace")
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if line.strip()]
