"""Where everything lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpudeck.config import Home, data_folder, read_toml
from tpudeck.errors import InputError


def test_one_variable_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUDECK_HOME", str(tmp_path / "here"))
    home = Home.here()
    assert home.root == tmp_path / "here"
    assert all(
        folder.is_relative_to(home.root)
        for folder in (home.runs, home.tokenizers, home.shards, home.presets, home.cache, home.trash)
    )


@pytest.mark.parametrize("below", ["", "home", "a/home"])
def test_a_file_in_the_place_of_the_home_is_a_mistake(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is none"):
        Home.at(tmp_path / "file" / below)


def test_looking_creates_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.settings() == {}
    assert not home.root.exists()


def test_without_the_variable_it_is_the_platforms_data_folder() -> None:
    assert data_folder({"XDG_DATA_HOME": "/data"}).name == "tpudeck"
    assert data_folder({}).is_absolute()


def test_a_relative_home_is_made_absolute_so_that_children_agree() -> None:
    assert data_folder({"TPUDECK_HOME": "here"}) == Path.cwd() / "here"


@pytest.mark.parametrize(
    ("content", "words"), [(b"a = [", "not valid TOML"), (b'a = "\xff"', "not UTF-8"), (None, "cannot be read")]
)
def test_settings_that_cannot_be_read_say_why(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_toml(path)
