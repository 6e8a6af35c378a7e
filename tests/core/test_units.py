"""Numbers as people write and read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpudeck.errors import InputError
from tpudeck.units import (
    Interval,
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    parse_bytes,
    parse_count,
    parse_duration,
    parse_interval,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(1024, 1024), ("8 MB", 8_000_000), ("1.5 GiB", 1_610_612_736), ("3k", 3000), ("1_000", 1000), ("2 bytes", 2)],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (90, 90.0),
        ("90", 90.0),
        ("90 s", 90.0),
        ("10 min", 600.0),
        ("1h30m", 5400.0),
        ("1h 30 min", 5400.0),
        ("2 days", 172800.0),
        ("250ms", 0.25),
    ],
)
def test_durations(text: str | int, expected: float) -> None:
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250M", 250_000_000), ("1e9", 10**9), ("10k", 10_000), (7, 7), ("1.5B", 1_500_000_000)],
)
def test_counts(text: str | int, expected: int) -> None:
    assert parse_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (500, Interval(500, "steps")),
        ("500 steps", Interval(500, "steps")),
        ("1 epoch", Interval(1, "epochs")),
        ("5 %", Interval(5, "percent")),
        ("10 min", Interval(600, "seconds")),
        ("10m", Interval(600, "seconds")),
        ("1e3 steps", Interval(1000, "steps")),
        ("1h 30 min", Interval(5400, "seconds")),
    ],
)
def test_intervals(text: str | int, expected: Interval) -> None:
    assert parse_interval(text) == expected


@pytest.mark.parametrize("parse", [parse_bytes, parse_duration, parse_count, parse_interval])
@pytest.mark.parametrize("text", ["", "soon", "-3 s", "3 parsecs", "1 2", "nan", "1e999999"])
def test_what_is_no_amount_is_refused_with_what_arrived(parse: object, text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)  # type: ignore[operator]
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("interval", "steps"),
    [
        (Interval(50, "steps"), 50),
        (Interval(0.5, "epochs"), 125),
        (Interval(5, "percent"), 50),
        (Interval(30, "seconds"), 60),
        (Interval(0.001, "percent"), 1),
        (Interval(0, "epochs"), 0),
    ],
)
def test_an_interval_is_at_least_one_step_unless_it_is_zero(interval: Interval, steps: int) -> None:
    assert interval.to_steps(total_steps=1000, steps_per_epoch=250, step_s=0.5) == steps


def test_an_interval_in_seconds_has_no_steps_without_a_speed() -> None:
    with pytest.raises(ValueError, match="duration of a step"):
        Interval(30, "seconds").to_steps(total_steps=10, steps_per_epoch=1)


@pytest.mark.parametrize("text", ["500 steps", "2 epochs", "1 epoch", "5 %", "30s", "1h06m"])
def test_an_interval_prints_as_something_that_reads_back_as_itself(text: str) -> None:
    assert str(parse_interval(text)) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (9_999, "9,999"),
        (10_000, "10k"),
        (999_600, "1M"),
        (1_234_567, "1.23M"),
        (5e15, "5000T"),
        (math.inf, "inf"),
    ],
)
def test_printed_counts_have_three_digits(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.033, "0.033s"),
        (59.6, "1m00s"),
        (61, "1m01s"),
        (4000, "1h06m"),
        (90_000, "1d01h"),
        (math.nan, "–"),
        (-61, "-1m01s"),
    ],
)
def test_printed_durations_have_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (8 * 2**30, "8.0 GiB"), (5000 * 2**40, "5000 TiB")],
)
def test_printed_sizes_are_in_powers_of_1024(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_a_rate_carries_its_unit() -> None:
    assert format_rate(5830, "tokens") == "5,830 tokens/s"


@given(st.integers(min_value=1, max_value=10**15))
def test_a_printed_count_reads_back_within_half_a_percent(count: int) -> None:
    assert parse_count(format_count(count)) == pytest.approx(count, rel=0.0051)


@given(st.integers(min_value=0, max_value=10**8))
def test_a_printed_duration_reads_back_within_its_last_unit(seconds: int) -> None:
    unit = 1 if seconds < 3600 else 60 if seconds < 86400 else 3600
    assert abs(parse_duration(format_duration(seconds)) - seconds) < unit
