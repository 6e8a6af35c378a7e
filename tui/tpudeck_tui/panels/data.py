"""Tokenizers and shard sets, as lines: what they are, how they split a text, what a record looks like in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.masking import mask_batch
from tpudeck.units import format_bytes, format_count
from tpudeck_tui.cells import clean, fit, progress_bar, wrap
from tpudeck_tui.theme import SERIES_COLOURS

if TYPE_CHECKING:
    from tpudeck.shards import ShardSet
    from tpudeck.shards.manifest import SplitSummary
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["file_lines", "piece_lines", "record_lines", "set_lines", "tokenizer_lines", "vocabulary_lines"]


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
    facts = f"{count} tokens   {each:.2f} characters per token   {fertility:.2f} tokens per word"
    lines: list[TextLine] = [[(facts, "bright"), (f"   {unknown} unknown" if unknown else "", "bad")], []]
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
        lower.append((f"{id_:<{cells}}", "faint"))
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


def record_lines(
    shards: ShardSet, loaded: LoadedTokenizer | None, split: str, number: int, step: int, width: int
) -> list[TextLine]:
    """One record as text, with the masks that training with seed 0 would draw at this step in its first row."""
    sequences = shards.split(split)
    ids_1S = sequences.take([number])
    head: TextLine = [
        (f"{split} record {number:,} of {len(sequences):,}", "title"),
        ("   n p: others   N: other masks   v: other split", "muted"),
    ]
    if loaded is None:
        text = " ".join(map(str, ids_1S[0].tolist()))
        why: TextLine = [("Its tokenizer is not here: these are the ids.", "warning")]
        return [head, why, [], *[[(line, "")] for line in wrap(text, width)]]
    targets = _targets(shards, loaded, ids_1S, step)
    legend: TextLine = [
        (f"masks of step {step}:  ", "muted"), ("hidden", "accent"), ("  ", ""), ("replaced", "bad"), ("  ", ""),
        ("asked but shown", "good"),
    ]  # fmt: skip
    return [head, legend, [], *_flowing(_pieces_of(loaded, ids_1S[0].tolist(), targets), width)]


def _targets(shards: ShardSet, loaded: LoadedTokenizer, ids_1S: Any, step: int) -> dict[int, int]:
    """Position → the id that the model sees there instead."""
    if loaded.mask_id is None:
        return {}
    batch = mask_batch(
        ids_1S, seed=0, step=step, microstep=0, first_row=0, mask_id=loaded.mask_id, special_ids=loaded.special_ids,
        vocab_size=shards.vocab_size, count=max(1, round(0.15 * shards.sequence_length)),
    )  # fmt: skip
    seen = zip(batch.positions_BP[0].tolist(), batch.weights_BP[0].tolist(), strict=True)
    return {position: int(batch.inputs_BS[0, position]) for position, weight in seen if weight}


def _pieces_of(loaded: LoadedTokenizer, ids: Sequence[int], targets: Mapping[int, int]) -> TextLine:
    pieces: TextLine = []
    for position, id_ in enumerate(ids):
        piece = _visible(str(loaded.rust.id_to_token(id_))).replace("▁", " ")
        if position not in targets:
            pieces.append((piece, "faint" if id_ in loaded.special_ids else ""))
        elif targets[position] == loaded.mask_id:
            pieces.append((piece, "accent"))
        elif targets[position] == id_:
            pieces.append((piece, "good"))
        else:
            pieces.append((piece, "bad"))
    return pieces


def _flowing(pieces: TextLine, width: int) -> list[TextLine]:
    """Pieces in lines of at most so many cells."""
    lines: list[TextLine] = [[]]
    used = 0
    for text, part in pieces:
        if used + len(text) > width and lines[-1]:
            lines.append([])
            used, text = 0, text.lstrip()
        lines[-1].append((text, part))
        used += len(text)
    return lines
