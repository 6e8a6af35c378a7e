"""From a snapshot to lines of text: the header, samples, evaluations, events, the log, the facts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len

from tpudeck.doctor import explain
from tpudeck.runs.events import (
    AlertRaised,
    AttemptStarted,
    CheckpointRejected,
    CheckpointSaved,
    Evaluated,
    EventLine,
    Noticed,
    PhaseChanged,
    SamplesFilled,
    StageFinished,
    StageStarted,
)
from tpudeck.units import format_bytes, format_count, format_duration
from tpudeck_tui import run_cells
from tpudeck_tui.cells import chop, clean, fit, progress_bar, wrap
from tpudeck_tui.panels.curves import evaluations
from tpudeck_tui.panels.machine import device_lines

if TYPE_CHECKING:
    from tpudeck.runs.reader import RunSnapshot
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.messages import Seen

__all__ = ["PAGES", "TextLine", "header"]

_LEAST_BAR = 4
"""Cells below which a bar says nothing."""
_TREND = 0.02
"""A probability that changed by more is marked."""

TextLine: TypeAlias = "list[tuple[str, str]]"
"""Texts and the parts (see `theme`) they are painted as."""
Page: TypeAlias = "Callable[[Seen, int], list[TextLine]]"


def header(snapshot: RunSnapshot, width: int) -> list[TextLine]:
    """Two lines: what it is and how it is; how far it got."""
    run = snapshot.summary
    glyph, part = run_cells.glyph(run)
    first: TextLine = [(f"{glyph} ", part), (clean(run.name), "title"), (f"  {run.status}", part)]
    first += [(f"  {clean(run.phase)}", "bright")] if run.live and run.phase not in {"", "training", run.status} else []
    if run.error:
        first.append((f"  {clean(run.error.splitlines()[0])}", "bad"))
    elif run.evidence:
        first.append((f"  {clean(run.evidence)}", "muted"))
    if run.alerts:
        first.append((f"  ! {clean(', '.join(run.alerts))}", "warning"))
    if run.note:
        first.append((f"  {clean(run.note)}", "accent"))
    return [first, _progress_line(run, width, snapshot.loaded if not snapshot.complete else None)]


def _progress_line(run: RunSummary, width: int, loading: float | None) -> TextLine:
    if loading is not None:
        filled, rest = progress_bar(loading, 16)
        return [("reading the whole run  ", "muted"), (filled, "bar"), (rest, "bar-rest"), (f" {loading:.0%}", "muted")]
    parts: TextLine = []
    share = run.progress if run.progress is not None else (run.step or 0) / run.total_steps if run.total_steps else None
    if share is not None:
        parts.append((f" {share * 100:.0f} %", "bright"))
    if run.step is not None:
        of = f" of {run.total_steps:,}" if run.total_steps else ""
        parts.append((f"  step {run.step:,}{of}", ""))
    if run.remaining_s is not None and run.live:
        parts += [("  left ", "muted"), (format_duration(run.remaining_s), "bright")]
    elif run.duration_s is not None:
        parts += [("  for " if run.live else "  took ", "muted"), (format_duration(run.duration_s), "bright")]
    if parts and share is None:
        parts[0] = (parts[0][0].lstrip(), parts[0][1])
    for label, value in (("loss", run.loss), ("eval", run.eval_loss)):
        if value is not None:
            text, part = run_cells.number(value)
            parts += [(f"  {label} ", "muted"), (text, part or "bright")]
    if run.baseline_loss is not None and run.eval_loss is not None and width >= 100:
        gain = run.baseline_loss - run.eval_loss
        parts.append((f" ({gain:.2f} under unigram)" if gain > 0 else f" ({-gain:.2f} over unigram)", "muted"))
    if run.tokens_per_s is not None and width >= 128:
        parts += [("  ", ""), (format_count(run.tokens_per_s), "bright"), (" tokens/s", "muted")]
    if run.device and width >= 140:
        parts += [("  on ", "muted"), (clean(run.device), "bright")]
    room = width - sum(cell_len(text) for text, _ in parts)
    if share is None or room < _LEAST_BAR:
        return parts
    filled, rest = progress_bar(share, min(room, max(10, min(40, width // 5))))
    return [(filled, "bar"), (rest, "bar-rest"), *parts]


def samples(seen: Seen, width: int) -> list[TextLine]:
    """The answers of each evaluation to each sample text, newest first; what is new in them stands out."""
    by_text: dict[str, list[tuple[int, list[_Answer]]]] = {}
    for line in seen.snapshot.events:
        if isinstance(line.event, SamplesFilled):
            for sample in line.event.samples:
                by_text.setdefault(str(sample.get("text", "")), []).append((line.event.step, _answers(sample)))
    if not by_text:
        return [[("The model fills the sample texts of the preset at every evaluation.", "muted")]]
    lines: list[TextLine] = []
    for text, history in by_text.items():
        lines.append([(fit(text, width), "title")])
        lines += [_evaluation_of_sample(step, answers, before, width) for step, answers, before in _changes(history)]
    return lines


_Answer: TypeAlias = "tuple[str, float | None]"
"""A token and its probability; a continued text has none."""


def _changes(history: list[tuple[int, list[_Answer]]]) -> list[tuple[int, list[_Answer], dict[str, float | None]]]:
    """Each evaluation with the answers of the one before it, newest first; only the first of equal ones."""
    kept: list[tuple[int, list[_Answer], dict[str, float | None]]] = []
    before: dict[str, float | None] = {}
    for step, answers in history:
        if dict(answers) != before:
            kept.append((step, answers, before))
        before = dict(answers)
    return kept[::-1]


def _evaluation_of_sample(step: int, answers: list[_Answer], before: dict[str, float | None], width: int) -> TextLine:
    """One evaluation: a token that was no answer before is new; one that gained or lost much is marked so."""
    line: TextLine = [(f"  {step:>9,}  ", "muted")]
    room = width - 13
    for token, share in answers:
        text = fit(token, room)
        new = bool(before) and token not in before
        line.append((text, "accent" if new else "bright" if token == answers[0][0] else ""))
        room -= cell_len(text)
        if share is not None and room > 8:
            shown = f" {share:.0%}{_trend(share, before.get(token))}  "
            line.append((shown, "muted"))
            room -= len(shown)
        if room < 4:
            break
    return line


def _trend(share: float, before: float | None) -> str:
    if before is None or abs(share - before) < _TREND:
        return ""
    return "↑" if share > before else "↓"


def _answers(sample: Any) -> list[_Answer]:
    """The likeliest tokens of every mask; of a text that was gone on with, the text."""
    found: list[_Answer] = []
    for number, mask in enumerate(sample.get("answers") or ()):
        mark = f"{number + 1}:" if number else ""
        found += [
            (clean(mark + (str(answer.get("token", "")).strip() or "␣")), float(answer.get("probability", 0)))
            for answer in mask[:4]
        ]
    return found or [(clean(str(sample.get("filled", ""))), None)]


def evaluated(seen: Seen, width: int) -> list[TextLine]:
    """Every evaluation, newest first."""
    found = evaluations(seen.snapshot.events)
    if not found:
        return [[("No evaluation yet: the first comes as train.eval_every says.", "muted")]]
    best = min((event.eval_loss for _, event in found if event.eval_loss == event.eval_loss), default=None)
    lines: list[TextLine] = [
        [(f"{'step':>10}  {'loss':>8}  {'perplexity':>10}  {'accuracy':>8}  {'unigram':>8}", "header")]
    ]
    for _, event in reversed(found):
        mark = ("  ★ best", "accent") if event.eval_loss == best else ("", "")
        loss, part = run_cells.number(event.eval_loss)
        lines.append(
            [(f"{event.step:>10,}  ", ""), (f"{loss:>8}", part or "bright"), (f"  {event.perplexity:>10,.1f}", ""),
             (f"  {event.accuracy:>8.1%}", ""), (f"  {run_cells.number(event.baseline_loss)[0]:>8}", "muted"), mark]
        )  # fmt: skip
    return lines


def happened(seen: Seen, width: int) -> list[TextLine]:
    """Events and alerts, newest first."""
    lines = _trouble(seen, width)
    for line in reversed(seen.snapshot.events):
        if (told := _tell(line)) is None:
            continue
        text, part = told
        clock = time.strftime("%H:%M:%S", time.localtime(line.time))
        first, *others = wrap(text, max(10, width - 10)) or [""]
        lines.append([(f"{clock}  ", "muted"), (first, part)])
        lines += [[(" " * 10 + other, part)] for other in others]
    return lines or [[("Nothing has happened yet.", "muted")]]


def _trouble(seen: Seen, width: int) -> list[TextLine]:
    """Why a run ended badly, and what is known about such errors."""
    run = seen.snapshot.summary
    if run.live or run.status in {"finished", "stopped"}:
        return []
    lines: list[TextLine] = [[(line, "bad")] for text in run.error.splitlines() for line in wrap(text, width)]
    for explanation in explain("\n".join((run.error, *seen.log))):
        lines += [[(line, "")] for line in wrap(explanation.cause, width)]
        lines += [[("→ " if index == 0 else "  ", "accent"), (line, "bright")]
                  for index, line in enumerate(wrap(explanation.fix, max(10, width - 2)))]  # fmt: skip
    return [*lines, []] if lines else []


_USUAL_PHASES = frozenset({"training", "evaluating", "checkpointing", "tokenizer", "shards"})
"""They take turns all the time, or are stages; what comes of them is told anyway."""


def _tell(line: EventLine) -> tuple[str, str] | None:
    """An event in words; none where it is told elsewhere."""
    match line.event:
        case AlertRaised(message=message, level=level):
            if level == "info":
                return message, "good"
            return f"! {message}", "bad" if level == "error" else "warning"
        case AttemptStarted(resume_from_step=step, environment_changed=changed):
            how = f"resumed from step {step:,}" if step else "training begins"
            return (f"{how}; changed since: {', '.join(changed)}", "warning") if changed else (how, "bright")
        case StageStarted(stage=stage):
            return f"{stage}: started", ""
        case StageFinished(stage=stage, cached=cached):
            return f"{stage}: {'found ready' if cached else 'done'}", "good"
        case PhaseChanged(phase=phase) if phase not in _USUAL_PHASES:
            return phase, "muted"
        case Evaluated(step=step, eval_loss=loss, perplexity=perplexity, best=best):
            told = f"step {step:,}: evaluation loss {run_cells.number(loss)[0]}, perplexity {perplexity:,.1f}"
            return told + (", best" if best else ""), ""
        case CheckpointSaved(step=step, size_bytes=size, best=best):
            return f"step {step:,}: checkpoint, {format_bytes(size)}{', best' if best else ''}", ""
        case CheckpointRejected(step=step, reason=reason):
            return f"step {step:,}: checkpoint rejected: {reason}", "bad"
        case Noticed(message=message, level=level):
            return message, "warning" if level in {"warning", "error"} else ""
        case _:
            return None


def log_lines(seen: Seen, width: int) -> list[TextLine]:
    """The console output of the stages, the newest at the bottom."""
    if not seen.log:
        return [[("No output yet.", "muted")]]
    return [[(part, "")] for line in seen.log for part in chop(_without_escapes(line), width)]


def _without_escapes(line: str) -> str:
    """A line without the escape sequences of whoever wrote it."""
    if "\x1b" not in line:
        return line
    import re

    return re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])", "", line)


def facts(seen: Seen, width: int) -> list[TextLine]:
    """What does not change, and what the user wrote."""
    snapshot, run = seen.snapshot, seen.snapshot.summary
    pairs: list[tuple[str, str]] = [
        ("folder", run.path),
        ("preset", run.preset),
        ("device", run.device),
        ("started", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created))),
        ("attempt", str(run.attempt)),
        ("processes", ", ".join(f"{name} {pid}" for name, pid in
                               (("supervisor", run.supervisor_pid), ("trainer", run.trainer_pid)) if pid)),
        ("tags", " ".join(run.tags)),
        ("note", run.note),
        ("alerts", ", ".join(run.alerts)),
        ("bad lines", f"{snapshot.bad_lines} torn or damaged lines were skipped" if snapshot.bad_lines else ""),
    ]  # fmt: skip
    return [
        [(f"{label:>10}  ", "muted"), (text, "")]
        for label, value in pairs
        if value
        for label, text in _labelled(label, value, max(10, width - 12))
    ]


def _labelled(label: str, value: str, width: int) -> list[tuple[str, str]]:
    first, *others = wrap(value, width)
    return [(label, first), *(("", other) for other in others)]


def devices(seen: Seen, width: int) -> list[TextLine]:
    """The machine at the last look, device by device."""
    newest = seen.machine
    if newest is None:
        return [[("The sampler of the run has not looked at the machine yet.", "muted")]]
    clock = time.strftime("%H:%M:%S", time.localtime(newest.time))
    return [*device_lines(newest, "", width), [(f"at {clock}", "quiet")]]


PAGES: dict[str, Page] = {
    "Events": happened,
    "Samples": samples,
    "Evaluations": evaluated,
    "Log": log_lines,
    "Devices": devices,
    "Facts": facts,
}
