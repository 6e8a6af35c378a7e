"""How a run lies in a bucket while it runs: which object is which part of which file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tpudeck.storage.bucket import Stored

__all__ = [
    "APPENDED",
    "CHECKPOINT",
    "REPLACED",
    "RESULT",
    "Segment",
    "name_below",
    "newest_epochs",
]

APPENDED = ("events.jsonl", "metrics.jsonl", "supervisor.jsonl", "system.jsonl", "console.log")
REPLACED = ("run.json", "meta.json", "experiment.toml", "plan.json", "progress.json", "status.json")
RESULT = re.compile(r"results/[a-z-]+\.json")
CHECKPOINT = re.compile(r"checkpoints/(step-\d{8})/")
_SEGMENT = re.compile(r"live/([a-z.]+)/(\d{4})-(\d{15})-\d{15}")


@dataclass(frozen=True)
class Segment:
    """Some whole lines of a file that grows."""

    epoch: int
    start: int
    stored: Stored

    @property
    def end(self) -> int:
        return self.start + self.stored.size_bytes


def name_below(stored: Stored, location: str) -> str:
    """What an object is called below the place of its run."""
    return stored.location.removeprefix(f"{location}/")


def newest_epochs(there: Iterable[Stored], location: str) -> dict[str, list[Segment]]:
    """File → the segments of its newest epoch, in order; of those that begin together, the longest first."""
    files: dict[str, list[Segment]] = {}
    for stored in there:
        if found := _SEGMENT.fullmatch(name_below(stored, location)):
            files.setdefault(found[1], []).append(Segment(int(found[2]), int(found[3]), stored))
    return {
        name: sorted((s for s in found if s.epoch == max(s.epoch for s in found)), key=lambda s: (s.start, -s.end))
        for name, found in files.items()
    }
