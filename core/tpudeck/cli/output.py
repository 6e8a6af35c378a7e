"""How commands print: data to standard output, narration to standard error."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["emit_json", "emit_line", "emit_table", "narrate", "printable"]


def emit_json(value: object) -> None:
    """One JSON document on standard output, indented for a person, on one line for a pipe."""
    import orjson

    option = orjson.OPT_SERIALIZE_NUMPY | (orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)
    sys.stdout.write(orjson.dumps(value, option=option).decode() + "\n")


def emit_line(value: object) -> None:
    """One JSON document on one line of standard output, at once: for a stream of them."""
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode() + "\n")
    sys.stdout.flush()


def narrate(text: str) -> None:
    """A line for the person at the terminal, on standard error."""
    print(text, file=sys.stderr, flush=True)


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, fit: bool = False) -> None:
    """A table on standard output: aligned columns at a terminal, tab-separated in a pipe.

    With `fit`, a terminal shows only as many columns as it has room for, the first ones.
    """
    cells = [[printable(str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in cells:
            print("\t".join(row))
        return
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(columns)]
    if fit:
        room = shutil.get_terminal_size().columns
        while len(widths) > 1 and sum(widths) + 2 * (len(widths) - 1) > room:
            widths.pop()
    for row in ([*columns], *cells):
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=False)).rstrip())


def printable(text: str) -> str:
    """Outside text without what a terminal would obey: control characters are written as escapes, such as \\t."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
