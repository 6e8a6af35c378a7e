"""``PYTHONPATH=tests python -m faults [--seed N] [--count N] [--real N]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from faults.real import run_real
from faults.suite import own_places, run_suite


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description="Inject faults into real runs.")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    parser.add_argument("--count", type=int, default=220, help="faults over faked stages")
    parser.add_argument("--real", type=int, default=8, help="kills of real training")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="tpudeck-faults-") as name, own_places(root := Path(name)):
        report = run_suite(root, seed=options.seed, count=options.count, say=say)
        if options.real:
            run_real(root, report, seed=options.seed, count=options.real, say=say)
    print(report.show())
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
