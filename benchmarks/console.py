"""The console on a real pseudo-terminal, against its budgets. Exits with 1 where one is broken.

* first useful frame, with a thousand runs present: at most 1.5x an empty Textual application's on the same terminal
* idle: not a byte
* a live run at 80x24: under 30 KiB/s
* a key press while the chart of a million points is open: on the screen within 50 ms

Times are medians of several tries that take turns, so that what else the machine does falls on both sides.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tpudeck.config import Home
from tpudeck.runs.writer import RunWriter
from tui.fakes import FakeRun
from tui.terminal import terminal

TRIES = 7
LEFT, RIGHT = "\x1b[D", "\x1b[C"
EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("ready")
Empty().run()
"""


def home_with_runs(root: Path, count: int) -> Home:
    home = Home(root)
    for number in range(count):
        FakeRun(home, f"run-{number:04d}", created=time.time() - 86400 * 3 - number, number=number).finish()
    return home


def first_frames(home: Home) -> tuple[float, float]:
    """Seconds until there is something to use: an empty application, and the console."""
    times: dict[str, list[float]] = {"empty": [], "console": []}
    for _ in range(TRIES):
        with terminal(command=(sys.executable, "-c", EMPTY)) as found:
            times["empty"].append(found.until("ready"))
        with terminal(TPUDECK_HOME=str(home.root)) as found:
            times["console"].append(found.until("run-0000"))
    return statistics.median(times["empty"]), statistics.median(times["console"])


def idle_bytes(home: Home, seconds: float) -> int:
    with terminal(TPUDECK_HOME=str(home.root)) as console:
        console.until("run-0000")
        console.read(2)
        return len(console.read(seconds))


def live_bytes_per_s(home: Home, seconds: float) -> float:
    """A run that logs ten times a second, faster than anything real."""
    run = FakeRun(home, "live", total_steps=300_000)
    run.train(150_000)
    run.live(step=150_000, done=150_000, total=300_000)
    writer, step = RunWriter(run.folder), 150_000
    with terminal(TPUDECK_HOME=str(home.root)) as console:
        console.until("live")
        console.press("4")
        console.until("step 150,000")
        console.read(1)
        before, started = console.written, time.monotonic()
        while time.monotonic() - started < seconds:
            step += 50
            writer.metrics(
                step, loss=4.6 + step % 7 / 20, tokens_per_s=31_000.0 + step % 900, step_s=0.033, grad_norm=1.0
            )
            console.read(0.1)
        rate = (console.written - before) / (time.monotonic() - started)
    run.finish()
    run.release()
    return rate


def key_latency_s(home: Home, points: int) -> tuple[float, float]:
    """From a key press to the last byte it causes, with a huge chart open: median and largest."""
    run = FakeRun(home, "huge", total_steps=points)
    run.finish()
    with (run.folder / "metrics.jsonl").open("wb") as file:
        for step in range(1, points + 1):
            line = {
                "step": step,
                "time": run.created + step / 50,
                "attempt": 0,
                "loss": 4 + step % 101 / 100 + 3e5 / (step + 1e5),
            }
            file.write(orjson.dumps(line) + b"\n")
    latencies = []
    with terminal(size=(120, 40), TPUDECK_HOME=str(home.root)) as console:
        console.until("huge")
        console.press("4")
        console.until(f"step {points:,}", within_s=60)
        console.until(lambda text: "reading the whole run" not in text, within_s=60)
        console.read(2)
        for key in (*[LEFT] * 3, "+", "-", "y", "y", *[RIGHT] * 2, "+", "-", *"sssss"):
            console.press(key)
            latencies.append(console.settle(quiet_s=0.5))
    return statistics.median(latencies), max(latencies)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = home_with_runs(Path(folder) / "home", 1000)
        os.environ["TPUDECK_HOME"] = str(home.root)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")  # installed code is compiled before it runs
        empty_s, console_s = first_frames(home)
        idle = idle_bytes(home, 5)
        live = live_bytes_per_s(home, 5)
        key_s, slowest_s = key_latency_s(home, 1_000_000)
    results = [
        (f"first useful frame, 1,000 runs: {console_s * 1e3:.0f} ms; an empty application: {empty_s * 1e3:.0f} ms; "
         f"{console_s / empty_s:.2f}x (at most 1.5x)", console_s <= 1.5 * empty_s),
        (f"idle: {idle} bytes in 5 s (0)", idle == 0),
        (f"live run at 80x24: {live / 1024:.1f} KiB/s (under 30)", live < 30 * 1024),
        (f"key press, a million points: median {key_s * 1e3:.0f} ms (at most 50), slowest {slowest_s * 1e3:.0f} ms",
         key_s <= 0.05),
    ]  # fmt: skip
    for text, good in results:
        print(f"{'✓' if good else '✗'} {text}")
    return 0 if all(good for _, good in results) else 1


if __name__ == "__main__":
    sys.exit(main())
