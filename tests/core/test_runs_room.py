"""Arrays that grow with a run: where they lie, and that it makes no difference to what is in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tpudeck.runs import room, series
from tpudeck.runs.room import Room
from tpudeck.runs.series import MetricTables

WORDS = 4 << 20


def own_memory_bytes() -> int:
    """What only this process could give back."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def test_a_large_array_takes_no_memory_of_this_process() -> None:
    before = own_memory_bytes()
    large = Room(WORDS)
    large.words[:] = np.arange(WORDS)
    assert own_memory_bytes() - before < large.words.nbytes // 8


def test_what_rests_is_still_there() -> None:
    large = Room(WORDS)
    large.floats[:] = 0.5
    large.rest()
    assert large.floats[0] == large.floats[-1] == 0.5


def test_without_room_on_the_disk_it_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    array = Room(WORDS).words
    array[:] = 7
    assert array[-1] == 7


def test_metrics_are_the_same_wherever_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_FILE_FROM_BYTES", 0)
    monkeypatch.setattr(series, "_REST_EVERY_BYTES", 0)
    metrics = MetricTables()
    for start in range(0, 1000, 10):
        metrics.extend(
            [{"step": s, "time": s / 2, "attempt": 0, "loss": float(s)} for s in range(start, start + 10)], {}
        )
    first = metrics.view()["loss"]
    metrics.extend([{"step": s, "time": s, "attempt": 1, "loss": -1.0} for s in range(500, 510)], {1: 499})
    later = metrics.view()["loss"]
    np.testing.assert_array_equal(first.value, np.arange(1000.0))
    np.testing.assert_array_equal(later.value, [*range(500), *[-1.0] * 10])
    np.testing.assert_array_equal(later.superseded[0].value, np.arange(500.0, 1000.0))
