"""TensorBoard event files, written without TensorFlow.

A file is TFRecords of ``Event`` messages (tensorflow/core/util/event.proto): ``wall_time = 1`` (double), ``step = 2``,
``file_version = 3``, ``summary = 5`` with ``value = 1 {tag = 1, simple_value = 2 (float)}``, and ``session_log = 7``
with ``status = 1``. A session that starts at a step tells TensorBoard to forget what came after it: that is a resume.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpudeck.runs.events import AttemptStarted, Evaluated, Event
from tpudeck.runs.numbers import decode_number
from tpudeck.runs.processes import host_name
from tpudeck.tfrecord import encode_field, encode_varint, frame

__all__ = ["TensorBoardFile"]

_NO_SCALARS = {"step", "time", "attempt"}
_SESSION_START = 1


def _event(wall_time: float, step: int, body: bytes) -> bytes:
    return struct.pack("<Bd", 1 << 3 | 1, wall_time) + encode_varint(2 << 3) + encode_varint(step) + body


def _scalar(tag: str, value: float) -> bytes:
    return encode_field(1, encode_field(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))


class TensorBoardFile:
    """The event file of one attempt. A full disk costs points, nothing else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        now = time.time()
        self._path = folder / f"events.out.tfevents.{now:.0f}.{host_name()}.{time.monotonic_ns()}"
        self._write([_event(now, 0, encode_field(3, b"brain.Event:2"))])

    def add(self, rows: Iterable[Mapping[str, Any]], events: Iterable[Event]) -> None:
        """Lines of metrics and events that are new, in their order."""
        records = []
        for event in events:
            if isinstance(event, AttemptStarted) and event.resume_from_step:
                session = encode_field(7, encode_varint(1 << 3) + encode_varint(_SESSION_START))
                records.append(_event(time.time(), event.resume_from_step + 1, session))
            elif isinstance(event, Evaluated):
                scores = {"eval_loss": event.eval_loss, "accuracy": event.accuracy, "perplexity": event.perplexity}
                records.append(_scalars(time.time(), event.step, scores))
        records += [_scalars(row["time"], row["step"], row) for row in rows]
        if records:
            self._write(records)

    def _write(self, records: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError), self._path.open("ab") as file:
            file.write(b"".join(map(frame, records)))


def _scalars(wall_time: float, step: int, values: Mapping[str, Any]) -> bytes:
    numbers = {name: decode_number(value) for name, value in values.items() if name not in _NO_SCALARS}
    body = b"".join(_scalar(name, value) for name, value in numbers.items() if isinstance(value, (int, float)))
    return _event(wall_time, step, encode_field(5, body))
