"""What happened elsewhere: messages of the watcher, with frozen snapshots in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from tpudeck.devices import Sample
    from tpudeck.runs.reader import RunSnapshot
    from tpudeck.runs.series import Metrics
    from tpudeck.runs.summary import RunSummary

__all__ = ["LookFailed", "RunRead", "RunVanished", "RunsListed", "Seen"]


@dataclass(frozen=True)
class Seen:
    """All there is to see of one run, at one moment."""

    snapshot: RunSnapshot
    log: tuple[str, ...]
    """The last lines of its console output."""
    machine: Sample | None
    """The machine at the sampler's last look."""
    utilisation: Metrics
    """How busy it was at every look, in percent; ``READING/N`` of device N, memory in bytes; the steps count looks."""


class RunsListed(Message):
    """There are other runs, or other facts about them, than before."""

    def __init__(self, runs: tuple[RunSummary, ...]) -> None:
        super().__init__()
        self.runs = runs

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunsListed)


class RunRead(Message):
    """A run that is followed said something new."""

    def __init__(self, folder: Path, seen: Seen) -> None:
        super().__init__()
        self.folder = folder
        self.seen = seen

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunRead) and message.folder == self.folder


class RunVanished(Message):
    """The folder of a followed run is gone, or no longer a run."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__()
        self.folder = folder
        self.reason = reason


class LookFailed(Message):
    """Looking at the runs went wrong in a way nobody foresaw; the watcher goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LookFailed)
