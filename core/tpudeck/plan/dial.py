"""One dial, a number of tokens or of floating-point operations, from which everything else about a training follows.

The rules are published fits, made on causal models far larger than most of what is trained here; they give a reasonable
start and not an optimum. In the order in which they are applied:

1. **Size.** A model has one degree of freedom, its number of layers: the width is 64 times that, with heads of 64
   (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 3.1: the loss hardly depends on the ratio of
   width to depth; BERT-base has 64). It gets the most layers for which there are 20 tokens per parameter of the layers
   (Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models", section 3; they count the embeddings too,
   which in small models would leave nothing for the layers) and that fits the planned device.
2. **Batch and learning rate** follow from the arithmetic C of the whole training in FLOP: ``0.2920·C^0.3271`` tokens
   and ``0.3118·C^-0.1250`` (DeepSeek-AI 2024, "DeepSeek LLM: Scaling Open-Source Language Models", section 3.1). Where
   the device plans for a TPU, the batch is cut into as many microsteps as its memory asks for.
3. **Warm-up** takes 5 % of the steps (Liu et al. 2019, "RoBERTa", table 9: 24,000 of 500,000).
4. **Initial weights** have the standard deviation ``sqrt(2 / (5·width))`` (Nguyen and Salazar 2019, "Transformers
   without Tears"): 0.023 at a width of 768, and more in small models, which need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpudeck.errors import InputError
from tpudeck.plan.size import flops_per_token, layer_parameter_count, memory_per_replica
from tpudeck.units import format_count

if TYPE_CHECKING:
    from tpudeck.presets import Experiment

__all__ = ["TOKENS_PER_PARAMETER", "dial_compute", "dial_tokens"]

TOKENS_PER_PARAMETER = 20
_WIDTH_PER_LAYER = 64
_HEAD_WIDTH = 64
_MOST_LAYERS = 96
_BATCH_MULTIPLE = 8
"""Sequences per replica come in eights, as a TPU's vector unit has them."""


def dial_tokens(base: Experiment, tokens: float, *, replicas: int) -> dict[str, Any]:
    """What to change in `base` to train on so many tokens, as nested data for a preset."""
    return _follow(base, lambda candidate: tokens, replicas)


def dial_compute(base: Experiment, flops: float, *, replicas: int) -> dict[str, Any]:
    """What to change in `base` to spend so many floating-point operations, as nested data for a preset."""
    vocab_size = base.tokenizer.vocab_size
    return _follow(base, lambda candidate: flops / flops_per_token(candidate, vocab_size=vocab_size), replicas)


def _follow(base: Experiment, affordable_tokens: Callable[[Experiment], float], replicas: int) -> dict[str, Any]:
    """Apply the rules: `affordable_tokens` says how many tokens a model of some size could be trained on."""
    best = None
    for layers in range(1, _MOST_LAYERS + 1):
        candidate = _shaped(base, layers)
        enough = affordable_tokens(candidate) >= TOKENS_PER_PARAMETER * layer_parameter_count(candidate)
        if not enough or not _fits(candidate, _BATCH_MULTIPLE):
            break
        best = candidate
    if best is None:
        smallest = _shaped(base, 1)
        needed = format_count(TOKENS_PER_PARAMETER * layer_parameter_count(smallest))
        got = format_count(affordable_tokens(smallest))
        raise InputError(f"the smallest model (1 layer x {_WIDTH_PER_LAYER}) takes {needed} tokens, got {got}")
    return _changes(best, affordable_tokens(best), replicas)


def _shaped(base: Experiment, layers: int) -> Experiment:
    width = layers * _WIDTH_PER_LAYER
    shape = {"layers": layers, "width": width, "heads": width // _HEAD_WIDTH, "feed_forward": None}
    return base.model_copy(update={"model": base.model.model_copy(update=shape)})


def _changes(experiment: Experiment, tokens: float, replicas: int) -> dict[str, Any]:
    model, length = experiment.model, experiment.shards.sequence_length
    compute = tokens * flops_per_token(experiment, vocab_size=experiment.tokenizer.vocab_size)
    optimum = 0.2920 * compute**0.3271 / length / (_BATCH_MULTIPLE * replicas)
    microsteps = _microsteps(experiment, max(1, math.ceil(optimum)) * _BATCH_MULTIPLE)
    batch = max(1, math.floor(optimum / microsteps + 0.5)) * _BATCH_MULTIPLE * replicas * microsteps
    return {
        "model": {
            "layers": model.layers,
            "width": model.width,
            "heads": model.heads,
            "feed_forward": "none",
            "initializer_range": _rounded(math.sqrt(2 / (5 * model.width))),
        },
        "train": {
            "steps": max(1, round(tokens / (batch * length))),
            "global_batch_size": batch,
            "accumulation_steps": microsteps,
            "learning_rate": _rounded(0.3118 * compute**-0.1250),
            "warmup": "5 %",
        },
    }


def _fits(experiment: Experiment, sequences: int) -> bool:
    """Whether a microstep of so many sequences fits the planned device; without one, everything does."""
    planned, vocab_size = experiment.planned_device, experiment.tokenizer.vocab_size
    memory = memory_per_replica(experiment, vocab_size=vocab_size, replica_batch=sequences)
    return planned is None or memory.total_bytes <= planned[0].hbm_bytes_per_device


def _microsteps(experiment: Experiment, replica_batch: int) -> int:
    """The fewest microsteps, a power of two, in which a replica's share of the batch fits the planned device."""
    microsteps = 1
    while not _fits(experiment, math.ceil(replica_batch / microsteps)):
        microsteps *= 2
    return microsteps


def _rounded(value: float) -> float:
    """To three digits, as people write such numbers."""
    return float(f"{value:.3g}")
