"""What a fault suite counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Report"]


@dataclass
class Report:
    """All numbers but the first must be zero."""

    injected: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)
    """Kinds that cannot be injected here, and why."""
    lost_records: list[str] = field(default_factory=list)
    """Logged steps that are missing, doubled or wrong."""
    ghosts: list[str] = field(default_factory=list)
    """Processes, locks or states that claim a life there isn't, or deny one there is."""
    differing_bits: list[str] = field(default_factory=list)
    """Final states that are not those of a run never interrupted."""
    stuck: list[str] = field(default_factory=list)
    """Runs that could not be brought to their end."""

    @property
    def clean(self) -> bool:
        return not (self.lost_records or self.ghosts or self.differing_bits or self.stuck)

    def show(self) -> str:
        lines = [f"{count:5} {kind}" for kind, count in sorted(self.injected.items())]
        lines += [f"    – {kind}: {reason}" for kind, reason in sorted(self.skipped.items())]
        lines.append(f"{self.injected.total():5} faults injected")
        for name in ("lost_records", "ghosts", "differing_bits", "stuck"):
            found = getattr(self, name)
            lines.append(f"{len(found):5} {name.replace('_', ' ')}")
            lines += [f"        {one}" for one in found]
        return "\n".join(lines)
