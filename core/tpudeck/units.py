"""Bytes, durations, counts and intervals: read as people write them, printed as people read them.

Everything inside the program is a plain number in a base unit (bytes, seconds, tokens, steps). This module is the only
place where ``"10 min"``, ``"3 epochs"``, ``"5 %"`` or ``"1.5 GiB"`` is understood.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from tpudeck.errors import InputError

__all__ = [
    "Interval",
    "IntervalUnit",
    "counted",
    "format_bytes",
    "format_count",
    "format_duration",
    "format_rate",
    "parse_bytes",
    "parse_count",
    "parse_duration",
    "parse_interval",
]

_NUMBER = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([a-zA-Z%]*)\s*")

_BYTES: dict[str, int] = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    prefix.lower() + unit: int(base**power)
    for power, prefix in enumerate("KMGTP", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SECONDS = {
    "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}


def _split(text: str, rule: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    number = float(match[1].replace("_", "").replace(",", "")) if match else math.inf
    if match is None or not math.isfinite(number):
        raise InputError(f"{rule}, got {text!r}")
    return number, match[2].lower()


def parse_bytes(text: str | int) -> int:
    """``"8 MB"``, ``"1.5 GiB"`` or a number of bytes → bytes."""
    rule = "a size is a number of bytes, kB, MB, GB, KiB, MiB or GiB"
    number, unit = _split(str(text), rule)
    if unit not in _BYTES:
        raise InputError(f"{rule}, got {text!r}")
    return round(number * _BYTES[unit])


def parse_duration(text: str | int | float) -> float:
    """``"90 s"``, ``"10 min"``, ``"1h30m"`` or a number of seconds → seconds."""
    rule = "a duration is a number of s, min, h or days"
    if isinstance(text, (int, float)):
        return float(text)
    parts = re.findall(r"[0-9.,_]+\s*[a-zA-Z]*", text)
    if not parts or re.sub(r"\s", "", "".join(parts)) != re.sub(r"\s", "", text):
        raise InputError(f"{rule}, got {text!r}")
    total = 0.0
    for part in parts:
        number, unit = _split(part, rule)
        if unit == "" and len(parts) == 1:
            unit = "s"
        if unit not in _SECONDS:
            raise InputError(f"{rule}, got {text!r}")
        total += number * _SECONDS[unit]
    return total


def parse_count(text: str | int | float) -> int:
    """``"250M"``, ``"1e9"``, ``"10k"`` or a number → a whole number (of tokens, documents, …)."""
    rule = "a count is a number, with k, M, B or T if you like"
    if isinstance(text, (int, float)):
        return round(text)
    number, unit = _split(text, rule)
    if unit not in _COUNTS:
        raise InputError(f"{rule}, got {text!r}")
    return round(number * _COUNTS[unit])


IntervalUnit = Literal["steps", "epochs", "seconds", "percent"]

_INTERVAL_UNITS: dict[str, tuple[IntervalUnit, float]] = {
    "": ("steps", 1.0), "step": ("steps", 1.0), "steps": ("steps", 1.0),
    "epoch": ("epochs", 1.0), "epochs": ("epochs", 1.0),
    "%": ("percent", 1.0), "percent": ("percent", 1.0),
    **{name: ("seconds", factor) for name, factor in _SECONDS.items()},
}  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """How often, or how long: an amount in steps, epochs, seconds, or percent of the whole run."""

    amount: float
    unit: IntervalUnit

    def __str__(self) -> str:
        amount = f"{self.amount:g}"
        if self.unit == "steps":
            return f"{amount} steps"
        if self.unit == "epochs":
            return f"{amount} epochs" if self.amount != 1 else "1 epoch"
        if self.unit == "percent":
            return f"{amount} %"
        return format_duration(self.amount)

    def to_steps(self, *, total_steps: int, steps_per_epoch: float, step_s: float | None = None) -> int:
        """In whole steps, at least one (zero stays zero).

        ``step_s`` is the duration of one step in seconds; an interval in seconds has no length in steps without it.
        """
        if self.amount <= 0:
            return 0
        if self.unit == "steps":
            steps = self.amount
        elif self.unit == "epochs":
            steps = self.amount * steps_per_epoch
        elif self.unit == "percent":
            steps = self.amount / 100 * total_steps
        elif step_s is None:
            raise ValueError("an interval in seconds needs the duration of a step")
        else:
            steps = self.amount / step_s
        return max(1, math.floor(steps + 0.5))


def parse_interval(text: str | int | float) -> Interval:
    """``500``, ``"500 steps"``, ``"1 epoch"``, ``"10 min"`` or ``"5 %"`` → an :class:`Interval`."""
    rule = "an interval is a number of steps, epochs, s, min, h or %"
    if re.search(r"[hmd]\s*[0-9]", str(text)):  # several parts, as in 1h30m
        return Interval(parse_duration(str(text)), "seconds")
    number, unit = _split(str(text), rule)
    if unit not in _INTERVAL_UNITS:
        raise InputError(f"{rule}, got {text!r}")
    kind, factor = _INTERVAL_UNITS[unit]
    return Interval(number * factor, kind)


def format_bytes(count: float) -> str:
    """1536 → ``"1.5 KiB"``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def counted(count: int, thing: str) -> str:
    """1, ``"replica"`` → ``"1 replica"``; 1200 → ``"1,200 replicas"``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def format_count(count: float) -> str:
    """1234567 → ``"1.23M"``; small numbers stay whole."""
    if not math.isfinite(count):
        return str(count)
    for unit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= max(0.9995 * unit, 9999.5):  # what three digits round up to a whole unit belongs to it
            return f"{float(f'{count / unit:.3g}'):g}{suffix}"
    return f"{count:,.0f}"


def format_duration(seconds: float) -> str:
    """4000 → ``"1h06m"``: two units at most."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 10:
        return f"{seconds:.2g}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def format_rate(per_second: float, unit: str) -> str:
    """5830, ``"tokens"`` → ``"5,830 tokens/s"``."""
    return f"{format_count(per_second)} {unit}/s"
