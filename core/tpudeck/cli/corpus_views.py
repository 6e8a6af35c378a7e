"""The statistics of a corpus on a terminal."""

from __future__ import annotations

from typing import Any

from tpudeck.cli.bars import emit_bars
from tpudeck.cli.findings import print_findings
from tpudeck.cli.output import emit_table
from tpudeck.cli.shard_views import octaves
from tpudeck.units import format_count

__all__ = ["print_statistics"]


def print_statistics(found: dict[str, Any]) -> None:
    splits = found["splits"]
    print()
    emit_table(("", *splits), [(label, *(cells(about) for about in splits.values())) for label, cells in _LINES])
    print(f"\n{_overlap(found['leak'])}")
    for split, about in splits.items():
        bars = octaves(**about["document_lengths"])
        emit_bars(
            f"{split}: document lengths in characters", [(f"{at:,}+", count, format_count(count)) for at, count in bars]
        )
    print_findings(found["findings"])


def _sample(about: dict[str, Any]) -> str:
    if about["sampled_documents"] == about["documents"]:
        return "all"
    return f"{about['sampled_documents']:,} documents, {about['sampled_characters']:,} characters"


def _near(about: dict[str, Any]) -> str:
    least = "" if about["near_duplicates_exact"] else f"at least, of {about['near_duplicates_compared']:,} compared: "
    return f"{least}{about['near_duplicate_share']:.2%}"


def _copies(about: dict[str, Any]) -> str:
    error = about["duplicate_share_error"]
    return f"{about['duplicate_share']:.2%}" + (f" ± {error:.2%}" if error else "")


def _broken(about: dict[str, Any]) -> str:
    low, high = about["broken_share_interval"]
    within = f" ({low:.2%} to {high:.2%} of all)" if high > low else ""
    return f"{about['broken_encodings']:,}{within}"


_LINES = (
    ("counted", _sample),
    ("words", lambda about: f"{about['words']:,}"),
    ("longest, characters", lambda about: f"{about['longest_characters']:,}"),
    ("different characters", lambda about: f"{about['different_characters']:,}"),
    ("copies", _copies),
    ("copies and near copies", _near),
    ("broken encodings", _broken),
)


def _overlap(leak: dict[str, Any]) -> str:
    least = "" if leak["exact"] else "at least "
    return (
        f"in both: {least}{leak['validation_documents']:,} validation documents ({leak['validation_share']:.2%}), "
        f"{leak['training_documents']:,} training documents ({leak['training_share']:.2%})"
    )
