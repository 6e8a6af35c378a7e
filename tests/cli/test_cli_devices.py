"""`tpudeck monitor` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys

TPUDECK = (sys.executable, "-c", "from tpudeck.cli import main; main()")


def test_one_look_as_json_has_the_host_and_the_cores() -> None:
    done = subprocess.run([*TPUDECK, "monitor", "--once", "--json"], capture_output=True, text=True, check=True)
    sample = json.loads(done.stdout)
    assert sample["host"]["cpu_count"] >= 1
    for core in sample["cores"]:
        for reading in ("duty_cycle_percent", "tensorcore_percent", "hbm_used_bytes", "hbm_total_bytes"):
            assert core[reading] is not None or core["missing"][reading]


def test_one_look_as_text_says_what_was_found() -> None:
    done = subprocess.run([*TPUDECK, "monitor", "--once"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("CPU ")


def test_a_reader_that_goes_away_ends_the_monitor() -> None:
    monitor = subprocess.Popen(
        [*TPUDECK, "monitor", "--json", "--interval", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert monitor.stdout is not None and monitor.stderr is not None
    json.loads(monitor.stdout.readline())
    monitor.stdout.close()
    monitor.wait(60)
    assert monitor.stderr.read() == b""
    monitor.stderr.close()
