"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Finding", "Level"]

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """Which check, for programs: ``packages``, ``chips``, …"""
    level: Level
    """`note`: good to know; `warning`: something will not work well; `error`: something will not work."""
    message: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        return asdict(self)
