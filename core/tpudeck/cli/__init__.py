"""The command line: parse, call the core, print. One module per noun; nothing heavy is imported before it is needed.

Standard output is data (a table, or JSON with ``--json``), standard error is narration, and the exit code is an API:
0 done, 1 the work failed, 2 wrong input or configuration, 3 busy: retry later, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tpudeck.errors import TpudeckError

__all__ = ["main"]

_CONSOLE_OPTIONS = ("--readonly", "--refresh", "--ascii", "--store")
"""What the console takes; in front of a command they mean nothing."""


def main() -> NoReturn:
    """Entry point of ``tpudeck``. Without a command it opens the console, with whatever options that has."""
    _reopen_closed_streams()
    from tpudeck.errors import TpudeckError

    words = sys.argv[1:]
    completing = "_TPUDECK_COMPLETE" in os.environ  # the shell asks without words, and for the whole tree
    if not completing and (not words or words[0].partition("=")[0] in _CONSOLE_OPTIONS):
        _open_console(words)
    try:
        _refuse_bytes(words)
        if words[:1] == ["runs"] and not completing:
            # Scripts poll these: the other commands would cost them a sixth more.
            from tpudeck.cli.runs import app

            app(words[1:], prog_name="tpudeck runs")
        else:
            from tpudeck.cli.app import app

            app(prog_name="tpudeck")
    except TpudeckError as error:
        print(f"tpudeck: {error.show()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("tpudeck: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not our failure. Keep the interpreter from flushing into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        told = _told(error)
        print(f"tpudeck: {told.show()}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what could not be written cannot be flushed
        sys.exit(told.exit_code)
    sys.exit(0)


def _told(error: OSError) -> TpudeckError:
    """What the system refused, with the way out where it was about the home."""
    from tpudeck.config import data_folder
    from tpudeck.errors import of_system

    told = of_system(error, where="standard output")
    if str(data_folder()) in told.message:
        told.hint = "TPUDECK_HOME names another place"
    return told


def _refuse_bytes(words: list[str]) -> None:
    """Raise for an argument that is not UTF-8: it could be neither written down nor shown."""
    from tpudeck.errors import InputError

    for word in words:
        if any("\ud800" <= mark <= "\udfff" for mark in word):
            raise InputError(
                f"arguments must be UTF-8, got {word!r}", hint="a file whose name has other bytes: rename it"
            )


def _reopen_closed_streams() -> None:
    """Give a standard stream that is closed (`>&-`) the null device: the next file to be opened would be in its place,
    and get what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _open_console(arguments: list[str]) -> NoReturn:
    """Replace this process by the console, so that the two never share an import."""
    os.execv(sys.executable, [sys.executable, "-m", "tpudeck_tui", *arguments])
