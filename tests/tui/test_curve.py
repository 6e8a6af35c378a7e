"""Curves that grow: what is kept of them is what their points say."""

from __future__ import annotations

import csv
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpudeck_tui.plot.curve import X_AXES, Curve, Line, follow


def line(values: np.ndarray, *, time: np.ndarray | None = None, label: str = "train", **more: object) -> Line:
    step = np.arange(len(values)) * 10
    time = 1.7e9 + step / 3 if time is None else time
    return Line(label, step, time, values, tokens=step * 1024.0, began=1.7e9, **more)


@given(st.integers(0, 2**32), st.lists(st.integers(1, 300), min_size=2, max_size=6), st.sampled_from([0.0, 0.6, 0.99]))
def test_a_curve_that_grew_is_the_same_as_one_that_was_given_at_once(
    seed: int, sizes: list[int], weight: float
) -> None:
    chance = np.random.default_rng(seed)
    values = chance.normal(size=sum(sizes))
    values[chance.random(len(values)) < 0.02] = math.inf
    time = 1.7e9 + np.cumsum(chance.normal(1, 1 if seed % 2 else 0, len(values)))  # a clock that is set back, or not
    curves: list[Curve] = []
    for end in np.cumsum(sizes):
        curves = follow(curves, (line(values[:end], time=time[:end], scale=2.0),))
        for axis in X_AXES:
            curves[0].points(axis, weight)
    anew = Curve(line(values, time=time, scale=2.0))
    for axis in X_AXES:
        grown, whole = curves[0].points(axis, weight), anew.points(axis, weight)
        np.testing.assert_array_equal(grown.x, whole.x)
        np.testing.assert_allclose(grown.y, whole.y, rtol=1e-12, atol=1e-12)
        assert (np.diff(grown.x) >= 0).all()


def test_what_grows_is_kept_and_what_is_another_is_not() -> None:
    values = np.arange(100.0)
    (curve,) = follow([], (line(values[:50]),))
    assert follow([curve], (line(values),)) == [curve]
    for other in (
        line(values[:99]),
        line(values + 1),
        line(values, time=2e9 + np.arange(100.0)),
        line(values, label="other"),
        line(values, dim=True),
        line(values[:0]),
    ):
        assert follow([curve], (other,)) != [curve]


def test_a_line_without_tokens_has_no_place_on_their_axis() -> None:
    step = np.arange(3)
    assert len(Curve(Line("a", step, step / 1, step / 1)).points("tokens")) == 0


def test_rows_of_an_export_are_full_and_quoted_and_in_the_units_of_the_chart() -> None:
    curve = Curve(line(np.array([1.0, math.nan, 3.0]), label='a,"b"', scale=1e3))
    rows = list(csv.reader("".join(curve.rows("steps", 0, 20, 0.5)).splitlines()))
    assert [row[0] for row in rows] == ['a,"b"'] * 3
    assert [float(row[1]) for row in rows] == [0, 10, 20]
    assert [row[3] for row in rows] == ["1000.0", "nan", "3000.0"]
    assert len("".join(curve.rows("steps", 5, 15, 0.5)).splitlines()) == 1


def test_an_export_is_of_the_points_there_were_when_it_was_asked_for() -> None:
    values = np.arange(100.0)
    (curve,) = follow([], (line(values[:50]),))
    rows = curve.rows("steps", 0, 10_000, 0.6)
    curve.grow(line(values))
    assert len("".join(rows).splitlines()) == 50
