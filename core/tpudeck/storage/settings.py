"""``[storage]`` in ``config.toml``: where things go, who pays, how long to try, and how much may be cached."""

from __future__ import annotations

from dataclasses import dataclass

from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.units import parse_bytes, parse_duration

__all__ = ["Settings", "settings"]

_TEXTS = frozenset({"project", "billing_project", "store"})


@dataclass(frozen=True)
class Settings:
    """The section, read and checked."""

    project: str = ""
    """Of the client; empty: what the credentials say."""
    billing_project: str = ""
    """Who pays for requests to requester-pays buckets."""
    store: str = ""
    """Where runs and artefacts go when no bucket is named: ``gs://bucket/prefix``."""
    deadline_s: float = 120.0
    """How long one operation is retried. In the file: ``deadline``, a duration."""
    cache_bytes: int = 20 * 10**9
    """How much of what was read from buckets is kept here. In the file: ``cache``, a size."""


def settings(home: Home | None = None) -> Settings:
    """The user's settings; an :class:`InputError` names what is wrong with them."""
    home = home or Home.here()
    table = dict(home.settings().get("storage", {}))
    deadline, cache = table.pop("deadline", Settings.deadline_s), table.pop("cache", Settings.cache_bytes)
    wrong = [key for key, value in table.items() if key not in _TEXTS or not isinstance(value, str)]
    if wrong:
        rule = "[storage] holds the texts project, billing_project and store, a deadline and a size of the cache"
        raise InputError(f"{home.settings_file}: {rule}, got {', '.join(wrong)}")
    return Settings(**table, deadline_s=parse_duration(deadline), cache_bytes=parse_bytes(cache))
