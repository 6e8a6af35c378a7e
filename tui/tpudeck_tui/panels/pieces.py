"""Text in its pieces: coloured and with ids, two tokenizers side by side, records as they stand and as training sees
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from tpudeck.inspection.pieces import stretches
from tpudeck_tui.cells import clean, fit, pad, wrap
from tpudeck_tui.theme import SERIES_COLOURS

if TYPE_CHECKING:
    from tokenizers import Encoding

    from tpudeck.inspection.pieces import Reader
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["piece_lines", "record_lines", "side_by_side_lines", "trained_lines"]

_MOST_CHARACTERS = 5000
"""Of a text that is split while one types."""


def _encode(loaded: LoadedTokenizer, text: str) -> Encoding:
    return loaded.rust.encode(text[:_MOST_CHARACTERS], add_special_tokens=False)


def _pieces(loaded: LoadedTokenizer, reader: Reader, encoding: Encoding, text: str) -> TextLine:
    """Every token as it is shown, and its part; what became unknown is shown as it stood in the text."""
    pieces: TextLine = []
    for place, (id_, (start, end)) in enumerate(zip(encoding.ids, encoding.offsets, strict=True)):
        if id_ == loaded.unk_id:
            pieces.append((clean(text[start:end]).strip() or "∅", "bad"))
        else:
            pieces.append((clean(reader(id_)) or "∅", f"series-{place % SERIES_COLOURS}"))
    return pieces


def _summary(loaded: LoadedTokenizer, encoding: Encoding, text: str) -> TextLine:
    count, words = len(encoding.ids), len(text.split())
    unknown = sum(id_ == loaded.unk_id for id_ in encoding.ids)
    ratios = f"{len(text) / max(1, count):.2f} characters per token   {count / max(1, words):.2f} tokens per word"
    size = f"{len(text.encode('utf-8', 'replace')):,} bytes"
    return [
        (f"{count} token{'' if count == 1 else 's'}", "bright"),
        (f"   {unknown} unknown" if unknown else "", "bad"),
        (f"   {ratios}   {size}", "bright"),
    ]


def piece_lines(loaded: LoadedTokenizer, reader: Reader, text: str, width: int) -> list[TextLine]:
    """A text in its pieces, each with its id below it; neighbours differ in colour, spaces and bytes are visible."""
    if not text:
        return [[("i lets you type a text; here are then its pieces and their ids.", "muted")]]
    encoding = _encode(loaded, text)
    pieces = _pieces(loaded, reader, encoding, text)
    lines = _wrapped_summary(_summary(loaded, encoding, text[:_MOST_CHARACTERS]), width)
    upper: TextLine = []
    lower: TextLine = []
    used = 0
    for (piece, part), id_ in zip(pieces, encoding.ids, strict=True):
        piece = fit(piece, width - 1)
        cells = max(cell_len(piece), len(str(id_))) + 1
        if used + cells > width and upper:
            lines += [upper, lower, []]
            upper, lower, used = [], [], 0
        upper.append((pad(piece, cells), part))
        lower.append((f"{id_:<{cells}}", "quiet"))
        used += cells
    return [*lines, upper, lower]


def _wrapped_summary(summary: TextLine, width: int) -> list[TextLine]:
    """The numbers on one line, or on as many as they need."""
    if sum(cell_len(text) for text, _ in summary) <= width:
        return [summary, []]
    first, lost, rest = summary
    return [[first, lost], *[[(line, "bright")] for line in wrap(rest[0].strip(), width)], []]


def side_by_side_lines(
    left: tuple[LoadedTokenizer, Reader, str], right: tuple[LoadedTokenizer, Reader, str], text: str, width: int
) -> list[TextLine]:
    """Two tokenizers on the same text, stretch below stretch; where they cut differently both are marked."""
    if not text:
        return [[("i lets you type a text; here it is then in the pieces of both.", "muted")]]
    names = [fit(name, 14) for _, _, name in (left, right)]
    label = max(map(cell_len, names)) + 2
    sides = [(loaded, _encode(loaded, text), reader) for loaded, reader, _ in (left, right)]
    pieces = [_pieces(loaded, reader, encoding, text) for loaded, encoding, reader in sides]
    lines: list[TextLine] = []
    for (loaded, encoding, _), name in zip(sides, names, strict=True):
        lines.append([(pad(name, label), "title"), *_summary(loaded, encoding, text[:_MOST_CHARACTERS])[:2]])
    differing = 0
    rows: tuple[TextLine, TextLine] = ([], [])
    used = 0
    blocks: list[TextLine] = []
    for stretch in stretches(sides[0][1], sides[1][1]):
        cut = [
            fit("│".join(own[place][0] for place in places), width - label - 1)
            for own, places in zip(pieces, (stretch.left, stretch.right), strict=True)
        ]
        same = [cell.replace("##", "") for cell in cut]
        differs = same[0].replace("␣", "") != same[1].replace("␣", "")
        differing += differs
        cells = max(map(cell_len, cut)) + 1
        if used + cells > width - label and rows[0]:
            blocks += _block(names, rows, label)
            rows, used = ([], []), 0
        for row, shown in zip(rows, cut, strict=True):
            row.append((pad(shown, cells), "differs" if differs else ""))
        used += cells
    places = f"{differing} place{'' if differing == 1 else 's'} cut differently" if differing else "cut alike"
    return [*lines, [(places, "warning" if differing else "good")], [], *blocks, *_block(names, rows, label)]


def _block(names: Sequence[str], rows: tuple[TextLine, TextLine], label: int) -> list[TextLine]:
    return [[(pad(name, label), "quiet"), *row] for name, row in zip(names, rows, strict=True)] + [[]]


# Records.


def record_lines(
    record: Mapping[str, Any], split: str, total: int, loaded: LoadedTokenizer | None, reader: Reader | None, width: int
) -> list[TextLine]:
    """One record as text."""
    head: TextLine = [(f"{split} record {record['index']:,} of {total:,}", "title"),
                      ("  n p r v: others", "muted")]  # fmt: skip
    where: TextLine = [(fit(f"{Path(record['file']).name} at byte {record['offset']:,}", width), "quiet")]
    if loaded is None or reader is None:
        why: TextLine = [("Its tokenizer is not here: these are the ids.", "warning")]
        return [head, where, why, [], *[[(line, "")] for line in wrap(" ".join(map(str, record["ids"])), width)]]
    pieces = [(reader.in_text(id_), "quiet" if id_ in loaded.special_ids else "") for id_ in record["ids"]]
    return [head, where, [], *_flowing(pieces, width)]


def trained_lines(
    shown: Sequence[Mapping[str, Any]],
    loaded: LoadedTokenizer,
    reader: Reader,
    *,
    name: str,
    step: int,
    batch: int,
    width: int,
) -> list[TextLine]:
    """The first sequences of a step's batch, with the masks that training draws there."""
    lines: list[TextLine] = [
        [(fit(f"step {step:,}, the first of {batch} sequences, in {name}", width), "title")],
        [("n p r: others  ", "muted"), ("hidden", "hidden"), (" ", ""), ("replaced→by", "replaced"),
         (" ", ""), ("asked but shown", "shown")],
    ]  # fmt: skip
    for record in shown:
        lines += [[], [(f"record {record['index']:,}", "quiet")], *_flowing(_masked(record, loaded, reader), width)]
    return lines


