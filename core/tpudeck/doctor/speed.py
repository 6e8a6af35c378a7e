"""How fast a run is against what its device could do, what holds it back, and what to change.

Model FLOPs utilisation is the arithmetic that the model needs (forward and backward, no recomputation) per second,
against the device's peak in matrix products (Chowdhery et al. 2022, "PaLM", appendix B). Base-sized models reach 35 to
45 % on TPUs in good public runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.config import Home
from tpudeck.devices.inventory import find_chips
from tpudeck.devices.peak import cpu_peak
from tpudeck.errors import InputError
from tpudeck.plan import flops_per_token
from tpudeck.presets import load_experiment
from tpudeck.runs.reader import RunReader
from tpudeck.storage import read_json

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.runs.series import Series

__all__ = ["Speed", "judge", "measure"]

GOOD_UTILISATION = 0.35
_INPUT_BOUND = 0.1
"""A step that waits longer than this share of itself for its batch is bound by its input."""
_LINES = 20
"""So many of the newest logged lines are looked at; their median stands for the run."""

_ADVICE = {
    "input-bound": "batches come too slowly: put the shards on a local disk, and look at what else uses the CPU",
    "compute-bound": "the device is busy with the model: only fewer tokens, a smaller model or more devices are faster",
    "memory-bound": "the device waits for its memory or for the host: train.precision = bfloat16, a larger batch per "
    "replica; on a TPU `tpudeck preflight` shows which operations move the bytes",
    "unknown": "the input is not what holds it back; without a peak there is nothing to compare the rest with",
}


@dataclass(frozen=True)
class Speed:
    """How fast a run is, and what that means."""

    tokens_per_s: float
    step_s: float
    input_wait_s: float
    """Seconds of each step spent waiting for its batch."""
    model_flops_per_s: float
    peak_flops_per_s: float | None
    peak_of: str
    """What the peak is the peak of; where there is none, why."""
    utilisation: float | None
    verdict: str
    advice: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    experiment: Experiment,
    *,
    vocab_size: int,
    tokens_per_s: float,
    step_s: float,
    input_wait_s: float,
    peak_flops_per_s: float | None,
    peak_of: str,
) -> Speed:
    """The verdict on a measured speed."""
    flops = tokens_per_s * flops_per_token(experiment, vocab_size=vocab_size)
    if peak_flops_per_s and flops > peak_flops_per_s:
        peak_flops_per_s, peak_of = None, f"{peak_of}: less than the run does, so it is not the peak"
    utilisation = flops / peak_flops_per_s if peak_flops_per_s else None
    if step_s > 0 and input_wait_s / step_s > _INPUT_BOUND:
        verdict = "input-bound"
    elif utilisation is None:
        verdict = "unknown"
    else:
        verdict = "compute-bound" if utilisation >= GOOD_UTILISATION else "memory-bound"
    return Speed(
        tokens_per_s=tokens_per_s,
        step_s=step_s,
        input_wait_s=input_wait_s,
        model_flops_per_s=flops,
        peak_flops_per_s=peak_flops_per_s,
        peak_of=peak_of,
        utilisation=utilisation,
        verdict=verdict,
        advice=_ADVICE[verdict],
    )


def measure(folder: Path) -> Speed:
    """The verdict on a run, from the newest lines that it logged."""
    snapshot = RunReader(folder).refresh()
    if "tokens_per_s" not in snapshot.metrics or not (folder / "plan.json").exists():
        raise InputError(f"{snapshot.summary.id} has not logged a step yet", hint="look again when it trains")
    experiment = load_experiment(folder / "experiment.toml")
    peak, peak_of = _peak(experiment, snapshot.summary.device)
    return judge(
        experiment,
        vocab_size=int(read_json(folder / "plan.json")["vocab_size"]),
        tokens_per_s=_recent(snapshot.metrics, "tokens_per_s"),
        step_s=_recent(snapshot.metrics, "step_s"),
        input_wait_s=_recent(snapshot.metrics, "input_wait_s"),
        peak_flops_per_s=peak,
        peak_of=peak_of,
    )


def _recent(metrics: Mapping[str, Series], name: str) -> float:
    import numpy as np

    return float(np.median(metrics[name].value[-_LINES:])) if name in metrics else 0.0


def _peak(experiment: Experiment, device: str) -> tuple[float | None, str]:
    """The peak of what the run trains on: of the planned TPU, of the chips here, or of this CPU, measured now."""
    if planned := experiment.planned_device:
        chip, count = planned
        return count * chip.peak_bf16_flops_per_device, f"{count} {chip.name} devices, bfloat16"
    chips = [found.chip for found in find_chips() if found.chip]
    if device.startswith("tpu") and chips:
        return sum(chip.peak_bf16_flops for chip in chips), f"{len(chips)} {chips[0].name} chips, bfloat16"
    if not device.startswith("cpu"):
        return None, f"the peak of {device or 'this device'} is not known"
    return cpu_peak(Home.here()), "this CPU's float32 matrix products, measured"
