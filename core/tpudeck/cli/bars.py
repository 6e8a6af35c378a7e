"""Small bar charts of plain text, for a terminal and for a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["emit_bars"]

_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


def emit_bars(title: str, rows: Sequence[tuple[str, float, str]]) -> None:
    """A line per row: label, bar as long as its value among the largest, and what to print beside it."""
    from tpudeck.cli.output import emit_table

    largest = max((value for _, value, _ in rows), default=0) or 1
    print(f"\n{title}")
    emit_table(("", "", ""), [(label, _bar(value / largest), text) for label, value, text in rows])


def _bar(share: float) -> str:
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return "#" * round(share * _WIDTH)
    whole, part = divmod(round(share * _WIDTH * 8), 8)
    return "█" * whole + _EIGHTHS[part].strip()
