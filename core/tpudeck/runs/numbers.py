"""Numbers in JSON, which has none that are not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["decode_number", "encode_number", "plain"]


def encode_number(value: float) -> float | str:
    """A number as JSON can hold it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode_number(value: Any) -> Any:
    """The way back from :func:`encode_number`; everything else stays as it is."""
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value.replace("Infinity", "inf"))
    return value


def plain(value: Any) -> Any:
    """Nested data with every number encoded for JSON."""
    if isinstance(value, float):
        return encode_number(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
