"""What only a real terminal shows: hang-ups, resizes, what it can and cannot do, and how much is written to it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest

from tpudeck.config import Home
from tui.fakes import FakeRun, fill
from tui.terminal import terminal

pytestmark = pytest.mark.pty


def test_the_console_is_gone_soon_after_its_terminal() -> None:
    with terminal() as console:
        console.until("No runs yet.")
        console.hang_up()
        assert console.process.wait(timeout=2) != 0


def test_the_console_is_gone_soon_after_its_terminal_even_under_nohup() -> None:
    ignore = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    command = (sys.executable, "-c", ignore, sys.executable, "-m", "tpudeck_tui")
    with terminal(command=command) as console:
        console.until("No runs yet.")
        console.hang_up()
        console.process.wait(timeout=2)


def test_an_idle_console_writes_nothing(home: Home) -> None:
    fill(home, 4)
    with terminal() as console:
        console.until("run-00")
        console.read(1.5)
        assert console.read(2.5) == b""


def test_a_live_run_costs_little_of_the_line(home: Home) -> None:
    from tpudeck.runs.writer import RunWriter

    run = FakeRun(home, "grows", total_steps=400_000)
    run.train(200_000)
    run.live(step=1, done=1, total=400_000)
    with terminal() as console:
        console.until("grows")
        console.press("4")
        console.until("step 200,000")
        console.read(1.0)
        writer = RunWriter(run.folder)
        before, step = console.written, 200_000
        started = time.monotonic()
        while time.monotonic() - started < 3:
            step += 50
            writer.metrics(
                step, loss=5.0 + step % 7 / 10, tokens_per_s=31_000.0 + step % 900, step_s=0.03, grad_norm=1.0
            )
            console.read(0.1)
        rate = (console.written - before) / (time.monotonic() - started)
        assert 0 < rate < 30 * 1024
        writer.close()
    run.release()


def test_a_size_that_is_soon_what_it_was_leaves_a_whole_screen(home: Home) -> None:
    fill(home, 3)
    with terminal() as console:
        console.until("run-00")
        width, height = console.width, console.height
        console.settle()
        console.process.send_signal(signal.SIGSTOP)
        console.resize(40, 10)
        console.resize(width, height)
        console.process.send_signal(signal.SIGCONT)
        console.until(lambda text: "run-02" in text and "? Keys" in text)


def test_a_storm_of_resizes_leaves_a_whole_screen(home: Home) -> None:
    fill(home, 3)
    with terminal() as console:
        console.until("run-00")
        for size in [(60, 16), (200, 50), (40, 10), (120, 40), (61, 17), (250, 70)] * 5:
            console.resize(*size)
            console.read(0.01)
        console.resize(100, 30)
        console.until(lambda text: "run-02" in text and "? Keys" in text and "tpudeck needs" not in text)


def test_leaving_says_that_runs_go_on_and_restores_the_terminal(home: Home) -> None:
    run = FakeRun(home, "going")
    run.live(step=10)
    with terminal() as console:
        console.until("going")
        console.press("q")
        written = console.read(3)
        assert console.process.wait(timeout=3) == 0
        assert b"1 run goes on without the console" in written
        assert b"\x1b[?1049l" in written
        assert b"\x1b[?25h" in written
    run.release()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor_is_refused_in_words(term: str) -> None:
    with terminal(TERM=term) as console:
        written = console.read(5)
        assert console.process.wait(timeout=5) == 2
        assert b"tpudeck runs list" in written
        assert b"\x1b[" not in written


def test_without_a_terminal_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tpudeck_tui"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


def colours_in(written: bytes) -> set[str]:
    """How colours were chosen: ``2`` for 24 bits, ``5`` for 256, empty for the 16."""
    codes = [code for match in re.findall(rb"\x1b\[([0-9;]*)m", written) for code in [match.decode()]]
    kinds = {"2" for code in codes if "38;2;" in code or "48;2;" in code}
    kinds |= {"5" for code in codes if "38;5;" in code or "48;5;" in code}
    return kinds


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({"TERM": "xterm"}, set()),
        ({"TERM": "linux"}, set()),
        ({"TERM": "screen"}, set()),
        ({"TERM": "xterm-256color"}, {"5"}),
        ({"TERM": "tmux-256color"}, {"5"}),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"2"}),
    ],
)
def test_every_terminal_gets_the_colours_it_has(home: Home, environ: dict[str, str], allowed: set[str]) -> None:
    run = FakeRun(home, "coloured")
    run.train(1000)
    run.finish()
    with terminal(**environ) as console:
        console.until("coloured")
        console.press("4")
        written = console.read(2.5)
        assert "loss" in console.text
        assert colours_in(written) <= allowed


def test_no_colour_means_greys(home: Home) -> None:
    fill(home, 2)
    with terminal(NO_COLOR="1", COLORTERM="truecolor") as console:
        console.read(3)
        written = console.read(0.1)
        console.press("4")
        written += console.read(2.5)
        triples = re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", written)
        assert triples
        assert all(red == green == blue for red, green, blue in triples)


def test_a_locale_without_unicode_gets_ascii(home: Home) -> None:
    fill(home, 2)
    with terminal(
        LANG="C", LC_ALL="POSIX", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    ) as console:
        console.until("run-00")
        console.press("4")
        written = console.read(2)
        assert written.isascii()
        assert "loss" in console.text


def test_the_command_line_hands_its_options_to_the_console(home: Home) -> None:
    command = (sys.executable, "-m", "tpudeck.cli", "--readonly", "--ascii")
    with terminal(command=command) as console:
        console.until(lambda text: "No runs yet." in text and "read-only" in text)
        assert console.text.isascii()


def test_sigterm_restores_the_terminal_like_q() -> None:
    with terminal() as console:
        console.until("No runs yet.")
        console.process.send_signal(signal.SIGTERM)
        written = console.read(3)
        assert console.process.wait(timeout=3) == 128 + signal.SIGTERM
        assert b"\x1b[?1049l" in written
        assert b"\x1b[?25h" in written


def test_ctrl_z_goes_to_the_shell_and_fg_comes_back() -> None:
    with terminal(command=("sh", "-i"), PS1="ready ") as shell:
        shell.until("ready")
        shell.press(f"{sys.executable} -m tpudeck_tui\n")
        shell.until("No runs yet.")
        shell.press("\x1a")
        shell.until("Stopped")
        shell.press("fg\n")
        shell.emulator.reset()
        shell.until("No runs yet.")
        shell.press("?")
        shell.until("Help")


def test_ctrl_z_without_a_shell_says_so_and_stops_nothing() -> None:
    with terminal() as console:
        console.until("No runs yet.")
        console.press("\x1a")
        console.until("no shell here")
        console.press("q")
        console.read(3)
        assert console.process.wait(timeout=3) == 0


@pytest.mark.slow
def test_a_stalled_link_delays_the_display_and_nothing_else(home: Home) -> None:
    run = FakeRun(home, "grows")
    run.train(1000)
    run.live(step=1000, done=1000, total=5400)
    from tpudeck.runs.writer import RunWriter

    with terminal() as console:
        console.until("grows")
        console.press("4")
        console.until("step 1,000")
        writer = RunWriter(run.folder)
        for step in range(1050, 3050, 50):
            writer.metrics(step, loss=5.0)
            writer.progress(force=True, task="train", done=step, total=5400, unit="steps", step=step)
            time.sleep(0.15)  # nobody reads the terminal meanwhile
        console.until("step 3,000")
        writer.close()
    run.release()
