"""From a snapshot to the curves and marks of charts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpudeck.runs.events import AttemptStarted, CheckpointSaved, Evaluated, EventLine
from tpudeck_tui.plot.curve import Flag, Line

if TYPE_CHECKING:
    from tpudeck.runs.reader import RunSnapshot
    from tpudeck.runs.series import Series
    from tpudeck_tui.messages import Seen

__all__ = ["METRICS", "Metric", "curves", "evaluation_line", "evaluations", "flags", "machine_lines", "metric_line"]


@dataclass(frozen=True)
class Metric:
    """One chart of the live screen."""

    key: str
    title: str
    series: tuple[tuple[str, str], ...]
    """Names in ``metrics.jsonl`` and their labels."""
    smoothing: float = 0.0
    from_zero: bool = False
    scale: float = 1.0
    """From the unit of the file to the unit of the chart."""
    reading: str = ""
    """What is drawn of every device of the machine."""


METRICS = (
    Metric("loss", "loss", (("loss", "train"),), smoothing=0.6),
    Metric("speed", "tokens/s", (("tokens_per_s", ""),), from_zero=True),
    Metric("grad", "gradient norm", (("grad_norm", ""),)),
    Metric(
        "split",
        "ms/step",
        (("device_s", "device"), ("input_wait_s", "input"), ("host_s", "host")),
        from_zero=True,
        scale=1e3,
    ),
    Metric("use", "utilisation %", (), from_zero=True),
    Metric("tensorcore", "TensorCore % by device", (), from_zero=True, reading="TensorCore"),
    Metric("duty", "duty cycle % by device", (), from_zero=True, reading="duty cycle"),
    Metric("memory", "memory GiB by device", (), from_zero=True, scale=2.0**-30, reading="memory"),
    Metric("rate", "learning rate", (("learning_rate", ""),), from_zero=True),
)


def metric_line(snapshot: RunSnapshot, name: str, label: str, index: int = 0, *, scale: float = 1.0) -> Iterable[Line]:
    """A metric as a curve, behind it what resumes replaced."""
    series = snapshot.metrics.get(name)
    if series is None:
        return
    created, tokens = snapshot.summary.created, snapshot.metrics.get("tokens")
    for old in series.superseded:
        yield _line(old, label, created, None, index, scale, dim=True)
    yield _line(series, label, created, tokens, index, scale)


def _line(
    series: Series, label: str, created: float, tokens: Series | None, index: int, scale: float, *, dim: bool = False
) -> Line:
    seen = None
    if tokens is not None and len(tokens):
        same = len(tokens) == len(series)
        seen = tokens.value if same else np.interp(series.step, tokens.step, tokens.value)
    return Line(
        label, series.step, series.time, series.value,
        tokens=seen, index=index, dim=dim, began=created, scale=scale,
    )  # fmt: skip


def curves(seen: Seen, metric: Metric) -> list[Line]:
    """What one chart of a run shows."""
    if metric.key == "use" or metric.reading:
        return machine_lines(seen, metric)
    snapshot = seen.snapshot
    lines = [
        line
        for index, (name, label) in enumerate(metric.series)
        for line in metric_line(snapshot, name, label, index, scale=metric.scale)
    ]
    if metric.key == "loss":
        lines += evaluation_line(snapshot)
    return lines


def evaluations(events: Iterable[EventLine]) -> list[tuple[float, Evaluated]]:
    """The evaluations that count, by time: a resume replaces those after the step it goes on from."""
    kept: list[tuple[float, Evaluated]] = []
    for line in events:
        if isinstance(line.event, AttemptStarted):
            kept = [(time, found) for time, found in kept if found.step <= line.event.resume_from_step]
        elif isinstance(line.event, Evaluated):
            kept.append((line.time, line.event))
    return kept


def evaluation_line(snapshot: RunSnapshot, label: str = "eval", index: int = 1, *, dots: bool = True) -> Iterable[Line]:
    """The losses of the evaluations that count."""
    found = evaluations(snapshot.events)
    if not found:
        return
    step = np.array([event.step for _, event in found], dtype=np.int64)
    time = np.array([time for time, _ in found]) - snapshot.summary.created
    tokens = snapshot.metrics.get("tokens")
    seen = np.interp(step, tokens.step, tokens.value) if tokens is not None and len(tokens) else None
    value = np.array([event.eval_loss for _, event in found], dtype=np.float64)
    yield Line(label, step, time, value, tokens=seen, index=index, dots=dots)


def machine_lines(seen: Seen, metric: Metric) -> list[Line]:
    """What the sampler saw: one reading of every device, or how busy the machine was as a whole.

    The sampler knows times, not steps: a look is put at the step that was logged next.
    """
    created, loss = seen.snapshot.summary.created, seen.snapshot.metrics.get("loss")
    lines: list[Line] = []
    for name, series in seen.utilisation.items():
        reading, _, device = name.rpartition("/")
        if reading != metric.reading or np.isnan(series.value).all():
            continue
        if loss is None or not len(loss):
            step = np.zeros(len(series), np.int64)
        else:
            step = loss.step[np.minimum(np.searchsorted(loss.time, series.time), len(loss) - 1)]
        lines.append(Line(device, step, series.time, series.value, index=len(lines), began=created, scale=metric.scale))
    return lines


def flags(snapshot: RunSnapshot) -> list[Flag]:
    """What happened to the run, for the x axis."""
    created = snapshot.summary.created
    found: list[Flag] = []
    for line in snapshot.events:
        match line.event:
            case CheckpointSaved(step=step, best=best):
                found.append(Flag("best" if best else "checkpoint", step, line.time - created))
            case AttemptStarted(resume_from_step=step) if step:
                found.append(Flag("resume", step, line.time - created))
            case _:
                pass
    best_step = max((flag.step for flag in found if flag.kind == "best"), default=None)
    return [
        Flag("checkpoint", flag.step, flag.time) if flag.kind == "best" and flag.step != best_step else flag
        for flag in found
    ]
