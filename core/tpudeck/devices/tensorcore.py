"""TensorCore utilisation: how busy the matrix units of the local TPU chips are.

It is read through libtpu's monitoring library, which asks an agent on the host. libtpu is code that can stall for half
a minute or abort its process, so it is loaded in a child that answers one line for one line and is killed when it does
not.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time

__all__ = ["TensorCoreProbe"]

_METRIC = "tensorcore_util"
_RESTART_AFTER_S = 60.0
"""A child that failed is not tried again before this."""


class TensorCoreProbe:
    """Asks the child, and starts it again where it has died."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", __name__), *, deadline_s: float = 5.0) -> None:
        self._command = command
        self._deadline_s = deadline_s
        self._child: subprocess.Popen[bytes] | None = None
        self._failure = ""
        self._restart_at = 0.0

    def read(self) -> tuple[list[float], str]:
        """Percent for each device in order; or nothing, and why."""
        if self._child is None:
            if time.monotonic() < self._restart_at:
                return [], self._failure
            self._child = self._start()
        answer, failure = self._ask(self._child)
        if answer is None:
            return [], self._give_up(failure)
        if "error" in answer:
            return [], str(answer["error"])
        try:
            values = [float(value) for value in answer["values"]]
        except ValueError:
            return [], f"the host's agent reports {answer['values']}"
        return values, "" if values else "the host's agent reports none"

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _start(self) -> subprocess.Popen[bytes]:
        quiet = {"TPU_SKIP_MDS_QUERY": "1", "TPU_LOG_DIR": "disabled"}
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ) | quiet,
        )

    def _ask(self, child: subprocess.Popen[bytes]) -> tuple[dict[str, list[str]] | None, str]:
        """One line there, one line back; none and the failure where that does not work."""
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(b"\n")
            child.stdin.flush()
        except OSError:
            return None, "the process that asks libtpu has died"
        if not select.select([child.stdout], [], [], self._deadline_s)[0]:
            return None, f"libtpu did not answer within {self._deadline_s:g} s"
        try:
            answer: dict[str, list[str]] = json.loads(child.stdout.readline())
        except ValueError:
            return None, "the process that asks libtpu has died"
        return answer, ""

    def _give_up(self, failure: str) -> str:
        self.close()
        self._failure = failure
        self._restart_at = time.monotonic() + _RESTART_AFTER_S
        return failure


def _serve() -> None:
    """The child: for every line on standard input, one line of JSON on standard output."""
    try:
        from libtpu.sdk import tpumonitoring
    except ImportError:
        tpumonitoring = None
    for _ in sys.stdin:
        if tpumonitoring is None:
            answer: dict[str, object] = {"error": "libtpu with its monitoring library is not installed"}
        elif _METRIC not in tpumonitoring.list_supported_metrics():
            answer = {"error": "this libtpu does not report it"}  # asking for an unknown name aborts the process
        else:
            answer = {"values": list(tpumonitoring.get_metric(_METRIC).data())}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
