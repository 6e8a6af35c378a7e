"""`tpudeck presets …` from the outside: what it prints, writes, and exits with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from tpudeck.cli.app import app
from tpudeck.config import Home
from tpudeck.errors import InputError


def presets(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["presets", *arguments], catch_exceptions=True)


def write(home: Home, name: str, text: str) -> None:
    home.presets.mkdir(parents=True, exist_ok=True)
    (home.presets / f"{name}.toml").write_text(text)


def test_a_broken_preset_has_its_fault_in_its_row_and_hides_no_other(home: Home) -> None:
    write(home, "broken", "[train]\nstep = 3\n")
    rows = {row["name"]: row for row in json.loads(presets("list", "--json").stdout)}
    assert "did you mean steps?" in rows["broken"]["error"]
    assert rows["broken"]["origin"] == "yours"
    assert rows["quickstart"]["origin"] == "shipped" and not rows["quickstart"]["error"]


def test_show_prints_every_value_with_its_origin_and_the_numbered_chain() -> None:
    done = presets("show", "tiny", "--set", "train.seed=3")
    lines = done.stdout.splitlines()
    assert "train.seed\t3\t--set" in lines
    assert "train.steps\t300\tpreset tiny" in lines
    assert "train.beta1\t0.9\tdefault" in lines
    assert " 6. steps in all: 300 steps  (train.steps = 300)" in lines


def test_show_as_json_holds_values_origins_and_plan() -> None:
    shown = json.loads(presets("show", "tiny", "--json", "--sequences", "1600").stdout)
    assert shown["experiment"]["train"]["steps"] == 300
    assert shown["origins"]["train.steps"] == "preset tiny"
    assert {"name": "steps_per_epoch", "value": 100.0} .items() <= shown["plan"][4].items()  # fmt: skip


def test_show_as_toml_is_a_preset_that_resolves_to_the_same(home: Home) -> None:
    text = presets("show", "bert-base-v5e-8", "--toml").stdout
    write(home, "whole", text)
    differences = json.loads(presets("diff", "bert-base-v5e-8", "whole", "--json").stdout)
    assert differences == {}


def test_validate_tells_every_fault_of_every_preset_and_exits_with_2(home: Home) -> None:
    write(home, "broken", "[train]\nstep = 3\n[model]\nheads = 5\n")
    done = presets("validate", "--json")
    assert done.exit_code == InputError.exit_code
    verdicts = {row["preset"]: row for row in json.loads(done.stdout)}
    assert {fault["path"] for fault in verdicts["broken"]["faults"]} == {"train.step", "model.heads", "train"}
    assert verdicts["tiny"] == {"preset": "tiny", "valid": True, "error": "", "faults": []}
    assert presets("validate", "tiny", "small").exit_code == 0


def test_diff_shows_only_what_differs() -> None:
    found = json.loads(presets("diff", "bert-base-v3-8", "bert-base-v4-8", "--json").stdout)
    assert found["train.replica_batch_size"] == {"left": 32, "right": 64}
    assert set(found) == {"name", "summary", "needs", "takes", "train.replica_batch_size", "device.accelerator"}


def test_copy_prints_the_path_and_with_set_writes_only_what_was_set(home: Home) -> None:
    assert presets("copy", "tiny", "mine").stdout.strip() == str(home.presets / "mine.toml")
    presets("copy", "tiny", "short", "--set", "train.seed=3")
    told = 'summary = "tiny with train.seed=3"\ntakes = ""\n'
    assert (home.presets / "short.toml").read_text() == f'extends = "tiny"\n{told}\n[train]\nseed = 3\n'


def test_derive_by_tokens_writes_a_preset_that_trains_on_that_many(home: Home) -> None:
    done = presets("derive", "mine", "--tokens", "1B", "--base", "roberta-base-wikitext103")
    assert done.exit_code == 0
    shown = json.loads(presets("show", "mine", "--json").stdout)
    values = {quantity["name"]: quantity["value"] for quantity in shown["plan"]}
    assert values["tokens_seen"] == pytest.approx(1e9, rel=0.05)


def test_derive_by_time_on_a_tpu_writes_a_preset_that_takes_that_long() -> None:
    presets("derive", "mine", "--time", "30 min", "--accelerator", "v5e-8")
    shown = json.loads(presets("show", "mine", "--json").stdout)
    values = {quantity["name"]: quantity["value"] for quantity in shown["plan"]}
    assert values["time_s"] == pytest.approx(1800, rel=0.05)
    assert shown["experiment"]["device"]["kind"] == "tpu"
    assert shown["experiment"]["train"]["precision"] == "bfloat16"


@pytest.mark.parametrize("dials", [(), ("--tokens", "1B", "--time", "1h")])
def test_derive_takes_exactly_one_dial(dials: tuple[str, ...], home: Home) -> None:
    done = presets("derive", "mine", *dials)
    assert isinstance(done.exception, InputError)
    assert not home.presets.exists()


def test_the_schema_is_json_that_names_the_keys_of_an_experiment() -> None:
    schema = json.loads(presets("schema").stdout)
    assert {"extends", "corpus", "train"} <= set(schema["properties"])
