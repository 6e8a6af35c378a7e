"""The real TPU compiler: on the real training step, and on programs that it or XLA refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tinyruns import tiny_experiment
from tpudeck import jobs
from tpudeck.chips import chip_named
from tpudeck.preflight.compiler import ENVIRONMENT
from tpudeck.preflight.lowering import program_of
from tpudeck.preflight.report import report
from tpudeck.presets import save_experiment
from tpudeck.storage import write_json

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


@pytest.mark.parametrize("chip", ["v3", "v4", "v5p", "v6e"])
def test_other_chips_compile_too(chip: str) -> None:
    assert preflight("tiny", "--chip", chip)["fits"] is True


def compiled(folder: Path, program: bytes) -> dict[str, Any]:
    """What the compiler says of a program."""
    folder.mkdir()
    (folder / "step.hlo").write_bytes(program)
    save_experiment(tiny_experiment(), folder / "experiment.toml")
    write_json(folder / "request.json", {"hlo": str(folder / "step.hlo"), "chip": "v5e"})
    return dict(jobs.start("compile", folder, environ=ENVIRONMENT).result())


def test_a_program_that_is_too_large_comes_back_in_the_compilers_words_with_the_arithmetic_and_is_remembered(
    tmp_path: Path,
) -> None:
    program = program_of(lambda x: x @ x, [tf.TensorSpec([2**16, 2**16], tf.float32)])
    refused = compiled(tmp_path / "first", program)
    told = report(tiny_experiment(), chip_named("v5e"), 8, refused)
    assert told["fits"] is False and told["error"].startswith("RESOURCE_EXHAUSTED")
    assert told["explanation"] and told["fix"]
    assert told["peak_memory_bytes"] > told["usable_hbm_bytes"] > 15 * 2**30
    assert compiled(tmp_path / "second", program)["cached"] is True


def test_another_program_is_not_taken_for_one_that_is_remembered(tmp_path: Path) -> None:
    spec = [tf.TensorSpec([128, 128], tf.float32)]
    one = compiled(tmp_path / "one", program_of(lambda x: x @ x, spec))
    other = compiled(tmp_path / "other", program_of(lambda x: x @ x @ x, spec))
    assert one["cached"] is other["cached"] is False
    assert other["flops"] > one["flops"]


def test_a_chip_or_a_preset_that_cannot_be_is_refused_before_anything_starts() -> None:
    for arguments in (("tiny", "--chip", "v9"), ("tiny", "--chip", "7x"), ("tiny",), ("nothing", "--chip", "v5e")):
        done = subprocess.run([*TPUDECK, "preflight", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
