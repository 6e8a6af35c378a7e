"""``python -m tpudeck.mirror RUN LOCATION``: beside a run, until it ends; what it says is in ``mirror.log``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tpudeck.errors import TpudeckError
from tpudeck.mirror import keep_mirrored

_PATIENCE_S = 600.0
"""For the mirror of the attempt before to end."""


def main() -> None:
    """Mirror the run, and say what there is to say."""

    def narrate(line: str) -> None:
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)

    run, location = sys.argv[1:]
    try:
        keep_mirrored(Path(run), location, patience_s=_PATIENCE_S, narrate=narrate)
    except TpudeckError as error:
        narrate(f"the mirror at {location} is not complete: {error.show()}")
        sys.exit(error.exit_code)
    narrate(f"{location} has all of the run")


if __name__ == "__main__":
    main()
