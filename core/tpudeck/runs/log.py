"""The console output of a run's stages, as a person would have seen it scroll by.

The file is raw: progress bars redraw their line with carriage returns, hundreds of times. A reader keeps what the line
looked like last.
"""

from __future__ import annotations

from pathlib import Path

from tpudeck.runs.lines import LineFollower

__all__ = ["LogFollower", "fold", "tail"]

_TAIL_BYTES = 256 << 10


def fold(line: str) -> str:
    """What a line shows after its carriage returns: the last thing that was drawn."""
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


def _decode(data: bytes) -> list[str]:
    return [fold(line) for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")] if data else []


def tail(folder: Path, lines: int = 200) -> list[str]:
    """The last lines of ``console.log``; an unfinished last line counts."""
    path = folder / "console.log"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except FileNotFoundError:
        return []
    found = _decode(data)
    if size > _TAIL_BYTES:
        found = found[1:]  # it begins in the middle of a line
    return found[-lines:]


class LogFollower:
    """New lines of ``console.log`` since the last look, through rotations."""

    def __init__(self, folder: Path, *, from_start: bool = True) -> None:
        self._file = LineFollower(folder / "console.log")
        if not from_start:
            self._file.offset = max(0, self._file.look())

    def read(self) -> list[str]:
        """What is new, folded; a line counts when it has ended."""
        return [line for chunk in self._file.chunks() for line in _decode(chunk)]
