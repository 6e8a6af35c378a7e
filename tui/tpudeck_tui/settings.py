"""What a user chose, and what the console remembers.

Chosen: the table ``[console]`` of ``config.toml`` (theme, light, refresh, ascii, and ``[console.keys]``, which gives
other keys to the ids that `?` shows). Remembered: sort order, theme and the settings of charts, in
``cache/console.json``. Neither can keep the console from starting: a mistake becomes a notice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.storage import read_json, write_json

__all__ = ["Memory", "Settings"]


@dataclass(frozen=True)
class Settings:
    """The user's choices."""

    theme: str = ""
    light: bool = False
    refresh: float = 0.5
    """Seconds between looks at the runs."""
    ascii: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    """Binding id → key."""
    problem: str = ""
    """Why the file was not followed, in a line."""

    @classmethod
    def load(cls, home: Home) -> Settings:
        try:
            table = home.settings().get("console", {})
        except InputError as error:
            return cls(problem=error.message)
        if not isinstance(table, dict):
            return cls(problem=f"{home.settings_file}: console is a table, got {table!r}")
        kinds: dict[str, type | tuple[type, ...]] = {
            "theme": str, "light": bool, "refresh": (int, float), "ascii": bool, "keys": dict,
        }  # fmt: skip
        good: dict[str, Any] = {
            key: value for key, value in table.items() if key in kinds and isinstance(value, kinds[key])
        }
        bad = sorted(set(table) - set(good))
        problem = f"{home.settings_file}: console.{bad[0]} is not understood, got {table[bad[0]]!r}" if bad else ""
        good["keys"] = {key: str(value) for key, value in good.get("keys", {}).items()}
        return cls(**good, problem=problem)


class Memory:
    """A few values that outlive the console; losing them costs nothing."""

    def __init__(self, home: Home) -> None:
        self._path = home.cache / "console.json"
        try:
            data = read_json(self._path)
        except (OSError, orjson.JSONDecodeError):
            data = {}
        self._values: dict[str, Any] = data if isinstance(data, dict) else {}

    def get(self, key: str, default: Any) -> Any:
        """What was kept under a key, where it is of the default's type."""
        value = self._values.get(key)
        return value if isinstance(value, type(default)) else default

    def keep(self, key: str, value: Any) -> None:
        if self._values.get(key) == value:
            return
        self._values[key] = value
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._values)
