"""The real command line over faked stages: ``python tests/fakes/cli.py runs list``.

``TPUDECK_FAKE`` holds what goes into ``fake.json`` of the runs that it makes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tpudeck import launch

launch.SUPERVISOR = (sys.executable, str(Path(__file__).with_name("supervisor.py")))


def with_behaviour(create=launch.create):  # type: ignore[no-untyped-def]
    def made(*arguments, **named):  # type: ignore[no-untyped-def]
        folder = create(*arguments, **named)
        (folder / "fake.json").write_text(os.environ.get("TPUDECK_FAKE", "{}"))
        return folder

    return made


launch.create = with_behaviour()

if __name__ == "__main__":
    from tpudeck.cli import main

    main()
