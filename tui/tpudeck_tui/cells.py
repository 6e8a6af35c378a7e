"""Outside text on its way into cells: no control characters, no more cells than there are."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells, set_cell_size

__all__ = ["chop", "clean", "fit", "pad", "progress_bar", "wrap"]


def clean(text: str) -> str:
    """Text as one line a terminal shows and doesn't obey: what cannot be printed becomes a mark."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def fit(text: str, width: int) -> str:
    """Text in at most so many cells, the end replaced by an ellipsis where it was longer."""
    text = clean(text)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Text in exactly so many cells."""
    text = fit(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def chop(text: str, width: int) -> list[str]:
    """Text in lines of so many cells, as a terminal breaks it: spaces stay where they are."""
    text = clean(text)
    return [text] if cell_len(text) <= width else chop_cells(text, max(2, width))


def wrap(text: str, width: int) -> list[str]:
    """Text in lines of at most so many cells, broken at spaces where there are any."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in clean(paragraph).split(" "):
            candidate = f"{line} {word}" if line else word
            if cell_len(candidate) <= width:
                line = candidate
                continue
            if line:
                lines.append(line)
            while cell_len(word) > width > 0:
                head = set_cell_size(word, width).rstrip() or word[:1]
                lines.append(head)
                word = word[len(head) :]
            line = word
        lines.append(line)
    return lines


def progress_bar(share: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar, in eighths of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return filled, "─" * (width - len(filled))
