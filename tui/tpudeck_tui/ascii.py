"""The console for terminals without Unicode: a filter over everything that is written.

One place instead of a second set of glyphs in every widget: nothing that is not ASCII can pass, wherever it came from,
and every line keeps its width.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

__all__ = ["AsciiFilter", "to_ascii"]

_LOOK_ALIKE = str.maketrans(
    {
        **dict.fromkeys("─━┄┈╌═▁▔‾–—", "-"),
        **dict.fromkeys("│┃┆┊║▏▎▍▌▐▕", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝┏┓┗┛", "+"),
        **dict.fromkeys("█▇▆▅▉▊▋", "#"),
        **dict.fromkeys("▄▃▂▀", "="),
        **dict.fromkeys("░▒▓", ":"),
        **dict(zip("●◆▲■▼★○◇△□▽☆", "*x^#v%o&A@V$", strict=True)),
        **dict.fromkeys("◉⬤", "*"),
        **dict.fromkeys("◌", "o"),
        **dict.fromkeys("▴↑", "^"),
        **dict.fromkeys("▾↓", "v"),
        **dict.fromkeys("▶▸›→↻⟳❯", ">"),
        **dict.fromkeys("◀◂‹←❮", "<"),
        **dict.fromkeys("×✗✘☠", "X"),
        **dict.fromkeys("·•∙⋅", "."),
        **dict.fromkeys("“”„", '"'),
        **dict.fromkeys("‘’", "'"),
        "✓": "+", "✔": "+", "…": "~", "⏸": "=", "⋯": ".", "≤": "<", "≥": ">", "≠": "!", "Δ": "d", "µ": "u", "⏎": "<",
        "␣": "_", "\N{NO-BREAK SPACE}": " ", "\N{REPLACEMENT CHARACTER}": "?", "²": "2",
    }
)  # fmt: skip


@lru_cache(maxsize=4096)
def to_ascii(text: str) -> str:
    """Text of the same width in ASCII: look-alikes where there are any, question marks elsewhere."""
    if text.isascii():
        return text
    text = text.translate(_LOOK_ALIKE)
    text = "".join(_dots(c) if "\u2800" <= c <= "\u28ff" else c for c in text)
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text)


def _dots(character: str) -> str:
    """A braille pattern by its upper and its lower half."""
    bits = ord(character) - 0x2800
    upper, lower = bits & 0b00011011, bits & 0b11100100
    return ":" if upper and lower else "'" if upper else "." if lower else " "


class AsciiFilter(LineFilter):
    """Lets through nothing but ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(to_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]
