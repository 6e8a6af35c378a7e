"""A console on an empty home, driven without a terminal."""

from __future__ import annotations

import pytest

from tpudeck.config import Home
from tpudeck_tui.app import Deck


@pytest.fixture
def deck(home: Home, monkeypatch: pytest.MonkeyPatch) -> Deck:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    return Deck(home, refresh_s=0.05)
