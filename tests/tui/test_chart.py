"""The chart as a widget: keys, mouse, and what it sends to the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult

from tpudeck_tui.ascii import to_ascii
from tpudeck_tui.cells import clean
from tpudeck_tui.plot.curve import MARKERS, Flag, Line
from tpudeck_tui.plot.dots import ASCII, BLOCKS, BRAILLE, DotGlyphs
from tpudeck_tui.theme import DEFAULT_VARIABLES, palette
from tpudeck_tui.widgets.canvas import PaintingApp
from tpudeck_tui.widgets.chart import Chart
from tui.views import screen_text


def line(values: Sequence[float], label: str = "train", *, index: int = 0, every: int = 10, dots: bool = False) -> Line:
    step = np.arange(1, len(values) + 1) * every
    return Line(label, step, step / 10, np.array(values, float), tokens=step * 1024.0, index=index, dots=dots)


class Shown(PaintingApp):
    """One chart."""

    def __init__(
        self, *lines: Line, glyphs: DotGlyphs = BRAILLE, smoothing: float = 0.0, flags: Sequence[Flag] = ()
    ) -> None:
        super().__init__()
        self.chart = Chart("loss", glyphs=glyphs, smoothing=smoothing)
        self.chart.show(lines, flags)
        self.exports: list[str] = []

    @property
    def palette(self) -> dict:
        return palette(self.get_css_variables() | DEFAULT_VARIABLES)

    def compose(self) -> ComposeResult:
        yield self.chart

    def on_chart_export_requested(self, message: Chart.ExportRequested) -> None:
        self.exports.append("".join(message.pieces))


FALLING = [5 - 3 * index / 100 for index in range(100)]


async def test_the_header_says_the_last_value_and_the_cursor_the_one_below_it() -> None:
    app = Shown(line(FALLING))
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.focus()
        await pilot.pause()
        assert "train 2.03" in screen_text(app)
        await pilot.press("home")
        assert "step 10 · 1s" in screen_text(app)
        assert "5" in screen_text(app).splitlines()[0]
        await pilot.press("end", "left")
        text = screen_text(app).splitlines()[0]
        step = int(text.split("step ")[1].split(" ")[0].replace(",", ""))
        assert 900 < step < 1000


async def test_the_cursor_shows_the_smoothed_value_of_the_full_data() -> None:
    app = Shown(line([1.0, 3.0] * 50), smoothing=0.9)
    async with app.run_test(size=(100, 20)) as pilot:
        app.chart.focus()
        await pilot.press("end")
        assert "(smoothed 2." in screen_text(app)


async def test_what_is_under_the_cursor_goes_before_the_settings() -> None:
    app = Shown(line([1.0, 3.0] * 50), smoothing=0.9)
    async with app.run_test(size=(54, 20)) as pilot:
        app.chart.focus()
        await pilot.pause()
        assert "smooth 0.9" in screen_text(app).splitlines()[0]
        await pilot.press("end")
        reading = screen_text(app).splitlines()[0]
        assert "(smoothed 2." in reading and "…" not in reading and "smooth 0.9" not in reading


async def test_keys_zoom_pan_and_show_all_again() -> None:
    app = Shown(line(FALLING))
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.focus()
        await pilot.press("plus", "plus")
        assert "zoom" in screen_text(app)
        low, high = app.chart.view.range_shown() or (0, 0)
        assert high == 1000
        assert low > 700
        await pilot.press("less_than_sign")
        assert (app.chart.view.range_shown() or (0, 0))[1] < 1000
        await pilot.press("0")
        assert app.chart.view.range_shown() == (10, 1000)


async def test_a_zoomed_window_at_the_end_follows_new_points() -> None:
    app = Shown(line(FALLING))
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.focus()
        await pilot.press("plus")
        app.chart.show([line([*FALLING, *FALLING])])
        assert (app.chart.view.range_shown() or (0, 0))[1] == 2000


async def test_the_wheel_zooms_where_the_mouse_is_and_with_shift_it_pans() -> None:
    app = Shown(line(FALLING))

    def wheel(*, shift: bool) -> events.MouseScrollUp:
        return events.MouseScrollUp(app.chart, 20, 8, 0, -1, 0, shift, False, False, screen_x=20, screen_y=8)

    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.post_message(wheel(shift=False))
        await pilot.pause(0.1)
        low, high = app.chart.view.range_shown() or (0, 0)
        assert 10 < low < high < 1000
        app.chart.post_message(wheel(shift=True))
        await pilot.pause(0.1)
        further, _ = app.chart.view.range_shown() or (0, 0)
        assert 10 <= further < low


async def test_the_x_axis_turns_from_steps_to_time_to_tokens() -> None:
    app = Shown(line(FALLING))
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.focus()
        await pilot.press("x")
        assert "1m" in screen_text(app).splitlines()[-1]
        await pilot.press("x")
        assert "M" in screen_text(app).splitlines()[-1] or "k" in screen_text(app).splitlines()[-1]
        await pilot.press("x")
        assert "400" in screen_text(app).splitlines()[-1]


@pytest.mark.parametrize(
    "values",
    [
        [1.0], [3.0] * 50, [float("nan")] * 5, [float("inf"), -float("inf")], [0.0, -1.0, -5.0], [1e-38, 1e38],
        [-1e38, 1e38], [1.0, float("nan"), 2.0], [1e300, 1e-300], [],
    ],
)  # fmt: skip
@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCKS, ASCII])
async def test_no_numbers_break_it_on_any_axis(values: list[float], glyphs: DotGlyphs) -> None:
    app = Shown(line(values), glyphs=glyphs, smoothing=0.6)
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.focus()
        await pilot.press("y", "left", "right", "plus", "x", "y", "s", "minus", "x", "home", "end", "0", "e")
        assert "loss" in screen_text(app)


@pytest.mark.parametrize("size", [(1, 1), (8, 2), (10, 3), (12, 5), (30, 6), (300, 80)])
async def test_it_fits_any_size(size: tuple[int, int]) -> None:
    app = Shown(line(FALLING), flags=[Flag("checkpoint", 500, 50)])
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert all(len(row) <= size[0] for row in screen_text(app).splitlines())


async def test_a_value_that_is_not_finite_and_what_happened_are_marked_on_the_axis() -> None:
    values = list(FALLING)
    values[50] = float("nan")
    flags = [Flag("checkpoint", 200, 20), Flag("resume", 300, 30), Flag("best", 900, 90)]
    app = Shown(line(values), flags=flags)
    async with app.run_test(size=(80, 20)):
        axis = screen_text(app).splitlines()[-2]
        assert axis.index("▾") < axis.index("↻") < axis.index("×") < axis.index("★")


async def test_twenty_curves_are_told_apart_without_colour() -> None:
    curves = [line([index + step / 50 for step in range(100)], f"run {index}", index=index) for index in range(20)]
    app = Shown(*curves)
    async with app.run_test(size=(200, 70)):
        text = screen_text(app)
        body = "\n".join(text.splitlines()[1:])
        assert all(marker in body for marker in MARKERS)
    assert len({(curve.marker, curve.index % 8) for curve in curves}) == 20


async def test_new_points_change_only_cells_near_them() -> None:
    """The columns of the past stay as they are: no flicker, and few bytes."""
    rows = [5 + np.sin(step / 9) for step in range(1000)]
    app = Shown(line(rows[:900]))
    async with app.run_test(size=(100, 20)) as pilot:
        before = screen_text(app).splitlines()
        app.chart.show([line(rows[:901])])
        await pilot.pause()
        after = screen_text(app).splitlines()
    differing = [
        column for old, new in zip(before[1:], after[1:], strict=True)
        for column, (a, b) in enumerate(zip(old.ljust(100), new.ljust(100), strict=True)) if a != b
    ]  # fmt: skip
    assert len(differing) <= 12
    assert not differing or max(differing) - min(differing) < 4


async def test_a_million_points_are_painted_within_a_frame() -> None:
    """In the time of the processor, which other work on this machine doesn't stretch: four times the budget."""
    values = 3 + np.random.default_rng(0).normal(0, 0.2, 1_000_000)
    app = Shown(line(values, every=1))
    async with app.run_test(size=(250, 70)) as pilot:
        await pilot.pause()
        app.chart.paint(app.chart.content_size)
        spent = []
        for _ in range(5):
            started = time.process_time()
            app.chart.paint(app.chart.content_size)
            spent.append(time.process_time() - started)
    assert min(spent) < 0.06


async def test_an_export_has_every_point_of_the_window() -> None:
    app = Shown(line(FALLING), line([4.0, 3.0], "eval", index=1, every=400, dots=True))
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.focus()
        await pilot.press("e")
        await pilot.pause()
        rows = app.exports[0].splitlines()
        assert len(rows) == 1 + 100 + 2
        await pilot.press("plus", "e")
        await pilot.pause()
        assert 1 < len(app.exports[1].splitlines()) < len(rows)


def test_markers_stay_different_in_ascii() -> None:
    assert to_ascii(MARKERS).isascii()
    assert len(set(to_ascii(MARKERS))) == len(MARKERS)


@given(st.text(max_size=60))
def test_ascii_keeps_the_width_of_any_text(text: str) -> None:
    shown = clean(text)
    assert to_ascii(shown).isascii()
    assert len(to_ascii(shown)) == cell_len(shown)
