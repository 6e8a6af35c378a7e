"""What was counted of texts, tokenizers and shard sets: as lines, the findings first, and as plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.units import counted, format_count
from tpudeck_tui.cells import clean, wrap
from tpudeck_tui.plot.picture import Plot

if TYPE_CHECKING:
    from tpudeck.inspection.pieces import Reader
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["pairs", "plots", "statistics_lines"]

Pairs = Iterable[tuple[str, str]]


def pairs(of: Pairs, width: int) -> list[TextLine]:
    """Labels and values, the values wrapped; those without a value are left out."""
    lines: list[TextLine] = []
    for label, value in of:
        if value:
            first, *others = wrap(value, max(10, width - 20))
            lines.append([(f"{label:>18}  ", "muted"), (first, "")])
            lines += [[(" " * 20 + other, "")] for other in others]
    return lines


def statistics_lines(kind: str, found: Mapping[str, Any], reader: Reader | None, width: int) -> list[TextLine]:
    """All that was counted, and what to do about it."""
    numbers = {"text": _text, "tokenizer": _tokenizer, "shards": _shards}[kind]
    return [*_findings(found["findings"], width), *numbers(found, reader, width)]


def _findings(findings: Sequence[Mapping[str, str]], width: int) -> list[TextLine]:
    if not findings:
        return [[("✓ ", "good"), ("nothing to worry about", "muted")], []]
    lines: list[TextLine] = []
    for finding in findings:
        warning = finding["level"] == "warning"
        first, *others = wrap(finding["message"], width - 2)
        lines += [[("▲ " if warning else "· ", "warning"), (first, "warning" if warning else "muted")]]
        lines += [[("  ", ""), (line, "warning" if warning else "muted")] for line in others]
        hint, *others = wrap(finding["hint"], width - 4)
        lines += [[("  → ", "accent"), (hint, "bright")], *[[("    ", ""), (line, "bright")] for line in others]]
    return [*lines, []]


def _error(of: Mapping[str, Any], name: str, form: str) -> str:
    """A number with how far it may be off, where it comes from a sample."""
    value, error = of.get(name), of.get(f"{name}_error")
    if value is None:
        return ""
    return format(value, form) + (f" ± {format(error, form)}" if error else "")


def _interval(of: Mapping[str, Any], name: str) -> str:
    low, high = of[f"{name}_interval"]
    return f" ({low:.3%} to {high:.3%} of all)" if high > low else ""


# Texts.


def _text(found: Mapping[str, Any], reader: Reader | None, width: int) -> list[TextLine]:
    lines: list[TextLine] = []
    for name, side in found["splits"].items():
        lines += [[(name, "title")], *pairs(_side(side), width), []]
    leak = found["leak"]
    least = "" if leak["exact"] else "at least "
    lines += pairs(
        [
            ("in both", f"{least}{leak['validation_documents']:,} validation documents "
             f"({leak['validation_share']:.2%}), {leak['training_documents']:,} training documents"),
            ("for example", " … ".join(clean(text)[:80] for text in leak["examples"])),
            ("most frequent", _characters(found["common_characters"][:24])),
            ("rarest", _characters(found["rare_characters"][:24])),
        ],
        width,
    )  # fmt: skip
    return lines


def _side(side: Mapping[str, Any]) -> Pairs:
    sampled = side["sampled_documents"] < side["documents"]
    near = side["near_duplicate_share"]
    at_least = "" if side["near_duplicates_exact"] else f"at least, of {side['near_duplicates_compared']:,} compared: "
    return [
        ("documents", f"{side['documents']:,}"),
        ("characters", f"{side['characters']:,}"),
        ("sample", f"{side['sampled_documents']:,} documents, {side['sampled_characters']:,} characters" * sampled),
        ("words", f"{side['words']:,}"),
        ("longest", f"{side['longest_characters']:,} characters"),
        ("alphabet", f"{side['different_characters']:,} characters"),
        ("copies", _error(side, "duplicate_share", ".2%")),
        ("and near copies", f"{at_least}{near:.2%}"),
        ("broken encodings", f"{side['broken_encodings']:,}{_interval(side, 'broken_share')}"),
    ]


def _characters(counted: Sequence[Sequence[Any]]) -> str:
    shown = (f"{'␣' if mark == ' ' else clean(mark)} {format_count(count)}" for mark, count in counted)
    return "  ".join(shown)


# Tokenizers.


def _tokenizer(found: Mapping[str, Any], reader: Reader | None, width: int) -> list[TextLine]:
    part = "" if found["whole_text"] else f", {found['share']:.1%} of it"
    return [
        *pairs(
            [
                ("tried on", f"{found['source']}{part}: {found['documents']:,} documents, "
                 f"{found['characters']:,} characters"),
                ("characters/token", _error(found, "characters_per_token", ".3f")),
                ("tokens per word", _error(found, "tokens_per_word", ".3f")),
                ("unknown", _error(found, "unknown_share", ".3%")),
                ("became unknown", "  ".join(f"{clean(text)} {n:,}" for text, n in found["unknown_characters"])),
                ("single characters", _error(found, "single_character_share", ".2%")),
                ("round trips lost", f"{found['round_trip_failures']:,} documents"
                 f"{_interval(found, 'round_trip_failure_share')}"),
                ("for example", " … ".join(clean(text)[:80] for text in found["round_trip_examples"])),
                ("never used here", f"{found['never_used']:,} of {found['vocab_size']:,}"),
                ("ids without token", f"{found['unused_ids']:,}"),
                ("text spells", "  ".join(f"{token} {count:,}" for token, count in found["literal_specials"].items())),
            ],
            width,
        ),
        [],
        *_tokens("longest", found["longest_tokens"], reader, width),
        *_tokens("rarest", found["rarest_tokens"], reader, width),
    ]  # fmt: skip


def _tokens(title: str, entries: Sequence[Mapping[str, Any]], reader: Reader | None, width: int) -> list[TextLine]:
    named = [(reader(entry["id"]) if reader else str(entry["id"]), entry["count"]) for entry in entries]
    text = "   ".join(f"{clean(token)} {count:,}" for token, count in named)
    return [[(title, "header")], *[[(line, "")] for line in wrap(text, width)], []]


# Shard sets.


def _shards(found: Mapping[str, Any], reader: Reader | None, width: int) -> list[TextLine]:
    lines: list[TextLine] = []
    for name, split in found["splits"].items():
        sampled = found["share"] < 1
        lines += [
            [(name, "title")],
            *pairs(
                [
                    ("sequences", f"{split['sequences']:,} in {counted(split['files'], 'file')}"),
                    ("tokens", f"{split['tokens']:,}"),
                    ("sample", f"{split['sampled_sequences']:,} sequences" * sampled),
                    ("tokens in use", f"{split['used_tokens']:,} of {found['vocab_size']:,}"),
                    ("unknown", _error(split, "unknown_share", ".3%")),
                    ("special", _error(split, "special_share", ".2%")),
                    ("padding", _error(split, "padding_share", ".2%")),
                    ("repeated records", _error(split, "duplicate_share", ".2%")),
                    ("cut documents", _cut(split)),
                ],
                width,
            ),
            [],
        ]
    return [*lines, *_tokens("most frequent", found["top_tokens"], reader, width)]


def _cut(split: Mapping[str, Any]) -> str:
    if not split.get("documents"):
        return ""
    return f"{split['cut_documents']:,} of {split['documents']:,}; {split['dropped_tokens']:,} tokens left over"


# Plots.


def plots(kind: str, found: Mapping[str, Any]) -> list[Plot]:
    """What people would rather look at than read."""
    if kind == "text":
        return [_lengths(name, side, "characters") for name, side in found["splits"].items() if side["documents"]]
    drawn = [_coverage(found["coverage"]), _zipf(found["zipf"])]
    if kind == "tokenizer":
        return [*drawn, _token_lengths(found["token_lengths"])]
    sides = {name: split for name, split in found["splits"].items() if split.get("documents")}
    return [*drawn, *(_lengths(name, split, "tokens") for name, split in sides.items())]


def _coverage(curve: Sequence[Sequence[float]]) -> Plot:
    k, share = _columns(curve)
    return Plot(
        "coverage",
        "tokens",
        k,
        {"share of the text": share},
        lambda at: f"the {k[at]:,.0f} most frequent tokens: {share[at]:.1%} of the text",
        log_x=True,
        percent=True,
    )


def _zipf(curve: Sequence[Sequence[float]]) -> Plot:
    rank, count = _columns(curve)
    return Plot(
        "frequency by rank",
        "rank",
        rank,
        {"occurrences": count},
        lambda at: f"rank {rank[at]:,.0f}: {count[at]:,.0f} times",
        log_x=True,
        log_y=True,
    )


def _columns(curve: Sequence[Sequence[float]]) -> Any:
    return np.array(curve, dtype=np.float64).reshape(-1, 2).T


def _token_lengths(rows: Sequence[Mapping[str, int]]) -> Plot:
    longest = max((row["characters"] for row in rows), default=0)
    counts = {name: np.zeros(longest + 1) for name in ("vocabulary", "text")}
    for row in rows:
        for name, of in counts.items():
            of[row["characters"]] = row[name]
    shares = {name: of / max(1, of.sum()) for name, of in counts.items()}
    return Plot(
        "token lengths",
        "characters",
        np.arange(longest + 1, dtype=np.float64),
        shares,
        lambda at: (
            f"{at} characters: {counts['vocabulary'][at]:,.0f} tokens ({shares['vocabulary'][at]:.1%}), "
            f"{shares['text'][at]:.1%} of the text"
        ),
        bars=True,
        percent=True,
    )


def _lengths(name: str, side: Mapping[str, Any], unit: str) -> Plot:
    edges, counts = (np.array(side["document_lengths"][key], dtype=np.float64) for key in ("edges", "counts"))
    filled = np.flatnonzero(counts)
    first, end = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
    total = max(1.0, counts.sum())
    return Plot(
        f"document lengths, {name}",
        unit,
        edges[first:end],
        {"documents": counts[first:end]},
        _bin_text(edges[first : end + 1], counts[first:end], total, unit),
        bars=True,
    )


def _bin_text(edges: Any, counts: Any, total: float, unit: str) -> Callable[[int], str]:
    def text(at: int) -> str:
        last = edges[at + 1] - 1 if at + 1 < len(edges) else None
        to = " and more" if last is None else f" to {last:,.0f}" if last > edges[at] else ""
        return f"{edges[at]:,.0f}{to} {unit}: {counts[at]:,.0f} documents ({counts[at] / total:.1%})"

    return text
