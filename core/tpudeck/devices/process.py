"""The sampler in a process of its own, for front ends: whatever a driver does there, here it is a line of text."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time

from tpudeck.devices.readings import Sample

__all__ = ["SamplerProcess"]

_RESTART_AFTER_S = 5.0


class SamplerProcess:
    """Starts ``python -m tpudeck.devices``, keeps its newest sample, and replaces it when it hangs or dies.

    Use it as a context manager; the process ends with it.
    """

    def __init__(self, *, interval_s: float = 2.0, patience_s: float = 10.0, command: tuple[str, ...] = ()) -> None:
        self._command = command or (sys.executable, "-m", "tpudeck.devices", "--interval", f"{interval_s:g}")
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._newest: Sample | None = None
        self._heard = time.monotonic()
        self._child: subprocess.Popen[bytes] | None = None
        self._restart_at = 0.0
        self._reason = "the first sample has not come yet"

    def __enter__(self) -> SamplerProcess:
        self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def newest(self) -> tuple[Sample | None, str]:
        """The newest sample, and what is wrong where it is old or there is none; never waits."""
        self._mend()
        with self._lock:
            return self._newest, self._reason

    def wait(self, timeout_s: float) -> tuple[Sample | None, str]:
        """The first sample that comes from now on, within `timeout_s` seconds; else as :meth:`newest`."""
        with self._lock:
            before = self._newest
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            newest, reason = self.newest()
            if newest is not before and newest is not None:
                return newest, reason
            time.sleep(0.02)
        return self.newest()

    def _start(self) -> None:
        self._heard = time.monotonic()
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        threading.Thread(target=self._listen, args=(self._child,), daemon=True, name="sampler").start()

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        with contextlib.closing(child.stdout):
            for line in child.stdout:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    sample = Sample.from_dict(json.loads(line))
                    with self._lock:
                        self._newest, self._reason, self._heard = sample, "", time.monotonic()

    def _mend(self) -> None:
        """Notice a child that died or hangs, and start another one, though not at once."""
        now = time.monotonic()
        if self._child is None:
            if now >= self._restart_at:
                self._start()
            return
        silent_s = now - self._heard
        if self._child.poll() is not None:
            self._replace(f"the sampler ended with code {self._child.returncode}")
        elif silent_s > self._patience_s:
            self._replace(f"the sampler has not answered for {silent_s:.0f} s")

    def _replace(self, reason: str) -> None:
        self._stop()
        self._restart_at = time.monotonic() + _RESTART_AFTER_S
        with self._lock:
            self._reason = reason
