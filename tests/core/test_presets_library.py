"""Presets as files: names, `extends`, overrides, where values come from, copies and differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpudeck.config import Home
from tpudeck.errors import InputError, PresetError
from tpudeck.presets import (
    copy_preset,
    diff,
    find,
    load_experiment,
    merge,
    overrides_as_data,
    parse_override,
    preset_files,
    resolve,
    save_experiment,
    save_preset,
)

MINIMAL = "[train]\nsteps = 10\nglobal_batch_size = 8\n"


def write(home: Home, name: str, text: str) -> Path:
    home.presets.mkdir(parents=True, exist_ok=True)
    path = home.presets / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_users_preset_hides_the_shipped_one_of_its_name(home: Home) -> None:
    assert find("quickstart", home).parent != home.presets
    mine = write(home, "quickstart", MINIMAL)
    assert find("preset:quickstart", home) == mine
    assert preset_files(home)["quickstart"] == mine


def test_an_unknown_name_is_answered_with_the_nearest(home: Home) -> None:
    with pytest.raises(InputError) as caught:
        resolve("quikstart", home=home)
    assert "did you mean quickstart?" in caught.value.hint


def test_a_file_that_is_not_toml_is_named_with_the_line(home: Home) -> None:
    path = write(home, "broken", "[train\n")
    with pytest.raises(InputError, match=r"broken\.toml is not valid TOML: .*line 1"):
        resolve(str(path), home=home)


def test_values_come_from_the_nearest_file_and_each_says_which(home: Home) -> None:
    write(home, "base", MINIMAL + "learning_rate = 0.5\nseed = 1\n")
    write(home, "child", 'extends = "base"\n[train]\nlearning_rate = 0.25\n')
    resolved = resolve("child", home=home, overrides=["train.seed=7"])
    assert (resolved.experiment.train.learning_rate, resolved.experiment.train.seed) == (0.25, 7)
    assert [path.stem for path in resolved.chain] == ["child", "base"]
    origins = resolved.origins
    assert origins["train.steps"] == "preset base"
    assert origins["train.learning_rate"] == "preset child"
    assert origins["train.seed"] == "--set"
    assert origins["train.beta1"] == "default"


def test_a_preset_is_named_after_its_file_and_not_after_its_base(home: Home) -> None:
    write(home, "base", 'name = "other"\n' + MINIMAL)
    write(home, "child", 'extends = "base"\n')
    assert resolve("child", home=home).experiment.name == "child"


def test_presets_that_extend_each_other_in_a_circle_are_refused(home: Home) -> None:
    write(home, "one", 'extends = "two"\n')
    write(home, "two", 'extends = "one"\n')
    with pytest.raises(InputError, match="one → two → one"):
        resolve("one", home=home)


def test_a_users_preset_may_extend_the_shipped_one_of_its_own_name(home: Home) -> None:
    write(home, "quickstart", 'extends = "quickstart"\n[train]\nseed = 99\n')
    resolved = resolve("quickstart", home=home)
    assert resolved.experiment.train.seed == 99
    assert len(resolved.chain) == 2


def test_setting_one_length_clears_the_others_wherever_they_came_from(home: Home) -> None:
    write(home, "base", "[train]\nepochs = 3\nreplica_batch_size = 4\n")
    train = resolve("base", home=home, overrides=["train.steps=5", "train.global_batch_size=16"]).experiment.train
    assert (train.steps, train.epochs, train.global_batch_size, train.replica_batch_size) == (5, None, 16, None)


def test_of_two_lengths_in_overrides_the_later_one_stands(home: Home) -> None:
    assert overrides_as_data(["train.steps=5", "train.duration=5 min"]) == {"train": {"duration": "5 min"}}


def test_setting_a_length_to_none_clears_nothing_else() -> None:
    base = {"train": {"steps": 5}}
    assert merge(base, {"train": {"epochs": "none"}}) == {"train": {"steps": 5, "epochs": "none"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.steps=50", ("train.steps", 50)),
        ("train.learning_rate = 3e-4", ("train.learning_rate", 3e-4)),
        ("tokenizer.lowercase=true", ("tokenizer.lowercase", True)),
        ("corpus.source=my text.txt", ("corpus.source", "my text.txt")),
        ("corpus.revision=1234567", ("corpus.revision", "1234567")),
        ("corpus.revision=1e5", ("corpus.revision", "1e5")),
        ('corpus.column="a=b"', ("corpus.column", "a=b")),
        ("train.warmup=5 %", ("train.warmup", "5 %")),
        ('samples.texts=["a <mask>"]', ("samples.texts", ["a <mask>"])),
        ("train.clip_norm=none", ("train.clip_norm", "none")),
    ],
)
def test_an_override_is_toml_where_it_is_toml_else_text(text: str, expected: tuple[str, object]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["train.steps", "=3", "train..steps=3", "train.steps .x=3"])
def test_an_override_without_a_key_and_a_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="an override is KEY=VALUE"):
        parse_override(text)


def test_an_override_of_an_unknown_key_is_a_fault_and_not_silence(home: Home) -> None:
    with pytest.raises(PresetError, match="did you mean steps"):
        resolve("quickstart", home=home, overrides=["train.stepz=3"])


def test_an_experiment_comes_back_from_its_file_as_it_was(home: Home, tmp_path: Path) -> None:
    for name in preset_files(home):
        experiment = resolve(name, home=home).experiment
        save_experiment(experiment, tmp_path / "experiment.toml")
        assert load_experiment(tmp_path / "experiment.toml") == experiment


def test_a_copy_keeps_the_comments_and_resolves_to_the_same(home: Home) -> None:
    path = copy_preset("quickstart", "mine", home=home)
    assert path.read_text().startswith("# What for:")
    one, two = (resolve(name, home=home).experiment for name in ("quickstart", "mine"))
    assert set(diff(one, two)) == {"name"}


def test_a_copy_does_not_write_over_what_is_there(home: Home) -> None:
    copy_preset("quickstart", "mine", home=home)
    with pytest.raises(InputError, match="already"):
        copy_preset("tiny", "mine", home=home)


@pytest.mark.parametrize("name", ["", "../mine", "a/b", ".hidden", "x" * 65])
def test_a_name_that_is_no_file_name_is_refused(home: Home, name: str) -> None:
    with pytest.raises(InputError, match="a preset's name"):
        copy_preset("quickstart", name, home=home)
    assert not home.presets.exists()


def test_a_home_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(InputError, match=r"mine\.toml cannot be written"):
        copy_preset("quickstart", "mine", home=Home(tmp_path / "home"))


def test_a_saved_preset_holds_only_what_it_changes(home: Home) -> None:
    path = save_preset("mine", extends="quickstart", changes={"train": {"seed": 3}}, home=home)
    assert path.read_text() == 'extends = "quickstart"\n\n[train]\nseed = 3\n'
    assert resolve("mine", home=home).experiment.train.seed == 3


def test_a_preset_that_would_break_rules_is_not_saved(home: Home) -> None:
    with pytest.raises(PresetError):
        save_preset("mine", extends="quickstart", changes={"model": {"heads": 5}}, home=home)
    assert not (home.presets / "mine.toml").exists()