def _masked(record: Mapping[str, Any], loaded: LoadedTokenizer, reader: Reader) -> TextLine:
    asked = set(record["masked_positions"])
    pieces: TextLine = []
    for position, (id_, seen) in enumerate(zip(record["ids"], record["inputs"], strict=True)):
        piece = reader.in_text(id_)
        if position not in asked:
            pieces.append((piece, "quiet" if id_ in loaded.special_ids else ""))
        elif seen == loaded.mask_id:
            pieces.append((piece, "hidden"))
        elif seen == id_:
            pieces.append((piece, "shown"))
        else:
            pieces.append((f"{piece}→{reader(seen).strip('␣')}", "replaced"))
    return pieces


def _flowing(pieces: TextLine, width: int) -> list[TextLine]:
    """Pieces in lines of at most so many cells, broken between words; spaces as spaces, special tokens apart."""
    lines: list[TextLine] = [[]]
    used = 0
    for word in _by_word(pieces):
        cells = sum(cell_len(text) for text, _ in word)
        if used + cells > width and lines[-1]:
            lines.append([])
            used, word = 0, [(word[0][0].lstrip(), word[0][1]), *word[1:]]
        for text, part in word:
            for piece in [text] if cell_len(text) <= width else wrap(text, width):
                if used + cell_len(piece) > width:
                    lines.append([])
                    used = 0
                lines[-1].append((piece, part))
                used += cell_len(piece)
    return lines


def _by_word(pieces: TextLine) -> Iterator[TextLine]:
    """Pieces that belong to one word together."""
    word: TextLine = []
    for piece, part in pieces:
        special = part == "quiet"
        text = clean(f" {piece} " if special else piece.replace("␣", " "))
        if word and (special or text.startswith(" ") or word[-1][1] == "quiet"):
            yield word
            word = []
        word.append((text, part))
    if word:
        yield word
