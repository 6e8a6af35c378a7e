"""The arithmetic of charts, for any numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpudeck_tui.plot.axes import Scale, format_tick, nice_scale, ticks, time_ticks
from tpudeck_tui.plot.columns import Points, Summary, Values, columns_for, summarise
from tpudeck_tui.plot.dots import ASCII, BLOCKS, BRAILLE, raster

finite = st.floats(-1e38, 1e38)
anything = st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e-38, -1e-38]))
steps = st.integers(0, 10**9)
curves = st.lists(st.tuples(steps, anything), min_size=1, max_size=60)
counts = st.integers(8, 400)


def points_of(pairs: list[tuple[int, float]]) -> Points:
    return Points([x for x, _ in pairs], [y for _, y in pairs])


@given(curves, counts)
def test_columns_cover_every_point(pairs: list[tuple[int, float]], count: int) -> None:
    points = points_of(pairs)
    columns = columns_for(points.x[0], points.x[-1], count)
    assert columns.start <= points.x[0]
    assert points.x[-1] <= columns.end
    assert columns.count == count


@given(st.integers(1, 10**7), counts)
def test_most_columns_are_used_where_there_are_points_enough(last: int, count: int) -> None:
    columns = columns_for(0, last, count)
    assert last / (columns.width * count) > 0.7


@given(st.integers(2, 10**6), st.integers(1, 1000), counts)
def test_edges_stay_on_one_grid_while_a_curve_grows(last: int, more: int, count: int) -> None:
    before, after = columns_for(0, last, count), columns_for(0, last + more, count)
    assert after.width >= before.width
    if after.width == before.width:
        assert after.start == before.start


@given(st.lists(finite, min_size=20, max_size=200), st.integers(1, 20))
def test_columns_that_are_full_look_the_same_after_new_points(values: list[float], more: int) -> None:
    old = Points(np.arange(len(values)), values)
    new = Points(np.arange(len(values) + more), [*values, *([0.5] * more)])
    before, after = columns_for(0, len(values) - 1, 16), columns_for(0, len(values) + more - 1, 16)
    if before != after:
        return
    full = before.column_of(len(values) - 1)
    one, two = summarise(old, before), summarise(new, after)
    np.testing.assert_array_equal(one.low_C[:full], two.low_C[:full])
    np.testing.assert_array_equal(one.high_C[:full], two.high_C[:full])


@given(st.lists(st.tuples(st.integers(0, 30), anything), min_size=4, max_size=150), st.integers(1, 50), st.booleans())
def test_what_is_drawn_stays_while_points_are_added_behind_it(
    steps_and_values: list[tuple[int, float]], more: int, log: bool
) -> None:
    """All but the two columns at the end, which are not full yet, and as long as no axis changes."""
    x = np.cumsum([step for step, _ in steps_and_values])
    y = np.array([value for _, value in steps_and_values])
    before = max(1, len(x) - more)
    columns = columns_for(float(x[0]), float(x[-1]), 64)
    if columns != columns_for(float(x[0]), float(x[before - 1]), 64):
        return
    scale = nice_scale(1e-3, 1e3, log=log)
    old, new = (
        raster(summarise(Points(x[:end], y[:end]), columns, above_zero=log), scale, 40) for end in (before, len(x))
    )
    full = max(0, columns.column_of(float(x[before - 1])) - 1)
    np.testing.assert_array_equal(old[:, :full], new[:, :full])


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10**6), counts)
def test_a_window_that_moves_keeps_its_columns(low: int, span: int, by: int, count: int) -> None:
    before, after = columns_for(low, low + span, count), columns_for(low + by, low + by + span, count)
    assert after.width == before.width
    assert ((after.start - before.start) / before.width).is_integer()


@pytest.mark.parametrize("above_zero", [False, True])
@given(st.integers(0, 2**32), st.lists(st.integers(1, 2000), min_size=1, max_size=6), counts)
def test_what_was_kept_of_a_growing_curve_says_the_same_as_all_of_its_points(
    above_zero: bool, seed: int, sizes: list[int], count: int
) -> None:
    chance = np.random.default_rng(seed)
    total = sum(sizes)
    y = chance.normal(size=total)
    y[chance.random(total) < 0.003] = math.nan
    x = np.sort(chance.integers(0, total, total))
    values = Values()
    end = 0
    for size in sizes:
        end += size
        columns = columns_for(float(x[0]), float(x[end - 1]), count)
        found = summarise(Points(x[:end], values.grow(y[:end])), columns, above_zero=above_zero)
        expect = by_hand(x[:end], y[:end], columns.edges, above_zero=above_zero)
        for one, two in zip(vars(found).values(), vars(expect).values(), strict=True):
            np.testing.assert_array_equal(one, two)


def by_hand(x: np.ndarray, y: np.ndarray, edges: np.ndarray, *, above_zero: bool) -> Summary:
    """The same, point by point."""
    rows = []
    for left, right in pairwise(edges):
        here = y[(x >= left) & ((x < right) | ((right == edges[-1]) & (x == right)))]
        usable = here[np.isfinite(here) & ((here > 0) | (not above_zero))]
        low, high = (usable.min(), usable.max()) if len(usable) else (math.nan, math.nan)
        first = here[0] if len(usable) and here[0] in usable else low
        last = here[-1] if len(usable) and here[-1] in usable else high
        rows.append((low, high, first, last, len(usable) < len(here), not np.isfinite(here).all()))
    low, high, first, last, broken, nan = (np.array(column) for column in zip(*rows, strict=True))
    return Summary(low, high, first, last, broken, nan)


def test_times_since_the_epoch_and_steps_are_searched_as_they_are_stored() -> None:
    step = np.arange(0, 5000, 5)
    steps, copies = Points(step, Values(step)), Points(step.astype(float), step)
    times = Points(step + 1.7e9, Values(step), origin=1.7e9)
    places = [-1.0, 0.0, 4.5, 5.0, 5.5, 4995.0, 1e300, -1e300]
    for after in (False, True):
        np.testing.assert_array_equal(steps.find(places, after=after), copies.find(places, after=after))
        np.testing.assert_array_equal(times.find(places, after=after), copies.find(places, after=after))


@given(curves, counts)
def test_no_extreme_is_ever_lost(pairs: list[tuple[int, float]], count: int) -> None:
    points = points_of(pairs)
    summary = summarise(points, columns_for(points.x[0], points.x[-1], count))
    values = [y for _, y in pairs if math.isfinite(y)]
    if values:
        assert np.nanmin(summary.low_C) == min(values)
        assert np.nanmax(summary.high_C) == max(values)
    else:
        assert np.isnan(summary.low_C).all()


@given(curves, counts)
def test_whatever_is_not_finite_is_marked(pairs: list[tuple[int, float]], count: int) -> None:
    points = points_of(pairs)
    summary = summarise(points, columns_for(points.x[0], points.x[-1], count))
    assert summary.broken_C.any() == any(not math.isfinite(y) for _, y in pairs)


@given(curves, st.booleans(), st.integers(1, 40), st.booleans())
def test_any_curve_can_be_drawn_and_shows_something_where_it_has_a_value(
    pairs: list[tuple[int, float]], log: bool, rows: int, line: bool
) -> None:
    points = points_of(pairs)
    columns = columns_for(points.x[0], points.x[-1], 80)
    summary = summarise(points, columns, above_zero=log)
    drawable = points.y[np.isfinite(points.y) & ((points.y > 0) | (not log))]
    low, high = (drawable.min(), drawable.max()) if len(drawable) else (0.0, 1.0)
    dots = raster(summary, nice_scale(low, high, log=log), rows * 4, line=line)
    assert dots.shape == (rows * 4, 80)
    assert (dots.any(axis=0) >= ~np.isnan(summary.low_C)).all()


def test_a_curve_without_gaps_has_no_holes() -> None:
    points = Points([0, 7, 100, 101, 500], [1.0, 9.0, 3.0, 8.0, 2.0])
    columns = columns_for(0, 500, 80)
    dots = raster(summarise(points, columns), nice_scale(1, 9), 40)
    drawn = np.flatnonzero(dots.any(axis=0))
    assert drawn.tolist() == list(range(drawn[0], drawn[-1] + 1))
    for left, right in zip(dots.T[drawn[:-1]], dots.T[drawn[1:]], strict=True):
        one, two = np.flatnonzero(left), np.flatnonzero(right)
        assert one[0] <= two[-1] + 1
        assert two[0] <= one[-1] + 1


def test_a_rounding_error_does_not_make_a_constant_uneven() -> None:
    noisy = 2 + np.random.default_rng(0).choice([-4e-16, 0, 4e-16], 300)
    dots = raster(summarise(Points(np.arange(300), noisy), columns_for(0, 299, 100)), nice_scale(2.0, 2.0), 32)
    assert dots.any(axis=1).sum() == 1


def test_a_gap_is_not_bridged() -> None:
    points = Points([0, 10, 20, 30, 40], [1, 1, math.nan, 1, 1])
    columns = columns_for(0, 40, 80)
    drawn = raster(summarise(points, columns), nice_scale(0, 2), 8).any(axis=0)
    gap = slice(columns.column_of(10) + 1, columns.column_of(30))
    assert not drawn[gap].any()
    assert drawn[columns.column_of(5)]
    assert drawn[columns.column_of(35)]


def test_steps_that_go_back_are_put_in_order_and_repeated_ones_share_a_column() -> None:
    points = Points([10, 30, 20, 20, 20], [1, 3, 2, 7, -4])
    assert points.x.tolist() == [10, 20, 20, 20, 30]
    columns = columns_for(10, 30, 40)
    summary = summarise(points, columns)
    at = columns.column_of(20)
    assert (summary.low_C[at], summary.high_C[at]) == (-4, 7)


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-38, 1e38, -1e38])
def test_a_single_point_and_a_constant_lie_inside_the_axis(value: float) -> None:
    scale = nice_scale(value, value)
    assert scale.low < value < scale.high
    dots = raster(summarise(Points([3], [value]), columns_for(3, 3, 20)), scale, 8)
    assert dots.sum() == 1


@given(st.floats(1e-38, 1e38), st.floats(1e-38, 1e38), st.booleans())
def test_an_axis_holds_its_values(one: float, two: float, log: bool) -> None:
    low, high = min(one, two), max(one, two)
    scale = nice_scale(low, high, log=log)
    assert scale.fraction(low) >= -1e-6
    assert scale.fraction(high) <= 1 + 1e-6
    assert scale.low < scale.high


@given(finite, finite, st.integers(1, 12))
def test_ticks_are_inside_the_axis_and_few(one: float, two: float, count: int) -> None:
    scale = nice_scale(min(one, two), max(one, two))
    found = ticks(scale, count)
    slack = (scale.high / 2 - scale.low / 2) * 1e-6
    assert len(found) <= 4 * count + 1
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in found)


@given(finite, finite)
@example(0.0, 2.2e-313)
def test_an_axis_has_two_ticks_at_least(one: float, two: float) -> None:
    assert len(ticks(nice_scale(min(one, two), max(one, two)), 2)) >= 2


@given(st.floats(0, 1e8), st.floats(0.1, 1e8), st.integers(1, 12))
def test_ticks_of_time_are_inside_the_axis_and_few(low: float, span: float, count: int) -> None:
    found = time_ticks(low, low + span, count)
    assert len(found) <= count + 1
    assert all(low - 1e-6 <= tick <= low + span + 1e-6 for tick in found)


def test_a_logarithmic_axis_is_ticked_at_powers_of_ten() -> None:
    assert ticks(Scale(1e-3, 1e3, log=True), 7) == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10, 100, 1000])
    assert len(ticks(Scale(1e-38, 1e38, log=True), 5)) <= 7


@given(finite, st.floats(0, 1e6))
def test_a_tick_label_is_short(value: float, step: float) -> None:
    assert 0 < len(format_tick(value, step)) <= 12


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [(0, 1, "0"), (2.5, 0.5, "2.5"), (3, 0.5, "3.0"), (1e-38, 0, "1e-38"), (1e38, 0, "1e38"), (2_500_000, 0, "2.5M"),
     (-0.25, 0.25, "-0.25"), (40, 20, "40")],
)  # fmt: skip
def test_tick_labels(value: float, step: float, text: str) -> None:
    assert format_tick(value, step) == text


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCKS, ASCII])
def test_every_pattern_of_dots_has_a_character(glyphs: type) -> None:
    full = np.ones((glyphs.down, glyphs.across), dtype=bool)
    assert glyphs.patterns(full)[0, 0] == len(glyphs.table) - 1
    assert glyphs.patterns(~full)[0, 0] == 0
    assert len(set(glyphs.table)) == len(glyphs.table)


def test_braille_dots_are_where_unicode_has_them() -> None:
    dots = np.zeros((4, 2), dtype=bool)
    dots[0, 0] = dots[3, 1] = True
    assert BRAILLE.table[BRAILLE.patterns(dots)[0, 0]] == "⢁"


def test_ascii_is_ascii() -> None:
    assert ASCII.table.isascii()
