"""Where everything lives, and the user's own settings.

One folder holds all that tpudeck writes: ``TPUDECK_HOME``, or ``tpudeck`` in the platform's data folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpudeck.errors import InputError

__all__ = ["Home", "data_folder", "read_toml"]


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The platform's data folder for tpudeck, unless ``TPUDECK_HOME`` names another."""
    if chosen := environ.get("TPUDECK_HOME"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/tpudeck").expanduser()
    base = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "tpudeck"


@dataclass(frozen=True)
class Home:
    """The folder that holds runs, artefacts, presets and settings. Nothing is created by looking at it."""

    root: Path

    @classmethod
    def here(cls) -> Home:
        """The one this process was told to use."""
        return cls.at(data_folder())

    @classmethod
    def at(cls, root: Path) -> Home:
        """One in a place of its own; :class:`InputError` where a file is in its way."""
        nearest = next(path for path in (root, *root.parents) if os.path.lexists(path))
        if not nearest.is_dir():
            raise InputError(f"home must be a folder, and {nearest} is none", hint="TPUDECK_HOME names another place")
        return cls(root)

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def tokenizers(self) -> Path:
        return self.root / "artifacts" / "tokenizers"

    @property
    def shards(self) -> Path:
        return self.root / "artifacts" / "shards"

    @property
    def presets(self) -> Path:
        """The user's own presets."""
        return self.root / "presets"

    @property
    def cache(self) -> Path:
        """Whatever can be deleted at any time and is made again."""
        return self.root / "cache"

    @property
    def trash(self) -> Path:
        return self.root / "trash"

    @property
    def settings_file(self) -> Path:
        return self.root / "config.toml"

    def settings(self) -> dict[str, Any]:
        """The user's ``config.toml``; empty where there is none."""
        return read_toml(self.settings_file) if self.settings_file.exists() else {}


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data; an :class:`InputError` names the file, line and column of a mistake."""
    # 2 ms, which a list of runs need not pay.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
