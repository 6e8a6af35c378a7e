"""The verdict on how fast a run is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tpudeck import launch
from tpudeck.config import Home
from tpudeck.doctor.speed import judge, measure
from tpudeck.errors import InputError
from tpudeck.plan import flops_per_token
from tpudeck.presets import Experiment, resolve
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import write_json


@pytest.fixture
def experiment(home: Home, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-8")  # as on a TPU VM: else launching is refused
    return resolve("bert-base-v5e-8", home=home).experiment


@pytest.mark.parametrize(
    ("wait", "utilisation", "verdict", "advice"),
    [
        (0.02, 0.41, "compute-bound", "smaller model"),
        (0.02, 0.15, "memory-bound", "preflight"),
        (0.30, 0.15, "input-bound", "shards"),
        (0.30, 0.41, "input-bound", "shards"),
        (0.02, None, "unknown", "nothing to compare"),
    ],
)
def test_a_verdict_names_what_holds_the_run_back_and_what_to_change(
    experiment: Experiment, wait: float, utilisation: float | None, verdict: str, advice: str
) -> None:
    flops = 1e6 * flops_per_token(experiment, vocab_size=30_522)
    found = judge(
        experiment,
        vocab_size=30_522,
        tokens_per_s=1e6,
        step_s=1.0,
        input_wait_s=wait,
        peak_flops_per_s=flops / utilisation if utilisation else None,
        peak_of="a device",
    )
    assert found.verdict == verdict and advice in found.advice
    assert found.utilisation == (pytest.approx(utilisation) if utilisation else None)


def logged(home: Home, experiment: Experiment, *, tokens_per_s: float) -> Path:
    """A run that has logged a slow start and then a steady speed."""
    folder = launch.create(experiment, home=home)
    write_json(folder / "plan.json", {"vocab_size": 30_522})
    writer = RunWriter(folder, attempt=1)
    for step in range(1, 31):
        rate = 1.0 if step == 1 else tokens_per_s
        writer.metrics(step, loss=3.0, tokens_per_s=rate, step_s=131_072 / rate, input_wait_s=0.0)
    writer.close()
    return folder


def test_the_utilisation_of_a_run_on_a_planned_tpu_is_against_all_its_chips(home: Home, experiment: Experiment) -> None:
    found = measure(logged(home, experiment, tokens_per_s=1e6))
    peak = 8 * 197e12
    assert found.peak_flops_per_s == peak and "8 v5e devices" in found.peak_of
    assert found.utilisation == pytest.approx(1e6 * flops_per_token(experiment, vocab_size=30_522) / peak)
    assert found.verdict == "compute-bound"
    json.dumps(found.to_dict())


def test_the_peak_of_a_cpu_is_measured(home: Home) -> None:
    experiment = resolve("tiny", home=home, overrides=["device.kind=cpu"]).experiment
    found = measure(logged(home, experiment, tokens_per_s=1000))
    assert found.peak_flops_per_s is not None and "measured" in found.peak_of
    assert found.verdict == "memory-bound"


def test_a_peak_below_what_the_run_does_is_no_peak(experiment: Experiment) -> None:
    found = judge(
        experiment,
        vocab_size=30_522,
        tokens_per_s=1e6,
        step_s=1.0,
        input_wait_s=0.0,
        peak_flops_per_s=1e9,
        peak_of="a CPU",
    )
    assert found.utilisation is None and found.peak_flops_per_s is None and found.verdict == "unknown"
    assert "not the peak" in found.peak_of


def test_a_run_that_has_logged_nothing_is_told_so(home: Home, experiment: Experiment) -> None:
    with pytest.raises(InputError, match="has not logged a step yet"):
        measure(launch.create(experiment, home=home))
