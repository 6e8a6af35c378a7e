"""The short form of the fault suite; ``make faults`` runs the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.kinds import DEAD, LIVE
from faults.suite import own_places, run_suite


@pytest.mark.faults
@pytest.mark.slow
def test_a_run_that_suffers_faults_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    with own_places(tmp_path):
        report = run_suite(tmp_path, seed=1, count=len(LIVE) + len(DEAD))
    assert report.clean, report.show()
