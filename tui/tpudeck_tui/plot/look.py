"""What a chart is made to show and with what, and its first line: a legend, or what is under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tpudeck.units import format_duration
from tpudeck_tui.cells import clean, fit
from tpudeck_tui.plot.axes import format_value
from tpudeck_tui.plot.curve import Line
from tpudeck_tui.plot.dots import DotGlyphs
from tpudeck_tui.plot.view import View
from tpudeck_tui.theme import SERIES_COLOURS

__all__ = ["Look", "header"]

_Texts = Iterator[tuple[str, Style]]


@dataclass(frozen=True)
class Look:
    """What stays the same from frame to frame."""

    title: str
    glyphs: DotGlyphs
    palette: Mapping[str, Style]
    base: Style
    focused: bool
    from_zero: bool
    empty: str
    """What is said where there is nothing to draw."""

    def part(self, name: str) -> Style:
        return self.base + self.palette[name]

    def series(self, line: Line) -> Style:
        return self.part("faint" if line.dim else f"series-{line.index % SERIES_COLOURS}")


def header(view: View, look: Look, width: int) -> Strip:
    """Title, legend or readout, and at the right how one looks at it."""
    title = Segment(fit(look.title, width), look.part("title-focused" if look.focused else "title"))
    reading = view.cursor is not None
    texts, settings = list(_readout(view, look) if reading else _legend(view, look)), _settings(view)
    room = width - title.cell_length - len(settings) - 2
    if room < 0 or (reading and sum(cell_len(text) for text, _ in texts) > room):
        room, settings = width - title.cell_length, ""  # what is under the cursor matters more
    segments = [title]
    for text, style in texts:
        segments.append(Segment(fit(text, room), style))
        room -= segments[-1].cell_length
        if room <= 0:
            break
    strip = Strip(segments).adjust_cell_length(width - len(settings), look.base)
    return Strip([*strip, Segment(settings, look.part("muted"))]) if settings else strip


def _settings(view: View) -> str:
    parts: list[str] = [view.x_axis] if view.x_axis != "steps" else []
    parts += ["log"] if view.log else []
    parts += [f"smooth {view.smoothing:g}"] if view.smoothing else []
    parts += ["zoom"] if view.zoomed else []
    return " · ".join(parts)


def _key(line: Line, view: View, look: Look) -> tuple[str, Style]:
    return f"  {line.marker if view.several or line.dots else '─'} ", look.series(line)


def _legend(view: View, look: Look) -> _Texts:
    for line in (curve.line for curve in view.curves):
        if line.label and not line.dim:
            yield _key(line, view, look)
            yield clean(line.label), look.part("muted")
            if len(line):
                yield f" {format_value(float(line.value[-1]) * line.scale)}", look.part("bright")


def _readout(view: View, look: Look) -> _Texts:
    """Step, time, and each curve's value at the cursor."""
    walked, x = view.walked(), view.cursor
    if walked is None or x is None:
        return
    muted, bright = look.part("muted"), look.part("bright")
    line, at = walked.line, view.points(walked).nearest(x)
    yield f"  step {int(line.step[at]):,} · {format_duration(float(line.time[at]) - line.began)}", bright
    for curve in view.curves:
        points = view.points(curve)
        if curve.line.dim or not len(points):
            continue
        at = points.nearest(x)
        yield _key(curve.line, view, look)
        if len(view.curves) > 1:
            yield f"{clean(curve.line.label)} ", muted
        yield format_value(float(points.y_of(at))), bright
        if view.smoothing and curve.smoothable:
            smoothed = float(view.points(curve, smoothed=True).y_of(at))
            yield f" (smoothed {format_value(smoothed)})", muted
