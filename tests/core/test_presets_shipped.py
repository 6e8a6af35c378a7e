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
    stated = re.match(r"about ([\d.]+ (?:hours|min))", experiment.takes)
    assert stated and "at 40 % of peak" in experiment.takes
    chain = plan.derive(experiment, sequences_train=WIKITEXT_103_SEQUENCES, utilisation=0.4)
    assert chain.value("time_s") == pytest.approx(parse_duration(stated[1]), rel=0.05)


@pytest.mark.parametrize("name", ON_TPU)
def test_on_every_host_the_global_batch_is_the_same_and_the_estimate_fits_the_memory(home: Home, name: str) -> None:
    experiment = resolve(name, home=home).experiment
    assert experiment.planned_device is not None
    chain = plan.derive(experiment)
    assert chain.value("global_batch") == 256
    assert (chain.value("memory_bytes") or 0) < experiment.planned_device[0].hbm_bytes_per_device
    assert experiment.train.precision == "bfloat16"
