"""The real TPU compiler on the real training step."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("jax", reason="the TPU compiler is in the extra `preflight`")
pytest.importorskip("libtpu", reason="the TPU compiler is in the extra `preflight`")

pytestmark = [pytest.mark.training, pytest.mark.slow]

TPUDECK = (sys.executable, "-c", "from tpudeck.cli import main; main()")


def preflight(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run([*TPUDECK, "preflight", *arguments, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def test_a_step_that_fits_is_reported_with_memory_operations_bytes_and_bounds_and_remembered() -> None:
    first = preflight("tiny", "--chip", "v5e")
    assert first["chip"] == "v5e" and first["fits"] is True and first["cached"] is False
    assert first["tokens_per_step"] == 16 * 32
    assert first["flops"] == pytest.approx(first["model_flops"], rel=0.5)
    assert 0 < first["peak_memory_bytes"] < first["hbm_bytes"]
    assert first["memory"]["aliased_bytes"] > 0.9 * first["memory"]["outputs_bytes"], "weights are updated in place"
    assert 0 < first["model_flops_utilisation_bound"] < 1
    assert first["consumers"]
    again = preflight("tiny", "--chip", "v5e")
    assert again.pop("cached") is True and first.pop("cached") is False
    assert again == first


@pytest.mark.parametrize("chip", ["v3", "v4", "v6e"])
def test_other_chips_compile_too(chip: str) -> None:
    assert preflight("tiny", "--chip", chip)["fits"] is True


def test_a_chip_or_a_preset_that_cannot_be_is_refused_before_anything_starts() -> None:
    for arguments in (("tiny", "--chip", "v9"), ("tiny", "--chip", "7x"), ("tiny",), ("nothing", "--chip", "v5e")):
        done = subprocess.run([*TPUDECK, "preflight", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
