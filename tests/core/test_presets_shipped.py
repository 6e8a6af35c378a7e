"""What the shipped presets promise in their heads is what follows from their values."""

from __future__ import annotations

import re

import pytest

from tpudeck import plan
from tpudeck.config import Home
from tpudeck.presets import resolve, shipped_folder
from tpudeck.units import parse_duration

NAMES = sorted(path.stem for path in shipped_folder().glob("*.toml"))
ON_TPU = [name for name in NAMES if re.search(r"-v\de?-8$", name)]
WIKITEXT_103_SEQUENCES = 940_000
"""Of 128 tokens, at the 4.5 characters a token that the preset's head assumes."""


def head(name: str) -> str:
    """The comment that a preset begins with."""
    text = (shipped_folder() / f"{name}.toml").read_text()
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))


def test_the_promised_ones_are_there() -> None:
    bases = {f"{model}-base-{host}" for model in ("bert", "roberta") for host in ("v3-8", "v4-8", "v5e-8", "v6e-8")}
    assert bases | {"quickstart", "roberta-base-wikitext103", "small", "tiny"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_in_its_head_and_its_fields_what_for_what_it_needs_and_how_long(home: Home, name: str) -> None:
    text = (shipped_folder() / f"{name}.toml").read_text()
    assert re.match(r"# What for: .*\n(#.*\n)*# Needs: .*\n(#.*\n)*# Takes: ", text)
    experiment = resolve(name, home=home).experiment
    assert experiment.summary and experiment.needs and experiment.takes


@pytest.mark.parametrize("name", [*ON_TPU, "roberta-base-wikitext103"])
def test_the_time_a_tpu_preset_gives_is_the_time_that_follows(home: Home, name: str) -> None:
    experiment = resolve(name, home=home).experiment
    compiled = re.search(r"at least (\d+) ms, and at most (\d+) % of the peak", head(name))
    if compiled and int(compiled[2]) < 40:
        stated = re.match(r"at least ([\d.]+ hours) \(compiled", experiment.takes)
        expected = (experiment.train.steps or 0) * int(compiled[1]) / 1000
    else:
        stated = re.match(r"about ([\d.]+ (?:hours|min)).* at 40 % of peak", experiment.takes)
        chain = plan.derive(experiment, sequences_train=WIKITEXT_103_SEQUENCES, utilisation=0.4)
        expected = chain.value("time_s") or 0
    assert stated and parse_duration(stated[1]) == pytest.approx(expected, rel=0.05)
    assert stated[1] in head(name)


@pytest.mark.parametrize("name", [name for name in NAMES if "# Compiled:" in head(name)])
def test_what_the_compiler_said_is_about_the_presets_chip_and_fits_it(home: Home, name: str) -> None:
    compiled = re.search(r"# Compiled: for one (\w+) device, by its own compiler: ([\d.]+) of (\d+) GiB", head(name))
    assert compiled
    planned = resolve(name, home=home).experiment.planned_device
    assert planned is not None and planned[0].name == compiled[1]
    assert float(compiled[2]) < int(compiled[3]) == planned[0].hbm_bytes_per_device / 2**30


@pytest.mark.parametrize("name", ON_TPU)
def test_on_every_host_the_global_batch_is_the_same_and_the_estimate_fits_the_memory(home: Home, name: str) -> None:
    experiment = resolve(name, home=home).experiment
    assert experiment.planned_device is not None
    chain = plan.derive(experiment)
    assert chain.value("global_batch") == 256
    assert (chain.value("memory_bytes") or 0) < experiment.planned_device[0].hbm_bytes_per_device
    assert experiment.train.precision == "bfloat16"
