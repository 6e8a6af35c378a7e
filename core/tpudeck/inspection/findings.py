"""What the numbers mean: a finding is a sentence with its number, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Finding", "percent"]


@dataclass(frozen=True)
class Finding:
    """Something a person should know before paying for training."""

    level: Literal["info", "warning"]
    message: str
    hint: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def percent(share: float) -> str:
    """0.1234 → ``"12.3 %"``; small shares keep two digits."""
    return f"{100 * share:.1f} %" if share >= 0.01 or share == 0 else f"{100 * share:.2g} %"
