"""The notice that a cloud machine will be taken away: about thirty seconds to save what there is.

The metadata server answers two questions and holds the line until an answer changes. Its address is in
``GCE_METADATA_HOST``, or the well-known one on Google's machines; elsewhere nobody is asked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["watch_for_notice"]

_QUESTIONS: dict[str, tuple[Callable[[str], bool], str]] = {
    "preempted": (lambda answer: answer == "TRUE", "the machine is being preempted"),
    "maintenance-event": (lambda answer: answer.startswith("TERMINATE"), "the machine goes down for maintenance"),
}
_WAIT_S = 60
_LEAST_PAUSE_S = 1.0
_PAUSE_AFTER_TROUBLE_S = 10.0


def _metadata_host() -> str:
    if host := os.environ.get("GCE_METADATA_HOST"):
        return host
    try:
        vendor = Path("/sys/class/dmi/id/product_name").read_text()
    except OSError:
        return ""
    return "metadata.google.internal" if vendor.startswith("Google") else ""


def watch_for_notice(on_notice: Callable[[str], None]) -> None:
    """Ask in the background, for as long as this process lives; `on_notice` is called from there, once per question."""
    host = _metadata_host()
    for question in _QUESTIONS if host else ():
        threading.Thread(target=_watch, args=(host, question, on_notice), name=question, daemon=True).start()


def _watch(host: str, question: str, on_notice: Callable[[str], None]) -> None:
    import http.client  # 3 MB, where there is somebody to ask

    is_notice, reason = _QUESTIONS[question]
    etag = ""
    while True:
        try:
            answer, etag = _ask(host, question, etag)
        except (OSError, http.client.HTTPException):
            time.sleep(_PAUSE_AFTER_TROUBLE_S)
            continue
        if is_notice(answer):
            on_notice(reason)
            return
        time.sleep(_LEAST_PAUSE_S)


def _ask(host: str, question: str, etag: str) -> tuple[str, str]:
    """The present answer; with the tag of the one before, the next that differs (or the same, after a while)."""
    import http.client

    wait = f"?wait_for_change=true&timeout_sec={_WAIT_S}&last_etag={etag}" if etag else ""
    connection = http.client.HTTPConnection(host, timeout=_WAIT_S + 10)
    try:
        connection.request(
            "GET", f"/computeMetadata/v1/instance/{question}{wait}", headers={"Metadata-Flavor": "Google"}
        )
        answer = connection.getresponse()
        text = answer.read(256).decode("ascii", "replace").strip()
        if answer.status != 200:
            raise http.client.HTTPException(f"status {answer.status}")
        return text, answer.headers.get("ETag") or ""
    finally:
        connection.close()
