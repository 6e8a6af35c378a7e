"""What screens with charts share: glyphs, remembered settings, full screen, export."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from tpudeck_tui.plot.curve import X_AXES
from tpudeck_tui.plot.dots import ASCII, BLOCKS, BRAILLE, DotGlyphs
from tpudeck_tui.plot.view import SMOOTHING
from tpudeck_tui.screens.base import DeckScreen, shown
from tpudeck_tui.widgets.chart import Chart

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
        view = chart.view
        view.log = bool(kept.get("log", view.log))
        if kept.get("smoothing") in SMOOTHING:
            view.smoothing = kept["smoothing"]
        if kept.get("x") in X_AXES:
            view.x_axis = kept["x"]
        return chart

    @on(Chart.Changed)
    def _remember(self, message: Chart.Changed) -> None:
        view = message.chart.view
        key = (message.chart.id or "").removesuffix("-chart")
        kept = {"log": view.log, "smoothing": view.smoothing, "x": view.x_axis}
        self.app.memory.keep(f"chart.{key}", kept)

    def write_csv(self, name: str, pieces: Iterable[str]) -> None:
        """Write an export in the background, and say where: a million points take a second."""
        path = self.app.home.root / "exports" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        self.run_worker(partial(self._write, path, pieces), thread=True)

    def _write(self, path: Path, pieces: Iterable[str]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8") as file:
                file.writelines(pieces)
        except OSError as error:
            self.app.call_from_thread(self.app.tell, error)
        else:
            self.app.call_from_thread(self.app.say, f"wrote {path}")
