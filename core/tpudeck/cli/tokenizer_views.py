"""Tokenizers on a terminal: statistics, and two of them side by side."""

from __future__ import annotations

from typing import Any

from tpudeck.cli.bars import emit_bars
from tpudeck.cli.findings import print_findings
from tpudeck.cli.output import emit_table, printable
from tpudeck.cli.shard_views import some_points

__all__ = ["print_comparison", "print_statistics"]


def print_statistics(found: dict[str, Any]) -> None:
    asked = found["requested_vocab_size"]
    text = "the whole text" if found["whole_text"] else f"a sample, {found['share']:.1%} of the documents"
    rows = [
        ("model", found["model"]),
        *(
            (name.replace("_", "-"), " → ".join(found[name]) or "none")
            for name in ("normalizer", "pre_tokenizer", "decoder")
        ),
        ("special tokens", "  ".join(f"{token} {id_}" for token, id_ in found["special_tokens"].items())),
        ("vocabulary", f"{found['vocab_size']:,}" + (f" of {asked:,} asked for" if asked else "")),
        ("ids without a token", f"{found['unused_ids']:,}"),
        ("tried on", f"{text}: {found['documents']:,} documents, {found['characters']:,} characters"),
        ("characters per token", _with_error(found, "characters_per_token")),
        ("tokens per word", _with_error(found, "tokens_per_word")),
        ("unknown", _share(found, "unknown_share")),
        ("single characters", _share(found, "single_character_share")),
        ("never used here", f"{found['never_used']:,}"),
        ("round-trip failures", f"{found['round_trip_failures']:,} documents{_within(found)}"),
    ]
    emit_table(("what", "value"), rows)
    coverage = some_points(found["coverage"], 10)
    emit_bars(
        "share of the text that the k most frequent tokens cover",
        [(f"{k:,}", share, f"{share:.1%}") for k, share in coverage],
    )
    emit_bars(
        "token lengths in characters (in the vocabulary)",
        [(str(row["characters"]), row["vocabulary"], f"{row['vocabulary']:,}") for row in found["token_lengths"][:24]],
    )
    print("\nlongest: " + _shown(found["longest_tokens"]))
    print("rarest: " + _shown(found["rarest_tokens"]))
    print_findings(found["findings"])


def print_comparison(found: list[dict[str, Any]], left: str, right: str) -> None:
    tokens = [sum(len(item[side]["ids"]) for item in found) for side in ("left", "right")]
    characters = sum(len(item["text"]) for item in found)
    rows = [
        (name, f"{count:,}", f"{characters / count:.3f}" if count else "")
        for name, count in zip((left, right), tokens, strict=True)
    ]
    emit_table(("tokenizer", "tokens", "characters per token"), rows)
    print()
    differences = [
        (
            number,
            f"{difference['start']}–{difference['end']}",
            " ".join(difference["left"]),
            " ".join(difference["right"]),
        )
        for number, item in enumerate(found, start=1)
        for difference in item["differences"]
    ]
    emit_table(("text", "characters", "left", "right"), differences)


def _with_error(found: dict[str, Any], name: str) -> str:
    error = found[f"{name}_error"]
    return f"{found[name]:.3f}" + (f" ± {error:.3f} (95 %)" if error else "")


def _share(found: dict[str, Any], name: str) -> str:
    error = found[f"{name}_error"]
    return f"{found[name]:.3%}" + (f" ± {error:.3%} (95 %)" if error else "")


def _within(found: dict[str, Any]) -> str:
    low, high = found["round_trip_failure_share_interval"]
    return f" ({low:.3%} to {high:.3%} of all)" if high > low else ""


def _shown(tokens: list[dict[str, Any]]) -> str:
    return printable("  ".join(f"{entry['token']} ({entry['count']:,})" for entry in tokens[:10]))
