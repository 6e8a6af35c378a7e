"""``python -m tpudeck.devices [FOLDER] [--interval S]``: look, say, wait, until the parent ends.

With a folder, a sample is a line of ``FOLDER/system.jsonl``; when that has grown to eight megabytes it becomes
``system.1.jsonl`` and a new one begins. Without, it is a line on standard output.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from tpudeck.devices.sampler import Sampler
from tpudeck.runs.writer import LineWriter

_ROTATE_AT_BYTES = 8_000_000


class _RotatedLines:
    """Appends lines to one file, and starts it anew when it has grown."""

    def __init__(self, path: Path, *, limit_bytes: int = _ROTATE_AT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._writer = LineWriter(path)

    def append(self, value: dict[str, Any]) -> None:
        if self._path.stat().st_size > self._limit_bytes:
            self._writer.close()
            self._path.replace(self._path.with_suffix(".1.jsonl"))
            self._writer = LineWriter(self._path)
        self._writer.append(value)


def _print(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.buffer.flush()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tpudeck.devices")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between samples")
    options = parser.parse_args(argv)
    say: Callable[[dict[str, Any]], None] = _print
    if options.folder is not None:
        say = _RotatedLines(options.folder / "system.jsonl").append
    _loop(say, options.interval)


def _loop(say: Callable[[dict[str, Any]], None], interval_s: float) -> None:
    """Look every `interval_s` seconds until SIGTERM, the end of the parent, or the loss of what we write to."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    parent = os.getppid()
    sampler = Sampler()
    try:
        say(sampler.sample(over_s=min(0.2, interval_s)).to_dict())
        while not stop.wait(interval_s) and os.getppid() == parent:
            say(sampler.sample().to_dict())
    except (OSError, KeyboardInterrupt):
        return  # the folder was deleted, or the reader of our output went away
    finally:
        sampler.close()


if __name__ == "__main__":
    main()
