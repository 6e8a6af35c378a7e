"""`tpudeck monitor` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_the_doctor_lists_findings_as_json_with_a_fix_for_each_that_is_not_ok() -> None:
    done = subprocess.run([*TPUDECK, "doctor", "--json"], capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)
    assert {"python", "packages", "disk"} <= {finding["check"] for finding in findings}
    assert all(finding["fix"] for finding in findings if finding["level"] in {"warning", "error"})
    assert done.returncode == (2 if any(finding["level"] == "error" for finding in findings) else 0)


def test_the_doctor_explains_a_log_from_standard_input_and_from_a_file(tmp_path: Path) -> None:
    log = b"\xff\xfe broken\nUnavailableError: Socket closed [x]\n"
    (tmp_path / "console.log").write_bytes(log)
    piped = subprocess.run([*TPUDECK, "doctor", "explain", "--json"], input=log, capture_output=True, check=True)
    named = subprocess.run(
        [*TPUDECK, "doctor", "explain", str(tmp_path / "console.log"), "--json"], capture_output=True, check=True
    )
    assert json.loads(piped.stdout) == json.loads(named.stdout)
    assert "resume" in json.loads(piped.stdout)[0]["fix"]


def test_the_speed_of_a_run_that_is_not_there_is_an_input_error() -> None:
    done = subprocess.run([*TPUDECK, "doctor", "speed", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
