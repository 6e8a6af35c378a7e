"""What statistics mean, on a terminal: each finding with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpudeck.cli.output import printable

__all__ = ["print_findings"]


def print_findings(findings: Sequence[dict[str, Any]]) -> None:
    for finding in findings:
        print(f"\n{finding['level']}: {printable(finding['message'])}\n  → {printable(finding['hint'])}")
