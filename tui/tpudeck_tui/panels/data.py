"""Texts, tokenizers and shard sets, as lines: what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.shards.manifest import LENGTH_EDGES
from tpudeck.units import counted, format_bytes, format_count
from tpudeck_tui.cells import clean, fit, progress_bar, wrap
from tpudeck_tui.panels.statistics import pairs

if TYPE_CHECKING:
    from tpudeck.inspection.pieces import Reader
    from tpudeck.presets import Experiment
    from tpudeck.shards import ShardSet
    from tpudeck.shards.manifest import SplitSummary
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["document_lines", "file_lines", "set_lines", "text_lines", "tokenizer_lines", "vocabulary_lines"]


# Texts.


def text_lines(experiment: Experiment, width: int) -> list[TextLine]:
    """Where a text comes from, and how it is read."""
    settings = experiment.corpus.model_dump()
    return pairs(((name.replace("_", " "), str(value)) for name, value in settings.items() if value), width)


def document_lines(documents: Sequence[str], width: int) -> list[TextLine]:
    """The first documents of a text, as they are read."""
    lines: list[TextLine] = []
    for number, document in enumerate(documents):
        shown = wrap(document[:2000], max(10, width - 6))
        lines += [[(f"{number:>4}  " if row == 0 else " " * 6, "quiet"), (line, "")] for row, line in enumerate(shown)]
    return lines


# Tokenizers.


def tokenizer_lines(loaded: LoadedTokenizer, about: Mapping[str, Any], width: int) -> list[TextLine]:
    """What it is: kind, size asked and got, special tokens with their ids, how it was made."""
    asked = about.get("requested_vocab_size")
    size = f"{loaded.vocab_size:,}" + (f" of {asked:,} asked for" if asked and asked != loaded.vocab_size else "")
    specials = [f"{loaded.rust.id_to_token(id_)} {id_}" for id_ in loaded.special_ids]
    unused = loaded.vocab_size - loaded.rust.get_vocab_size(with_added_tokens=True)
    trained = about.get("trained_on") or {}
    text = f"{format_count(trained.get('documents', 0))} documents, {format_bytes(trained.get('bytes', 0))}"
    trips = about.get("round_trips", 0)
    return pairs(
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


def vocabulary_lines(loaded: LoadedTokenizer, reader: Reader, width: int) -> list[TextLine]:
    """How long the tokens are, and the longest of them."""
    ids = [id_ for id_ in loaded.rust.get_vocab().values() if id_ not in loaded.special_ids]
    tokens = [reader(id_) for id_ in ids]
    lengths = np.bincount([len(token) for token in tokens], minlength=2)
    most = max(1, int(lengths.max()))
    lines: list[TextLine] = [[("characters  tokens", "header")]]
    for length, count in enumerate(lengths.tolist()):
        if count:
            filled, _ = progress_bar(count / most, max(10, width - 24))
            lines.append([(f"{length:>10}  ", "muted"), (f"{count:>7,}  ", ""), (filled, "bar")])
    longest = sorted(tokens, key=len, reverse=True)[:40]
    lines += [[], [("longest", "header")]]
    lines += [[(line, "")] for line in wrap("   ".join(map(clean, longest)), width)]
    return lines


# Shard sets.


def set_lines(shards: ShardSet, width: int) -> list[TextLine]:
    """What is in a set, split by split."""
    manifest = shards.manifest
    told = [("sequence length", f"{shards.sequence_length:,} tokens"), ("layout", shards.layout.name)]
    if manifest is not None:
        told += [
            ("vocabulary", f"{shards.vocab_size:,}"), ("tokenizer", str(shards.tokenizer_hash)), ("key", manifest.key)
        ]  # fmt: skip
    else:
        told.append(("manifest", "none: somebody else's published shards"))
    lines = pairs([*told, ("folder", str(shards.folder))], width)
    for name in shards.splits:
        lines += [[], [(name, "title")], *_split_lines(shards, name, width)]
    return lines


def _split_lines(shards: ShardSet, name: str, width: int) -> list[TextLine]:
    sequences = shards.split(name)
    lines = pairs(
        [("sequences", f"{len(sequences):,} in {counted(len(sequences.files), 'file')}"),
         ("tokens", f"{len(sequences) * shards.sequence_length:,}")],
        width,
    )  # fmt: skip
    summary = shards.manifest.splits.get(name) if shards.manifest is not None else None
    return lines + (_tally_lines(summary, width) if summary is not None else [])


def _tally_lines(summary: SplitSummary, width: int) -> list[TextLine]:
    tally = summary.tally
    lines = pairs(
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
    lines: list[TextLine] = [[(f"{'shard':>6}  {'sequences':>10}  {'size':>10}  file", "header")]]
    for name in shards.splits:
        sequences = shards.split(name)
        for number, (path, count) in enumerate(zip(sequences.files, sequences.shard_sizes, strict=True)):
            try:
                size = format_bytes(path.stat().st_size)
            except OSError:
                size = "gone"
            shown = fit(str(path.relative_to(shards.folder)), max(8, width - 34))
            lines.append([(f"{number:>6}  ", "muted"), (f"{count:>10,}  {size:>10}  ", ""), (shown, "muted")])
    return lines
