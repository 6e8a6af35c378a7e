"""Tokenizers and shard sets, as lines: what they are, how they split a text, what a record looks like in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.inspection.records import records, training_records
from tpudeck.plan import global_batch_size
from tpudeck.units import format_bytes, format_count
from tpudeck_tui.cells import clean, fit, progress_bar, wrap
from tpudeck_tui.plot.axes import nice_scale
from tpudeck_tui.plot.columns import Points, columns_for, summarise
from tpudeck_tui.plot.dots import BRAILLE, raster
from tpudeck_tui.theme import SERIES_COLOURS

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.shards import ShardSet
    from tpudeck.shards.manifest import SplitSummary
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck_tui.widgets.pages import TextLine

__all__ = [
    "file_lines",
    "piece_lines",
    "record_lines",
    "set_lines",
    "statistics_lines",
    "tokenizer_lines",
    "trained_lines",
    "vocabulary_lines",
]


def _pairs(pairs: Iterable[tuple[str, str]], width: int) -> list[TextLine]:
    lines: list[TextLine] = []
    for label, value in pairs:
        if value:
            first, *others = wrap(value, max(10, width - 20))
            lines.append([(f"{label:>18}  ", "muted"), (first, "")])
            lines += [[(" " * 20 + other, "")] for other in others]
    return lines


def _visible(piece: str) -> str:
    """A piece whose white space can be seen."""
    return clean(piece.replace("\n", "⏎").replace("\t", "→")) or "∅"


# Tokenizers.


def tokenizer_lines(loaded: LoadedTokenizer, about: Mapping[str, Any], width: int) -> list[TextLine]:
    """What it is: kind, size asked and got, special tokens with their ids, how it was made."""
    asked = about.get("requested_vocab_size")
    size = f"{loaded.vocab_size:,}" + (f" of {asked:,} asked for" if asked and asked != loaded.vocab_size else "")
    specials = [f"{loaded.rust.id_to_token(id_)} {id_}" for id_ in loaded.special_ids]
    unused = loaded.vocab_size - loaded.rust.get_vocab_size(with_added_tokens=True)
    trained, trips = about.get("trained_on") or {}, about.get("round_trips") or 0
    documents, characters = (format_count(trained.get(key, 0)) for key in ("documents", "characters"))
    text = f"{documents} documents, {characters} characters"
    return _pairs(
        [
            ("kind", str(about.get("kind") or type(loaded.rust.model).__name__)),
            ("vocabulary", size),
            ("unused ids", f"{unused:,}" if unused else ""),
            ("special tokens", "   ".join(specials)),
            ("normaliser", _named(loaded.rust.normalizer)),
            ("pre-tokeniser", _named(loaded.rust.pre_tokenizer)),
            ("made from", str(about.get("source") or "")),
            ("trained on", text if trained else ""),
            ("alphabet", f"{trained['alphabet']:,} characters" if trained.get("alphabet") else ""),
            ("round trips", f"{trips - about.get('round_trip_failures', 0):,} of {trips:,}" if trips else ""),
            ("warnings", "; ".join(map(str, about.get("warnings") or ()))),
            ("file hash", loaded.hash),
            ("folder", str(loaded.folder)),
        ],
        width,
    )  # fmt: skip


def _named(part: Any) -> str:
    return type(part).__name__ if part is not None else "none"


def piece_lines(loaded: LoadedTokenizer, text: str, width: int) -> list[TextLine]:
    """A text in its pieces, each with its id below it; neighbours differ in colour."""
    if not text:
        return [[("i lets you type a text; here are then its pieces and their ids.", "muted")]]
    encoding = loaded.rust.encode(text, add_special_tokens=False)
    unknown = sum(id_ == loaded.unk_id for id_ in encoding.ids)
    count, words = len(encoding.ids), len(text.split())
    each, fertility = len(text) / max(1, count), count / max(1, words)
    ratios = f"   {each:.2f} characters per token   {fertility:.2f} tokens per word"
    lost = f"   {unknown} unknown" if unknown else ""
    lines: list[TextLine] = [[(f"{count} tokens", "bright"), (lost, "bad"), (ratios, "bright")], []]
    upper: TextLine = []
    lower: TextLine = []
    used = 0
    for index, (piece, id_) in enumerate(zip(encoding.tokens, encoding.ids, strict=True)):
        shown = _visible(piece)
        cells = max(len(shown), len(str(id_))) + 1
        if used + cells > width and upper:
            lines += [upper, lower, []]
            upper, lower, used = [], [], 0
        part = "bad" if id_ == loaded.unk_id else f"series-{index % SERIES_COLOURS}"
        upper.append((f"{shown:<{cells}}", part))
        lower.append((f"{id_:<{cells}}", "quiet"))
        used += cells
    return [*lines, upper, lower]


def vocabulary_lines(loaded: LoadedTokenizer, width: int) -> list[TextLine]:
    """How long the tokens are, and the longest of them."""
    tokens = [token for token, id_ in loaded.rust.get_vocab().items() if id_ not in loaded.special_ids]
    lengths = np.bincount([len(token) for token in tokens], minlength=2)
    most = max(1, int(lengths.max()))
    lines: list[TextLine] = [[("characters  tokens", "header")]]
    for length, count in enumerate(lengths.tolist()):
        if count:
            filled, _ = progress_bar(count / most, max(10, width - 24))
            lines.append([(f"{length:>10}  ", "muted"), (f"{count:>7,}  ", ""), (filled, "bar")])
    longest = sorted(tokens, key=len, reverse=True)[:40]
    lines += [[], [("longest", "header")]]
    lines += [[(line, "")] for line in wrap("   ".join(map(_visible, longest)), width)]
    return lines


# Shard sets.


def set_lines(shards: ShardSet, width: int) -> list[TextLine]:
    """What is in a set, split by split."""
    manifest = shards.manifest
    pairs = [("sequence length", f"{shards.sequence_length:,} tokens"), ("vocabulary", f"{shards.vocab_size:,}")]
    if manifest is not None:
        pairs += [("layout", manifest.packing.layout), ("tokenizer", str(shards.tokenizer_hash)), ("key", manifest.key)]
    lines = _pairs([*pairs, ("folder", str(shards.folder))], width)
    for name in shards.splits:
        lines += [[], [(name, "title")], *_split_lines(shards, name, width)]
    return lines


def _split_lines(shards: ShardSet, name: str, width: int) -> list[TextLine]:
    sequences = shards.split(name)
    lines = _pairs(
        [("sequences", f"{len(sequences):,} in {len(sequences.files):,} files"),
         ("tokens", f"{len(sequences) * shards.sequence_length:,}")],
        width,
    )  # fmt: skip
    summary = shards.manifest.splits.get(name) if shards.manifest is not None else None
    return lines + (_tally_lines(summary, width) if summary is not None else [])


def _tally_lines(summary: SplitSummary, width: int) -> list[TextLine]:
    from tpudeck.shards.manifest import LENGTH_EDGES

    tally = summary.tally
    lines = _pairs(
        [
            ("documents", f"{tally.documents:,}, {tally.empty_documents:,} of them empty"),
            ("across an edge", f"{tally.cut_documents:,} documents don't lie within one sequence"),
            ("longest", f"{tally.longest_document_tokens:,} tokens"),
            ("left over", f"{summary.dropped_tokens:,} tokens at the end, too few for one more sequence"),
        ],
        width,
    )
    most = max(1, *tally.document_lengths)
    lines.append([(f"{'tokens':>18}  documents", "header")])
    for edge, count in zip(LENGTH_EDGES, tally.document_lengths, strict=False):
        if count:
            filled, _ = progress_bar(count / most, max(10, width - 32))
            lines.append([(f"{f'from {int(edge):,}':>18}  ", "muted"), (f"{count:>9,}  ", ""), (filled, "bar")])
    return lines


def file_lines(shards: ShardSet, width: int) -> list[TextLine]:
    """Every file of a set."""
    lines: list[TextLine] = [[(f"{'sequences':>10}  {'size':>10}  file", "header")]]
    for name in shards.splits:
        sequences = shards.split(name)
        for path, count in zip(sequences.files, sequences.shard_sizes, strict=True):
            try:
                size = format_bytes(path.stat().st_size)
            except OSError:
                size = "gone"
            shown = fit(str(path.relative_to(shards.folder)), max(8, width - 26))
            lines.append([(f"{count:>10,}  {size:>10}  ", ""), (shown, "muted")])
    return lines


def statistics_lines(found: Mapping[str, Any], loaded: LoadedTokenizer | None, width: int) -> list[TextLine]:
    """What was counted in every record: shares, frequencies, coverage, and what to do about it."""
    lines: list[TextLine] = []
    for finding in found["findings"]:
        part = "warning" if finding["level"] == "warning" else "muted"
        lines += [[(line, part)] for line in wrap(finding["message"], width)]
        lines += [[("→ " if index == 0 else "  ", "accent"), (line, "bright")]
                  for index, line in enumerate(wrap(finding["hint"], width - 2)) if finding["hint"]]  # fmt: skip
    for name, split in found["splits"].items():
        lines += [[], [(name, "title")]] if lines else [[(name, "title")]]
        lines += _pairs(_shares(split, found["vocab_size"]), width)
    lines += [[], [("frequency by rank, both logarithmic", "header")], *_zipf(found["zipf"], width)]
    lines += [[], [("share of the text that the most frequent tokens cover", "header")]]
    for rank, share in found["coverage"]:
        filled, rest = progress_bar(share, max(10, width - 24))
        lines.append([(f"{rank:>10,}  ", "muted"), (filled, "bar"), (rest, "bar-rest"), (f" {share:>6.1%}", "bright")])
    named = [(str(loaded.rust.id_to_token(top["id"])) if loaded else str(top["id"]), top["count"])
             for top in found["top_tokens"]]  # fmt: skip
    text = "   ".join(f"{_visible(token)} {count:,}" for token, count in named)
    return [*lines, [], [("most frequent", "header")], *[[(line, "")] for line in wrap(text, width)]]


def _shares(split: Mapping[str, Any], vocab_size: int) -> list[tuple[str, str]]:
    def share(key: str) -> str:
        return "" if split.get(key) is None else f"{split[key]:.2%}"

    return [
        ("sequences", f"{split['sequences']:,}"),
        ("tokens", f"{split['tokens']:,}"),
        ("tokens in use", f"{split['used_tokens']:,} of {vocab_size:,}"),
        ("unknown", share("unknown_share")),
        ("special", share("special_share")),
        ("padding", share("padding_share")),
        ("repeated records", share("duplicate_share")),
    ]


def _zipf(curve: Sequence[tuple[int, int]], width: int, rows: int = 8) -> list[TextLine]:
    """A small chart as text."""
    if len(curve) < 2:
        return []
    points = Points(np.log10([rank for rank, _ in curve]), [count for _, count in curve])
    columns = columns_for(float(points.x[0]), float(points.x[-1]), BRAILLE.across * max(10, width - 10))
    scale = nice_scale(max(1.0, float(points.y.min())), float(points.y.max()), log=True)
    dots = raster(summarise(points, columns), scale, rows * BRAILLE.down)
    drawn = ["".join(BRAILLE.table[pattern] if pattern else " " for pattern in row) for row in BRAILLE.patterns(dots)]
    ends = {0: format_count(scale.high), rows - 1: format_count(scale.low)}
    return [[(f"{ends.get(row, ''):>8} ", "muted"), (line, "live")] for row, line in enumerate(drawn)]


def record_lines(
    shards: ShardSet, loaded: LoadedTokenizer | None, split: str, number: int, width: int
) -> list[TextLine]:
    """One record as text."""
    record = records(shards, split, np.array([number]), loaded)[0]
    head: TextLine = [(f"{split} record {number:,} of {len(shards.split(split)):,}", "title"),
                      ("   n p: others   v: other split", "muted")]  # fmt: skip
    where: TextLine = [(fit(f"{Path(record['file']).name} at byte {record['offset']:,}", width), "quiet")]
    if loaded is None:
        why: TextLine = [("Its tokenizer is not here: these are the ids.", "warning")]
        return [head, where, why, [], *[[(line, "")] for line in wrap(" ".join(map(str, record["ids"])), width)]]
    pieces = [(piece, "quiet" if id_ in loaded.special_ids else "")
              for id_, piece in zip(record["ids"], record["tokens"], strict=True)]  # fmt: skip
    return [head, where, [], *_flowing(pieces, width)]


def trained_lines(
    shards: ShardSet, loaded: LoadedTokenizer, experiment: Experiment, name: str, step: int, width: int
) -> list[TextLine]:
    """The first sequences of a step's batch, with the masks that training draws there."""
    batch = global_batch_size(experiment, replicas=experiment.device.replicas or 1)
    shown = training_records(shards, experiment, loaded, step=step, global_batch=batch, count=4)
    lines: list[TextLine] = [
        [
            (f"step {step:,} of {clean(name)}, the first of {batch} sequences", "title"),
            ("   n p: other steps", "muted"),
        ],
        [("hidden", "hidden"), ("  ", ""), ("replaced→by", "replaced"), ("  ", ""), ("asked but shown", "shown")],
    ]
    for record in shown:
        asked = set(record["masked_positions"])
        pieces = []
        for position, (id_, piece, seen, instead) in enumerate(
            zip(record["ids"], record["tokens"], record["inputs"], record["input_tokens"], strict=True)
        ):
            if position not in asked:
                pieces.append((piece, "quiet" if id_ in loaded.special_ids else ""))
            elif seen == loaded.mask_id:
                pieces.append((piece, "hidden"))
            elif seen == id_:
                pieces.append((piece, "shown"))
            else:
                pieces.append((f"{piece}→{instead.strip()}", "replaced"))
        lines += [[], *_flowing(pieces, width)]
    return lines


def _flowing(pieces: TextLine, width: int) -> list[TextLine]:
    """Pieces in lines of at most so many cells."""
    lines: list[TextLine] = [[]]
    used = 0
    for piece, part in pieces:
        text = _visible(piece).replace("▁", " ").replace("Ġ", " ")
        if used + len(text) > width and lines[-1]:
            lines.append([])
            used, text = 0, text.lstrip()
        lines[-1].append((text, part))
        used += len(text)
    return lines
