"""How `tpudeck preflight` tells its result to a person; the compiler's side is tested in `tests/training`."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from tpudeck import jobs
from tpudeck.cli.app import app
from tpudeck.errors import InputError

FITS: dict[str, Any] = {
    "chip": "v5e", "replica_batch_size": 32, "fits": True, "flops": 1.01e13, "bytes_accessed": 9.7e10,
    "peak_memory_bytes": 8 * 2**30, "hbm_bytes": 16 * 2**30, "memory": {"temporary_bytes": 7 * 2**30},
    "flops_per_token": 6.2e8, "bytes_per_token": 5.9e6, "model_flops_utilisation_bound": 0.43, "compile_s": 76.0,
    "cached": True, "excludes": "one replica's step", "consumers": [
        {"operation": "Softmax", "array": "bf16[32,12,512,512]", "bytes": 1e10, "share": 0.1, "count": 12},
    ],
    "bound": {"compute_s": 0.051, "memory_s": 0.118, "step_s": 0.118, "limited_by": "memory", "tokens_per_s": 138000.0},
}  # fmt: skip
TOO_LARGE: dict[str, Any] = {
    "chip": "v5e", "replica_batch_size": 512, "fits": False, "error": "RESOURCE_EXHAUSTED: Ran out of memory\nmore",
    "explanation": "the step needs 20G and the chip has 15G", "fix": "halve the batch",
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks of the job, whose answer is `asked["answer"]`."""
    asked: dict[str, Any] = {"answer": FITS}

    def run(task: str, experiment: Any, *, request: dict[str, Any], **other: Any) -> dict[str, Any]:
        asked.update(task=task, request=request, experiment=experiment)
        return dict(asked["answer"])

    monkeypatch.setattr(jobs, "run", run)
    return asked


def preflight(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["preflight", *arguments])


def test_a_step_that_fits_is_told_with_its_bound_and_what_moves_the_bytes(asked: dict[str, Any]) -> None:
    text = preflight("roberta-base-v5e-8").stdout
    assert "32 sequences per replica on v5e: fits, 8.0 GiB of 16.0 GiB (temporary 7.0 GiB)" in text
    assert "at least 118 ms: compute 51, memory 118; bound by memory" in text
    assert "at most 138,000 tokens/s and 43% of the peak" in text
    assert "10%  Softmax, bf16[32,12,512,512], 12 times" in text
    assert asked["request"] == {"chip": "v5e", "replica_batch_size": None, "largest": False}


def test_a_step_that_is_too_large_is_told_with_the_fix_and_exits_with_1(asked: dict[str, Any]) -> None:
    asked["answer"] = TOO_LARGE
    done = preflight("quickstart", "--chip", "v5e", "--batch", "512")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "512 sequences per replica on v5e: does not fit",
        "RESOURCE_EXHAUSTED: Ran out of memory",
        "the step needs 20G and the chip has 15G",
        "→ halve the batch",
    ]


def test_a_search_ends_with_every_size_that_was_tried(asked: dict[str, Any]) -> None:
    trials = [FITS, TOO_LARGE]
    asked["answer"] = FITS | {"trials": trials, "largest_replica_batch_size": 32, "best_replica_batch_size": 32}
    text = preflight("quickstart", "--chip", "v5e", "--largest-batch", "--set", "train.seed=3").stdout
    assert text.splitlines()[-3:] == [
        "     32: 138,000 tokens/s at most",
        "    512: does not fit",
        "largest that fits: 32; best bound: 32",
    ]
    assert asked["experiment"].train.seed == 3


def test_a_preset_that_plans_for_no_chip_needs_one_named(asked: dict[str, Any]) -> None:
    done = preflight("quickstart")
    assert isinstance(done.exception, InputError) and "--chip" in done.exception.hint
