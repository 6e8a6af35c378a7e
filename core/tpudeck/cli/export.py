"""Metrics of a run as a table: CSV, JSON or Parquet, raw or smoothed."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson

from tpudeck.errors import InputError
from tpudeck.runs.events import encode_number
from tpudeck.runs.reader import RunReader
from tpudeck.runs.series import Metrics, smooth

__all__ = ["write_metrics"]

_FORMATS = ("csv", "json", "parquet")


def write_metrics(folder: Path, names: list[str], *, form: str, weight: float, out: Path | None) -> None:
    """Write metrics by step to a file, or to standard output; where one has no value at a step, the place is empty."""
    if form not in _FORMATS:
        raise InputError(f"a format is one of {', '.join(_FORMATS)}, got {form!r}")
    if not 0 <= weight < 1:
        raise InputError(f"a smoothing weight is at least 0 and below 1, got {weight:g}")
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("Parquet is not for a terminal", hint="--out FILE.parquet")
    metrics = RunReader(folder).refresh().metrics
    if missing := [name for name in names if name not in metrics]:
        known = ", ".join(sorted(metrics)) or "none yet"
        raise InputError(f"{folder.name} has no metric {', '.join(missing)}", hint=f"it has {known}")
    columns = _columns(metrics, names, weight)
    with _opened(out) as file:
        {"csv": _write_csv, "json": _write_json, "parquet": _write_parquet}[form](columns, file)


def _columns(metrics: Metrics, names: list[str], weight: float) -> dict[str, list[Any]]:
    """``step`` and one column per metric; none where a metric has no value at a step."""
    steps = np.unique(np.concatenate([metrics[name].step for name in names]))
    columns: dict[str, list[Any]] = {"step": steps.tolist()}
    for name in names:
        series = metrics[name]
        column: list[float | None] = [None] * len(steps)
        values = smooth(series.value, weight=weight)
        for row, value in zip(np.searchsorted(steps, series.step).tolist(), values.tolist(), strict=True):
            column[row] = value
        columns[name] = column
    return columns


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[bytes]]:
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    try:
        with out.open("wb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error


def _rows(columns: dict[str, list[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*columns.values(), strict=True)


def _plain(value: Any) -> Any:
    return encode_number(value) if isinstance(value, float) else value


def _write_csv(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    class Lines:
        def write(self, line: str) -> None:
            file.write(line.encode())

    writer = csv.writer(Lines(), lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_plain, row) for row in _rows(columns))


def _write_json(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in _rows(columns)]
    file.write(orjson.dumps(rows) + b"\n")


def _write_parquet(columns: dict[str, list[Any]], file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), file)
