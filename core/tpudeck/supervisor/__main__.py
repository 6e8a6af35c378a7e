"""``python -m tpudeck.supervisor RUN_DIR [--lock DESCRIPTOR]``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tpudeck.errors import RetryLaterError, TpudeckError
from tpudeck.runs import locks
from tpudeck.supervisor import Supervisor


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tpudeck.supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, help="descriptor of run.lock, taken by the launcher")
    arguments = parser.parse_args()
    lock = arguments.lock
    if lock is None:
        lock = locks.acquire(arguments.folder / "run.lock")
    else:
        os.set_inheritable(lock, False)
    if lock is None:
        print(f"{arguments.folder} has a supervisor", file=sys.stderr)
        return RetryLaterError.exit_code
    try:
        return Supervisor(arguments.folder.absolute()).run()
    except TpudeckError as error:
        print(error.show(), file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
