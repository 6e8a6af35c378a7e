"""Telling somebody, from a process of its own: it may be slow, retry, hang or die.

A target is a name from the user's ``config.toml`` ::

    [notify.team]
    url = "https://…"            # or: command = "notify-send tpudeck"

or a command, or a web address. A command gets the alert as JSON on its standard input, an address gets it posted. What
is told, and to whom, goes to the sending process through a pipe, never in its arguments: an address can be a secret.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpudeck.config import Home
from tpudeck.errors import InputError, WorkError

__all__ = ["Notifier", "check_target", "send"]

PAUSES_S = (1.0, 5.0, 25.0)
"""Between tries."""
_TRY_S = 20.0
_MOST_AT_ONCE = 8


def _resolve(target: str, home: Home) -> tuple[str, str]:
    """What a target means: ``url`` or ``command``, and which."""
    named = home.settings().get("notify", {}).get(target)
    if isinstance(named, dict):
        for kind in ("url", "command"):
            if isinstance(named.get(kind), str):
                return kind, named[kind]
        raise InputError(f"[notify.{target}] in {home.settings_file} needs a url or a command")
    if target.startswith(("http://", "https://")):
        return "url", target
    return "command", target


def check_target(target: str, home: Home) -> None:
    """Raise where nobody could be told this way."""
    kind, value = _resolve(target, home)
    if kind == "command":
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise InputError(f"a command is words as a shell splits them, got {value!r} ({error})") from error
        if not words or shutil.which(words[0]) is None:
            raise InputError(
                f"who to notify is a name in config.toml, a command, or a URL; got {target!r}",
                hint=f"{home.settings_file} can hold [notify.{target}] with a url or a command" if words else "",
            )


class Notifier:
    """The supervisor's side: starts senders and forgets them."""

    def __init__(self, targets: Sequence[str], *, log: Path) -> None:
        self._targets = targets
        self._log = log
        self._senders: list[subprocess.Popen[bytes]] = []

    def tell(self, alert: Mapping[str, Any]) -> None:
        """Send to every target; trouble with that stays in the log."""
        self._senders = [sender for sender in self._senders if sender.poll() is None]
        for target in self._targets[: _MOST_AT_ONCE - len(self._senders)]:
            with contextlib.suppress(OSError):
                self._start({"target": target, "alert": alert})

    def _start(self, message: Mapping[str, Any]) -> None:
        with self._log.open("ab") as log:
            sender = subprocess.Popen(
                [sys.executable, "-m", "tpudeck.alerts"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._senders.append(sender)
        assert sender.stdin is not None
        with sender.stdin as pipe:
            pipe.write(json.dumps(message).encode())


def send(target: str, alert: Mapping[str, Any], *, home: Home, sleep: Callable[[float], None] = time.sleep) -> None:
    """Tell one target, trying again a few times; raises :class:`WorkError` when that was in vain."""
    kind, value = _resolve(target, home)
    body = json.dumps(alert).encode()
    reason = ""
    for pause_s in (*PAUSES_S, None):
        try:
            (_post if kind == "url" else _run)(value, body)
            return
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = type(error).__name__ if kind == "url" else str(error)
        if pause_s is not None:
            sleep(pause_s)
    shown = "a web address" if kind == "url" and target == value else target
    raise WorkError(f"{shown} could not be told of {alert.get('alert')!r}: {reason}")


def _post(url: str, body: bytes) -> None:
    import urllib.request

    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "User-Agent": "tpudeck"})
    with urllib.request.urlopen(request, timeout=_TRY_S) as answer:
        answer.read(1024)


def _run(command: str, body: bytes) -> None:
    subprocess.run(shlex.split(command), input=body, timeout=_TRY_S, check=True)
