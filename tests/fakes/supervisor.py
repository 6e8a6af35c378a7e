"""A real supervisor over faked stages: ``python tests/fakes/supervisor.py RUN_DIR --lock N``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tpudeck import jobs
from tpudeck.launch import control
from tpudeck.supervisor.__main__ import main

TESTS = str(Path(__file__).parents[1])

if __name__ == "__main__":
    control.SUPERVISOR = (sys.executable, __file__)  # a queue starts supervisors too
    os.environ["PYTHONPATH"] = TESTS
    jobs.TASKS.update(dict.fromkeys(("tokenizer", "shards", "train"), "fakes.stages"))
    sys.exit(main())
