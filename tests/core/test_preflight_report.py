"""What preflight concludes from a compiler's words and figures, without compiling."""

from __future__ import annotations

from typing import Any

import pytest

from tpudeck.chips import chip_named
from tpudeck.errors import WorkError
from tpudeck.plan import flops_per_token
from tpudeck.preflight.program import consumers
from tpudeck.preflight.report import report
from tpudeck.preflight.trials import largest_fitting
from tpudeck.presets import Experiment, experiment_from

PROGRAM = """\
HloModule step, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%fused (p: f32[1000]) -> f32[1000] {
  %p = f32[1000]{0} parameter(0)
  ROOT %big = f32[1000]{0} multiply(%p, %p), metadata={op_name="inside a fusion"}
}

%body (state: (s32[], f32[1000])) -> (s32[], f32[1000]) {
  %state = (s32[], f32[1000]{0}) parameter(0)
  %x = f32[1000]{0} get-tuple-element(%state), index=1
  %y = f32[1000]{0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="while/body/Softmax_12"}
  ROOT %next = (s32[], f32[1000]{0}) tuple(%x, %y)
}

ENTRY %main (a: bf16[100,100], b: bf16[100,100]) -> f32[1000] {
  %a = bf16[100,100]{1,0:T(8,128)(2,1)} parameter(0)
  %b = bf16[100,100]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  %c = bf16[100,100]{1,0} convolution(%a, %b), dim_labels=bf_io->bf, metadata={op_name="MatMul_3"}
  %d = bf16[100,100]{1,0} fusion(%a, %c), kind=kOutput, metadata={op_name="gradient_tape/MatMul_9/MatMul"}
  %e = f32[100,100]{1,0} convert(%d)
  %init = (s32[], f32[1000]{0}) tuple()
  %loop = (s32[], f32[1000]{0}) while(%init), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %out = f32[1000]{0} get-tuple-element(%loop), index=1
}
"""


def experiment(**train: Any) -> Experiment:
    return experiment_from({"train": {"steps": 1, "replica_batch_size": 8} | train})


def test_bytes_are_those_that_instructions_read_and_write_in_main_memory() -> None:
    found = {entry["operation"]: entry for entry in consumers(PROGRAM)}
    assert found["MatMul"]["bytes"] == 2 * 20_000, "one operand is in fast memory"
    assert found["MatMul (backward)"]["bytes"] == 3 * 20_000
    assert found["convert"]["bytes"] == 20_000 + 40_000
    assert found["Softmax"] == {
        "operation": "Softmax", "array": "f32[1000]", "bytes": 5 * 8000, "share": pytest.approx(0.2), "count": 5,
    }  # fmt: skip
    assert "inside a fusion" not in found


def test_consumers_come_by_size_and_no_more_than_asked_for() -> None:
    sizes = [entry["bytes"] for entry in consumers(PROGRAM, most=3)]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 3


def test_text_that_is_no_program_has_no_consumers() -> None:
    assert consumers("") == [] and consumers("ENTRY nonsense {\n}\n") == []


def compiled(**changes: Any) -> dict[str, Any]:
    figures = {"flops": 1e12, "bytes_accessed": 1e10, "peak_memory_bytes": 2**30, "memory": {}, "consumers": []}
    return {"compile_s": 1.0, "cached": False} | figures | changes


@pytest.mark.parametrize(("flops", "moved", "limited_by"), [(1e13, 1e10, "compute"), (1e12, 1e11, "memory")])
def test_the_bound_is_the_longer_of_arithmetic_and_bytes(flops: float, moved: float, limited_by: str) -> None:
    chip = chip_named("v5e")
    told = report(experiment(), chip, 8, compiled(flops=flops, bytes_accessed=moved))
    bound = told["bound"]
    assert bound["limited_by"] == limited_by
    assert bound["step_s"] == pytest.approx(max(flops / chip.peak_bf16_flops, moved / chip.hbm_bytes_per_s))
    useful = 8 * 128 * flops_per_token(experiment(), vocab_size=10_048)
    assert told["model_flops_utilisation_bound"] == pytest.approx(useful / chip.peak_bf16_flops / bound["step_s"])
    assert told["fits"] is True


def test_microsteps_count_as_tokens_of_the_step() -> None:
    told = report(experiment(accumulation_steps=4), chip_named("v5e"), 8, compiled())
    assert told["tokens_per_step"] == 4 * 8 * 128
    assert told["flops_per_token"] == 1e12 / told["tokens_per_step"]


def test_a_v3_device_has_half_of_its_chip() -> None:
    whole, half = (
        report(experiment(), chip_named(name), 8, compiled(flops=1e13))["bound"]["compute_s"] for name in ("v4", "v3")
    )
    assert half / whole == pytest.approx(275 / 61.5)


def test_a_program_that_is_too_large_is_told_with_the_sizes_and_what_to_do() -> None:
    words = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.93G of 15.48G hbm. Exceeded hbm."
    told = report(experiment(), chip_named("v5e"), 8, {"compile_s": 1.0, "cached": False, "refused": words})
    assert told["fits"] is False and told["error"] == words
    assert told["peak_memory_bytes"] == round(20.93 * 2**30)
    assert told["usable_hbm_bytes"] == round(15.48 * 2**30)
    assert "accumulation_steps" in told["fix"]


def test_what_the_compiler_refuses_for_another_reason_is_a_failure_and_not_a_size() -> None:
    words = "INVALID_ARGUMENT: Input 1 to node `Reshape` must be a compile-time constant."
    with pytest.raises(WorkError, match="the compiler refuses the step") as caught:
        report(experiment(), chip_named("v5e"), 8, {"compile_s": 1.0, "cached": False, "refused": words})
    assert "static" in caught.value.hint


@pytest.mark.parametrize("limit", [0, 7, 8, 31, 32, 100, 136, 5000])
@pytest.mark.parametrize("start", [1, 8, 12, 64])
def test_the_largest_batch_is_found_in_few_trials_wherever_the_search_starts(limit: int, start: int) -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= limit

    found = largest_fitting(fits, start=start)
    assert found == limit // 8 * 8 if limit < 2048 else 2048 < found <= 4096
    assert all(size % 8 == 0 for size in tried)
    assert len(set(tried)) <= 12
