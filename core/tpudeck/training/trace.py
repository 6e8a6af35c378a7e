"""Where the time of profiled steps went, from the trace that TensorFlow's profiler wrote.

The file is a message ``XSpace``: planes (a device, or the host), lines on them (a thread, a stream), events on lines.
What counts as an operation: on a TPU what is on the line "XLA Ops", on a GPU the kernels on its streams, on a CPU what
XLA compiled and the kernels of the executor, but for those so cheap that the profiler leaves them out. Three times are
told apart, and add up to the step: some operation was running; none was, and the loop waited for batches; neither.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tpudeck.errors import ArtefactError
from tpudeck.storage import read_json
from tpudeck.training.profiling import CALLS, Call

__all__ = ["Operation", "exclusive_ns", "overlap_ns", "union", "where_time_went"]

Interval: TypeAlias = tuple[int, int]
"""Begin and end, in nanoseconds since the epoch."""

_NUMBERED = re.compile(r"(\.\d+|\.clone|\.remat)+$")
"""What XLA appends to the name of an operation."""
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Operation:
    """One that ran."""

    begin: int
    end: int
    name: str


def where_time_went(folder: Path) -> dict[str, Any]:
    """A profile as numbers: seconds per step, and which operations they went to, the longest first."""
    written = read_json(folder / CALLS)
    calls = [Call(**call) for call in written["calls"]]
    steps = sum(call.steps for call in calls)
    if not steps:
        raise ArtefactError(f"{folder} holds no step: the run ended before one was done")
    spans = [(call.start_ns, call.end_ns) for call in calls]
    waits = [(call.start_ns, call.start_ns + call.input_wait_ns) for call in calls]
    lines = list(_lines(folder))
    running = union((operation.begin, operation.end) for line in lines for operation in line)
    total_ns = sum(end - begin for begin, end in spans)
    running_ns = overlap_ns(running, spans)
    waiting_ns = sum(end - begin for begin, end in waits) - overlap_ns(running, waits)

    def per_step_s(time_ns: float) -> float:
        return time_ns / 1e9 / steps

    return {
        "first_step": written["first_step"],
        "steps": steps,
        "step_s": per_step_s(total_ns),
        "operations_s": per_step_s(running_ns),
        "input_wait_s": per_step_s(waiting_ns),
        "other_s": per_step_s(total_ns - running_ns - waiting_ns),
        "operations": [{"name": name, "time_s": per_step_s(time_ns)} for name, time_ns in _longest_first(lines)],
    }


def _longest_first(lines: list[list[Operation]]) -> list[tuple[str, int]]:
    """Names and for how long each ran, on all lines together."""
    times_ns: dict[str, int] = defaultdict(int)
    for line in lines:
        for name, time_ns in exclusive_ns(line):
            times_ns[name] += time_ns
    return sorted(times_ns.items(), key=lambda item: -item[1])


def exclusive_ns(line: Iterable[Operation]) -> Iterator[tuple[str, int]]:
    """The time of each operation on a line without that of operations inside it."""
    open_ones: list[tuple[Operation, int]] = []  # each with the time of those inside

    def close() -> tuple[str, int]:
        operation, inside_ns = open_ones.pop()
        length_ns = operation.end - operation.begin
        if open_ones:
            outer, before_ns = open_ones[-1]
            open_ones[-1] = outer, before_ns + length_ns
        return operation.name, length_ns - inside_ns

    for operation in sorted(line, key=lambda operation: (operation.begin, -operation.end)):
        while open_ones and open_ones[-1][0].end <= operation.begin:
            yield close()
        open_ones.append((operation, 0))
    while open_ones:
        yield close()


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals without overlaps, in order, that cover the same."""
    covered: list[Interval] = []
    for begin, end in sorted(intervals):
        if covered and begin <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(end, covered[-1][1])
        else:
            covered.append((begin, end))
    return covered


def overlap_ns(one: list[Interval], other: list[Interval]) -> int:
    """How long both last; each in order and without overlaps of its own."""
    total, place = 0, 0
    for begin, end in other:
        while place < len(one) and one[place][1] <= begin:
            place += 1
        at = place
        while at < len(one) and one[at][0] < end:
            total += min(end, one[at][1]) - max(begin, one[at][0])
            at += 1
    return total


def _lines(folder: Path) -> Iterator[list[Operation]]:
    """The lines with operations: those of devices where there are any, else those of the host."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    planes = []
    for path in sorted(folder.glob("plugins/profile/*/*.xplane.pb")):
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
        planes += [(plane, _began_ns(space)) for plane in space.planes]
    devices = [(plane, began_ns) for plane, began_ns in planes if plane.name.startswith("/device:") and plane.lines]
    for plane, began_ns in devices or planes:
        compiled = [line for line in plane.lines if line.name == "XLA Ops"]
        streams = [line for line in plane.lines if line.name.startswith("Stream")]
        for line in (compiled or streams or plane.lines) if devices else plane.lines:
            base_ns = began_ns + line.timestamp_ns
            found = (_operation(plane, event, base_ns, on_device=bool(devices)) for event in line.events)
            yield [operation for operation in found if operation is not None]


def _began_ns(space: Any) -> int:
    """When the recording began; the trace counts from there."""
    stats = ((plane.stat_metadata[stat.metadata_id].name, stat) for plane in space.planes for stat in plane.stats)
    return next((int(stat.uint64_value) for name, stat in stats if name == "profile_start_time"), 0)


def _operation(plane: Any, event: Any, base_ns: int, *, on_device: bool) -> Operation | None:
    """An event of the trace as an operation; none where it is something else."""
    kind = plane.event_metadata[event.metadata_id]
    # On the host there is much besides. The executor names the type of its kernels beside them; XLA marks its own.
    if not (on_device or kind.display_name or _is_compiled(plane, event)):
        return None
    name = _NUMBERED.sub("", kind.display_name or kind.name)[:_LONGEST_NAME]
    begin = base_ns + event.offset_ps // 1000
    return Operation(begin, begin + event.duration_ps // 1000, name)


def _is_compiled(plane: Any, event: Any) -> bool:
    return event.duration_ps > 0 and any(plane.stat_metadata[stat.metadata_id].name == "hlo_op" for stat in event.stats)
