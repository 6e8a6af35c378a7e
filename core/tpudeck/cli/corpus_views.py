"""The statistics of a corpus on a terminal."""

from __future__ import annotations

from typing import Any

from tpudeck.cli.bars import emit_bars
from tpudeck.cli.output import emit_table
from tpudeck.cli.shard_views import octaves
from tpudeck.units import format_count

__all__ = ["print_statistics"]

_LINES = {
    "words": "words",
    "longest_characters": "longest, characters",
    "different_characters": "different characters",
    "duplicate_share": "copies",
    "near_duplicate_share": "copies and near copies",
    "broken_encodings": "broken encodings",
}


def print_statistics(found: dict[str, Any]) -> None:
    splits = found["splits"]
    print()
    emit_table(
        ("", *splits), [(label, *(_shown(about[name]) for about in splits.values())) for name, label in _LINES.items()]
    )
    for split, about in splits.items():
        bars = octaves(**about["document_lengths"])
        emit_bars(
            f"{split}: document lengths in characters", [(f"{at:,}+", count, format_count(count)) for at, count in bars]
        )
    for finding in found["findings"]:
        print(f"\n{finding['level']}: {finding['message']}\n  → {finding['hint']}")


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2%}"
