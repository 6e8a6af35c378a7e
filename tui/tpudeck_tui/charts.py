"""What screens with charts share: glyphs, remembered settings, full screen, export."""

from __future__ import annotations

import os
import time
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from tpudeck_tui.plot import ASCII, BLOCKS, BRAILLE, DotGlyphs
from tpudeck_tui.screens.base import DeckScreen, shown
from tpudeck_tui.widgets.chart import SMOOTHING, X_AXES, Chart

__all__ = ["ChartScreen", "FullScreen"]


class FullScreen(DeckScreen):
    """A screen whose panels can be looked at alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        shown("z", "full", "Full screen", "charts.full", tooltip="The focused panel on the full screen, and back"),
    ]

    def action_full(self) -> None:
        """The focused panel alone, and back."""
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused, container=False)


class ChartScreen(FullScreen):
    """A screen that holds charts."""

    @property
    def glyphs(self) -> DotGlyphs:
        """Braille, but not on the Linux console, whose font has none, and not in ASCII."""
        if self.app.ascii:
            return ASCII
        return BLOCKS if os.environ.get("TERM") == "linux" else BRAILLE

    def chart(self, key: str, chart: Chart) -> Chart:
        """A chart with the settings it had last time."""
        chart.id = f"{key}-chart"
        kept = self.app.memory.get(f"chart.{key}", {})
        chart.log_scale = bool(kept.get("log", chart.log_scale))
        if kept.get("smoothing") in SMOOTHING:
            chart.smoothing = kept["smoothing"]
        if kept.get("x") in X_AXES:
            chart.x_axis = kept["x"]
        return chart

    @on(Chart.Changed)
    def _remember(self, message: Chart.Changed) -> None:
        chart = message.chart
        key = (chart.id or "").removesuffix("-chart")
        kept = {"log": chart.log_scale, "smoothing": chart.smoothing, "x": chart.x_axis}
        self.app.memory.keep(f"chart.{key}", kept)

    def write_csv(self, name: str, text: str) -> None:
        """Write an export, and say where."""
        folder = self.app.home.root / "exports"
        path = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self.app.tell(error)
            return
        self.app.say(f"wrote {path}")
