"""``python -m tpudeck_tui``: look at the terminal, then open the console on it."""

from __future__ import annotations

import argparse
import gc
import os
import select
import signal
import sys
import threading
from pathlib import Path

from tpudeck.config import Home
from tpudeck.errors import InputError

_HANGUP_EXIT = 128 + signal.SIGHUP


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tpudeck", description="The console: watch, launch and compare runs.")
    parser.add_argument(
        "--readonly", action="store_true", help="watch only: nothing can be started, stopped or changed"
    )
    parser.add_argument("--refresh", type=float, metavar="S", help="seconds between looks at the runs (default 0.5)")
    parser.add_argument("--ascii", action="store_true", help="nothing but ASCII, for locales without UTF-8")
    parser.add_argument("--store", type=Path, metavar="PATH", help="the folder everything lives in (TPUDECK_HOME)")
    return parser.parse_args(argv)


def _refusal() -> str:
    """Why the console cannot open here; empty where it can."""
    instead = "`tpudeck runs list` and `tpudeck run` work without it"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return f"the console needs a terminal for input and output; {instead}"
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        terminal = os.environ.get("TERM", "") or "not set"
        return f"the console needs a terminal that can move its cursor, and TERM is {terminal}; {instead}"
    return ""


def _leave_with_the_terminal() -> None:
    """End with the terminal: a console that outlives its connection burns a core and helps nobody.

    SIGHUP says so where it is not ignored (nohup ignores it); a poll for hang-up on the terminal notices the rest.
    """

    def gone(*_: object) -> None:
        os._exit(_HANGUP_EXIT)

    def wait() -> None:
        poll = select.poll()
        poll.register(sys.__stdin__.fileno() if sys.__stdin__ else 0, 0)
        while not any(
            happened & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, happened in poll.poll(1000)
        ):
            pass
        gone()

    signal.signal(signal.SIGHUP, gone)
    threading.Thread(target=wait, name="terminal", daemon=True).start()


def main(argv: list[str] | None = None) -> int:
    """Open the console; returns the exit code."""
    arguments = _arguments(argv)
    if refusal := _refusal():
        print(f"tpudeck: {refusal}", file=sys.stderr)
        return 2
    _leave_with_the_terminal()
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    try:
        home = Home.at(arguments.store.expanduser().absolute()) if arguments.store else Home.here()
    except InputError as error:
        print(f"tpudeck: {error.show()}", file=sys.stderr)
        return error.exit_code
    os.environ["TPUDECK_HOME"] = str(home.root)
    gc.disable()  # until the first frame nothing is garbage, and looking for it takes a tenth of the start
    from tpudeck_tui.app import Deck

    deck = Deck(
        home,
        readonly=arguments.readonly,
        refresh_s=arguments.refresh,
        ascii=arguments.ascii or encoding != "utf8",
    )
    deck.run()
    return deck.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
