"""What the first frame may cost, seen from the outside: what is imported before it."""

from __future__ import annotations

import gc
import subprocess
import sys

from tpudeck_tui.app import Deck
from tui.views import until

CODE = """
import asyncio, sys
from tpudeck.config import Home
from tpudeck_tui.app import Deck

async def main():
    async with Deck(Home.here()).run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.5)
        print("MODULES", *sorted({name.partition(".")[0] for name in sys.modules}))

asyncio.run(main())
"""


def test_the_list_of_runs_is_on_the_screen_before_anything_heavy_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("MODULES")[2].split())
    assert "textual" in loaded
    assert not loaded & {"numpy", "pydantic", "psutil", "tokenizers", "tensorflow", "transformers", "google", "pyarrow"}


async def test_garbage_is_collected_from_the_first_frame_on(deck: Deck) -> None:
    gc.disable()
    try:
        async with deck.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda _: gc.isenabled())
    finally:
        gc.enable()
        gc.unfreeze()
