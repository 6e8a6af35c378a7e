"""Shard sets on a terminal: statistics and records as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpudeck.cli.bars import emit_bars
from tpudeck.cli.findings import print_findings
from tpudeck.cli.output import emit_table

__all__ = ["octaves", "print_records", "print_statistics", "some_points"]

_LINES = (
    "files", "bytes", "sequences", "tokens", "documents", "empty_documents", "cut_documents",
    "longest_document_tokens", "dropped_tokens", "sampled_sequences", "used_tokens", "padding_share", "special_share",
    "unknown_share", "duplicate_share",
)  # fmt: skip


def print_statistics(found: dict[str, Any]) -> None:
    from tpudeck.units import format_count

    print(
        f"{found['folder']}: {found['layout']}, sequences of {found['sequence_length']}, "
        f"vocabulary {found['vocab_size']:,}, tokenizer {found['tokenizer_hash'][:12] or 'unknown'}"
    )
    splits = found["splits"]
    there = {name for about in splits.values() for name in about}
    rows = [
        (name.replace("_", " "), *(_shown(about, name) for about in splits.values()))
        for name in _LINES
        if name in there and (name != "sampled_sequences" or found["share"] < 1)
    ]
    emit_table(("", *splits), rows)
    coverage = some_points(found["coverage"], 10)
    emit_bars(
        "share of the text that the k most frequent tokens cover",
        [(f"{k:,}", share, f"{share:.1%}") for k, share in coverage],
    )
    for split, about in splits.items():
        if "document_lengths" in about:
            bars = octaves(**about["document_lengths"])
            emit_bars(f"{split}: document lengths in tokens", [(f"{at:,}+", n, format_count(n)) for at, n in bars])
    print_findings(found["findings"])


def _shown(about: dict[str, Any], name: str) -> str:
    value, error = about.get(name), about.get(f"{name}_error")
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2%}" + (f" ± {error:.2%}" if error else "")


def some_points(points: list[Any], most: int) -> list[Any]:
    """So many points, evenly spread, the first and the last among them."""
    if len(points) <= most:
        return points
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


def octaves(edges: list[int], counts: list[int]) -> list[tuple[int, int]]:
    """A histogram with one bar for each doubling, without the empty ones at its ends."""
    bars: dict[int, int] = {}
    for edge, count in zip(edges, counts, strict=True):
        octave = 1 << (edge.bit_length() - 1)
        bars[octave] = bars.get(octave, 0) + count
    filled = [octave for octave, count in bars.items() if count]
    return [(octave, count) for octave, count in bars.items() if filled and filled[0] <= octave <= filled[-1]]


def print_records(shown: list[dict[str, Any]]) -> None:
    rows = []
    for record in shown:
        pieces = list(record.get("tokens", map(str, record["ids"])))
        for position in record.get("masked_positions", ()):
            pieces[position] = f"⟦{record['input_tokens'][position]}←{pieces[position]}⟧"
        text = " ".join(pieces) if "masked_positions" in record or "text" not in record else record["text"]
        rows.append((record["index"], Path(record["file"]).name, record["offset"], text))
    emit_table(("sequence", "file", "offset", "text"), rows)
