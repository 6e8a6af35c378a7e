"""What follows from what the compiler said: whether it fits, what bounds the step, and what of the peak that allows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpudeck.doctor import explain
from tpudeck.errors import WorkError
from tpudeck.plan import flops_per_token

if TYPE_CHECKING:
    from tpudeck.chips import Chip
    from tpudeck.presets import Experiment

__all__ = ["report"]

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_OUT_OF_MEMORY = re.compile(r"Ran out of memory in memory space hbm[^U]*Used ([\d.]+)([KMG]?) of ([\d.]+)([KMG]?)")


def report(experiment: Experiment, chip: Chip, replica_batch: int, compiled: Mapping[str, Any]) -> dict[str, Any]:
    """One trial: the compiler's figures and what follows; where it is too large, the words and our explanation."""
    tokens = replica_batch * experiment.train.accumulation_steps * experiment.shards.sequence_length
    head = {
        "chip": chip.name,
        "replica_batch_size": replica_batch,
        "tokens_per_step": tokens,
        "hbm_bytes": chip.hbm_bytes_per_device,
        "compile_s": compiled["compile_s"],
        "cached": compiled["cached"],
    }
    if "refused" in compiled:
        return head | _refused(str(compiled["refused"]))
    flops, moved = compiled["flops"], compiled["bytes_accessed"]
    return (
        head
        | {"fits": True, "flops": flops, "bytes_accessed": moved, "peak_memory_bytes": compiled["peak_memory_bytes"]}
        | {"memory": compiled["memory"], "flops_per_token": flops / tokens, "bytes_per_token": moved / tokens}
        | _bounds(experiment, chip, tokens, flops, moved)
        | {"consumers": compiled["consumers"]}
    )


def _bounds(experiment: Experiment, chip: Chip, tokens: int, flops: float, moved: float) -> dict[str, Any]:
    """The step takes at least as long as its arithmetic at the peak, and as its bytes at full bandwidth."""
    compute_s = flops / chip.peak_bf16_flops_per_device
    memory_s = moved / chip.hbm_bytes_per_s_per_device
    step_s = max(compute_s, memory_s)
    useful = tokens * flops_per_token(experiment, vocab_size=experiment.tokenizer.vocab_size)
    return {
        "bound": {
            "compute_s": compute_s,
            "memory_s": memory_s,
            "step_s": step_s,
            "limited_by": "compute" if compute_s >= memory_s else "memory",
            "tokens_per_s": tokens / step_s,
        },
        "model_flops": useful,
        "model_flops_utilisation_bound": useful / chip.peak_bf16_flops_per_device / step_s,
    }


def _refused(words: str) -> dict[str, Any]:
    """A program that is too large: the compiler's words, shortened, and the memory they speak of.

    Raises :class:`WorkError` where the compiler refuses the program for another reason.
    """
    known = explain(words)
    cause, fix = (known[0].cause, known[0].fix) if known else ("", "")
    if "RESOURCE_EXHAUSTED" not in words:
        raise WorkError(f"the compiler refuses the step: {words[:2000]}", hint=f"{cause}: {fix}" if known else "")
    told: dict[str, Any] = {"fits": False, "error": words[:2000], "explanation": cause, "fix": fix}
    if memory := _OUT_OF_MEMORY.search(words):
        told["peak_memory_bytes"] = round(float(memory[1]) * _UNITS[memory[2]])
        told["usable_hbm_bytes"] = round(float(memory[3]) * _UNITS[memory[4]])
    return told
