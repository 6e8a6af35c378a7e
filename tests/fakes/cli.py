"""The real command line over faked stages: ``python tests/fakes/cli.py runs list``.

``TPUDECK_FAKE`` holds what goes into ``fake.json`` of the runs that it makes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpudeck import launch
from tpudeck.launch import control


def with_behaviour(create: Callable[..., Path]) -> Callable[..., Path]:
    """`launch.create`, and the behaviour beside what it makes."""

    def made(*arguments: Any, **named: Any) -> Path:
        folder = create(*arguments, **named)
        (folder / "fake.json").write_text(os.environ.get("TPUDECK_FAKE", "{}"))
        return folder

    return made


if __name__ == "__main__":
    from tpudeck.cli import main

    control.SUPERVISOR = (sys.executable, str(Path(__file__).with_name("supervisor.py")))
    launch.create = with_behaviour(launch.create)
    main()
