"""What is on the screen, as text."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.app import App
from textual.pilot import Pilot

__all__ = ["screen_text", "until"]


def screen_text(app: App[None]) -> str:
    """The lines of the screen as they would be written, filters and all."""
    strips = app.screen._compositor.render_strips()
    lines = []
    for strip in strips:
        segments = list(strip)
        for line_filter in app.get_line_filters():
            segments = line_filter.apply(segments, app.screen.background_colors[1])
        lines.append("".join(segment.text for segment in Segment.remove_color(segments)).rstrip())
    return "\n".join(lines)


async def until(pilot: Pilot[None], holds: str | Callable[[str], bool], *, within_s: float = 5.0) -> str:
    """Wait until the screen says something; answers with all it says."""
    for _ in range(round(within_s * 50)):
        await pilot.pause(0.02)
        text = screen_text(pilot.app)
        if holds in text if isinstance(holds, str) else holds(text):
            return text
    raise AssertionError(f"{holds!r} was never on the screen; it shows\n{screen_text(pilot.app)}")
