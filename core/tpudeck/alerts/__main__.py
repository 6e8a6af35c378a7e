"""``python -m tpudeck.alerts``: read one message from standard input, send it, and say so where that fails."""

from __future__ import annotations

import json
import sys

from tpudeck.alerts.notify import send
from tpudeck.config import Home
from tpudeck.errors import TpudeckError


def main() -> int:
    message = json.load(sys.stdin)
    try:
        send(message["target"], message["alert"], home=Home.here())
    except TpudeckError as error:
        print(f"notify: {error.show()}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
