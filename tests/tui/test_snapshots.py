"""What the main screens look like, to the letter: at a fixed time, of fixed runs, as text.

Where a screen was changed on purpose, ``TPUDECK_SNAPSHOTS=write pytest tests/tui/test_snapshots.py`` writes them anew;
the difference belongs into the review.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tpudeck.config import Home
from tpudeck_tui.app import Deck
from tui.fakes import FakeRun
from tui.views import screen_text, until

NOW = 1_767_225_600.0
"""The first second of 2026, in UTC."""
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture
def runs(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Three runs that ended some time ago; one of them met a NaN."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: NOW)
        patch.setenv("TZ", "UTC")
        time.tzset()
        _fill(home)
        yield home
    time.tzset()


def _fill(home: Home) -> None:
    for number, (name, status) in enumerate((("base", "finished"), ("wide", "stopped"), ("hot", "failed"))):
        rate = 10.0 ** (number - 4)
        run = FakeRun(
            home, name, created=NOW - 86_400 * (3 - number), number=number, tags=("ablation",) if number else (),
            experiment=f'name = "{name}"\n[train]\nsteps = 5400\nlearning_rate = {rate:g}\n',
        )  # fmt: skip
        run.train(5400, seed=number, floor=4.4 + number / 5, nan_at=3000 if status == "failed" else None)
        run.machine(20)
        run.finish(status, loss=4.4 + number / 5)


async def settled(pilot: Pilot[None], words: str) -> str:
    """What the screen says once it has said some words and then nothing new for a while."""
    text = await until(pilot, words)
    for _ in range(50):
        await pilot.pause(0.1)
        before, text = text, screen_text(pilot.app)
        if text == before:
            return text
    raise AssertionError(f"the screen never comes to rest; it shows\n{text}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("screen", "key", "words"), [("runs", "1", "wide"), ("live", "4", "5,400"), ("compare", "5", "● hot")]
)
async def test_screen(
    runs: Home, screen: str, key: str, words: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("COLORTERM", "truecolor"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    deck = Deck(runs, refresh_s=0.05)
    async with deck.run_test(size=size) as pilot:
        await until(pilot, "base")
        await pilot.press(key)
        text = await settled(pilot, words)
    shot = SNAPSHOTS / f"{screen}-{size[0]}x{size[1]}.txt"
    if os.environ.get("TPUDECK_SNAPSHOTS") == "write":
        shot.parent.mkdir(exist_ok=True)
        shot.write_text(text + "\n", encoding="utf-8")
    assert text.splitlines() == shot.read_text(encoding="utf-8").splitlines()
