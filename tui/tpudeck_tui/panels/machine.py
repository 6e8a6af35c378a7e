"""One look at the machine and its accelerators, as lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tpudeck.units import format_bytes, format_duration
from tpudeck_tui.cells import fit, pad, progress_bar, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpudeck.devices import Core, Sample
    from tpudeck.doctor import Finding
    from tpudeck.queue import Entry
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["device_lines", "finding_lines", "queue_lines"]


def _bar(label: str, percent: float | None, text: str, width: int, why: str = "") -> TextLine:
    """A labelled bar; where there is no reading, the reason instead."""
    line: TextLine = [(f"{label:<20.20} ", "muted")]
    if percent is None:
        return [*line, (fit(f"n/a  {why}", max(4, width - 21)), "quiet")]
    filled, rest = progress_bar(percent / 100, max(10, min(50, width - 52)))
    part = "bar" if percent < 90 else "warning"
    return [*line, (filled, part), (rest, "bar-rest"), (f" {text}", "bright")]


def device_lines(sample: Sample | None, reason: str, width: int) -> list[TextLine]:
    """The host, then every accelerator device with its two utilisations and its memory."""
    if sample is None:
        return [[(fit(reason, width), "muted")]]
    lines: list[TextLine] = []
    if (host := sample.host) is not None:
        used = 100 * host.memory_used_bytes / max(1, host.memory_total_bytes)
        lines.append(
            _bar(
                "CPU",
                host.cpu_percent,
                f"{host.cpu_percent:.0f} % of {host.cpu_count} cores, load {host.load_1m:.1f}",
                width,
            )
        )
        memory = f"{format_bytes(host.memory_used_bytes)} of {format_bytes(host.memory_total_bytes)}"
        lines.append(_bar("memory", used, memory, width))
    for core in sample.cores:
        lines += _core_lines(core, width)
    for note in sample.notes:
        lines += [[(line, "muted")] for line in wrap(note, width)]
    if reason:
        lines.append([(fit(reason, width), "warning")])
    return lines


def _core_lines(core: Core, width: int) -> list[TextLine]:
    head = f"{core.kind.upper()} {core.index}  {core.name}".strip()
    memory = None
    if core.hbm_used_bytes is not None and core.hbm_total_bytes:
        memory = 100 * core.hbm_used_bytes / core.hbm_total_bytes
    used = f"{format_bytes(core.hbm_used_bytes or 0)} of {format_bytes(core.hbm_total_bytes or 0)}"
    readings = [("  duty cycle", core.duty_cycle_percent, "duty_cycle_percent")]
    if core.kind == "tpu":
        readings.insert(0, ("  TensorCore", core.tensorcore_percent, "tensorcore_percent"))
    return [
        [(fit(head, width), "title")],
        *(
            _bar(label, value, f"{value or 0:.0f} %", width, core.missing.get(key, ""))
            for label, value, key in readings
        ),
        _bar("  memory", memory, used, width, core.missing.get("hbm_used_bytes", "")),
    ]


def queue_lines(queues: Sequence[tuple[str, str, Sequence[Entry]]], width: int) -> list[TextLine]:
    """Every device that runs take turns at: who has it, and who waits, the next one first."""
    if not queues:
        return [[("No run has asked for a device yet. Runs on the same one take turns.", "muted")]]
    lines: list[TextLine] = []
    for device, holder, waiting in queues:
        lines.append([(pad(device, 12), "title"), (fit(holder or "free", width - 12), "bright" if holder else "good")])
        for place, entry in enumerate(waiting, start=1):
            since = format_duration(max(0.0, time.time() - entry.since))
            priority = f", priority {entry.priority}" if entry.priority else ""
            text = fit(f"{place}. {entry.folder.name}", max(8, width - 40))
            lines.append([(" " * 12, ""), (text, ""), (f"  for {since}{priority}", "muted")])
    return lines


_LEVELS = {"ok": ("✓", "good"), "note": ("·", "muted"), "warning": ("!", "warning"), "error": ("✗", "bad")}


def finding_lines(findings: Sequence[Finding] | None, width: int) -> list[TextLine]:
    """What the doctor found, the worst first, each with what to do."""
    if findings is None:
        return [[("The doctor is looking …", "muted")]]
    order = list(_LEVELS)
    lines: list[TextLine] = []
    for finding in sorted(findings, key=lambda finding: -order.index(finding.level)):
        glyph, part = _LEVELS[finding.level]
        first, *others = wrap(finding.message, max(10, width - 20))
        lines.append(
            [(f"{glyph} ", part), (f"{finding.check:<16.16}  ", "muted"), (first, "" if part == "good" else part)]
        )
        lines += [[(" " * 20 + other, "" if part == "good" else part)] for other in others]
        fix = wrap(finding.fix, max(10, width - 22)) if finding.fix else []
        lines += [
            [(" " * 20 + ("→ " if index == 0 else "  "), "accent"), (line, "bright")] for index, line in enumerate(fix)
        ]
    return lines
