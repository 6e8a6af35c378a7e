"""Commands at work beside the console: a model is asked, exported, published, copied away."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gcsfaults import ObjectStore
from hubserver import HubServer
from tinyruns import TinyRuns, tiny_experiment
from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.storage import write_json
from tpudeck_tui.app import Deck
from tpudeck_tui.commands import Command
from tpudeck_tui.screens.forms import CommandForm, Field, Form, Values
from tpudeck_tui.screens.work import CommandsDialog, aligned
from tui.fakes import FakeRun
from tui.views import until

LONG = ["runs", "logs", "--follow"]
"""A command that goes on for as long as its run does."""


def describe(folder: Path, run_id: str) -> None:
    """What a launcher and a supervisor would have said about a run that has finished."""
    write_json(folder / "run.json", {"format_version": 1, "id": run_id, "name": "tiny", "created": 1e9})
    write_json(folder / "meta.json", {"name": "tiny"})
    write_json(
        folder / "status.json", {"status": "finished", "attempt": 0, "started": 1e9, "ended": 1e9, "exit_code": 0}
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of a tiny model that was really trained, as its supervisor leaves it."""
    folder = TinyRuns(tmp_path_factory.mktemp("tiny")).run(
        tiny_experiment(train={"steps": 4}, samples={"texts": ["a <mask> of it"]})
    )
    jobs.start("train", folder).result()
    describe(folder, "tiny-1")
    yield folder


@pytest.fixture
def tiny(trained: Path, home: Home) -> Path:
    return Path(shutil.copytree(trained, home.runs / "tiny-1"))


@pytest.mark.training
async def test_a_model_is_asked_and_answers_with_the_likeliest_tokens(deck: Deck, tiny: Path) -> None:
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, "tiny")
        await pilot.press("i")
        assert "a <mask> of it" in await until(pilot, "Ask tiny")
        await pilot.press("enter")
        await until(pilot, "the model is loaded")
        text = await until(pilot, "step 4", within_s=60)
        assert text.count("%") == 5
        await pilot.press("ctrl+u", *"no mask", "enter")
        await until(pilot, "a text to fill has a <mask> in it", within_s=60)


@pytest.mark.training
async def test_a_causal_model_goes_on_with_a_text(deck: Deck, home: Home, tmp_path: Path) -> None:
    causal = tiny_experiment(model={"architecture": "gpt2"}, train={"steps": 2}, samples={"texts": ["the list"]})
    folder = TinyRuns(tmp_path).run(causal)
    jobs.start("train", folder).result()
    describe(folder, "tiny-2")
    home.runs.mkdir()
    folder.rename(home.runs / "tiny-2")
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "tiny")
        await pilot.press("i")
        await until(pilot, "how a text begins")
        await pilot.press("enter")
        await until(pilot, "step 2", within_s=60)


@pytest.mark.training
async def test_a_model_is_exported_and_its_folder_told(deck: Deck, home: Home, tiny: Path) -> None:
    async with deck.run_test(size=(120, 30), notifications=True) as pilot:
        await until(pilot, "tiny")
        await pilot.press("E")
        text = await until(pilot, "tpudeck export tiny-1")
        assert "--checkpoint best" in text
        await pilot.press("enter")
        await until(pilot, "1 at work")
        await until(pilot, lambda text: "Export tiny: " in text and "exports/tiny-1" in text, within_s=60)
    assert (home.root / "exports" / "tiny-1" / "model.safetensors").exists()


@pytest.mark.training
async def test_a_model_is_pushed_to_the_hub(
    deck: Deck, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer(tmp_path / "hub") as hub:
        for name, value in (hub.environ(tmp_path / "cache") | {"HF_TOKEN": hub.token}).items():
            monkeypatch.setenv(name, value)
        async with deck.run_test(size=(120, 30), notifications=True) as pilot:
            await until(pilot, "tiny")
            await pilot.press("H")
            await until(pilot, "name the repository")
            await pilot.press(*"org/tiny")
            await until(pilot, "tpudeck push tiny-1 org/tiny --checkpoint best")
            await pilot.press("enter")
            await until(pilot, lambda text: "Push tiny to the Hub: http" in text, within_s=60)
    assert (tmp_path / "hub" / "models" / "org" / "tiny" / "README.md").exists()


async def test_a_run_is_copied_to_a_bucket_and_fetched_from_it(
    deck: Deck, home: Home, object_store: ObjectStore
) -> None:
    run = FakeRun(home, "away")
    run.finish()
    async with deck.run_test(size=(120, 30), notifications=True) as pilot:
        await until(pilot, "away")
        await pilot.press("B")
        await until(pilot, "gs://BUCKET/NAME")
        await pilot.press(*"gs://bucket/away", "enter")
        await until(pilot, "Copy away to a bucket: gs://bucket/away", within_s=30)
        shutil.rmtree(run.folder)
        await until(pilot, "No runs yet.")
        await pilot.press("I")
        await until(pilot, "name the run")
        await pilot.press(*"gs://bucket/away", "enter")
        await until(pilot, "Pull gs://bucket/away: ", within_s=30)
        await until(pilot, "finished")
    assert (home.runs / "away" / "run.json").exists()


async def test_what_holds_a_run_back_is_told_or_why_it_cannot_be(deck: Deck, home: Home) -> None:
    FakeRun(home, "unmeasured").finish()
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "unmeasured")
        await pilot.press("v")
        await until(pilot, "tpudeck doctor speed")
        await until(pilot, lambda text: "has not logged a step yet" in text and "x stop" not in text)


async def test_a_command_that_is_left_goes_on_is_listed_and_stopped(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "going")
    run.live(step=10)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "going")
        deck.watch_command([*LONG, run.folder.name], title="Its log [x]")
        await until(pilot, "esc let it go on beside")
        await pilot.press("escape")
        await until(pilot, "1 at work")
        await pilot.press("w")
        await until(pilot, lambda text: "At work" in text and "Its log [x]" in text)
        assert isinstance(deck.screen, CommandsDialog)
        await pilot.press("x")
        await until(pilot, "Its log [x]: stopped")
        await until(pilot, "nothing is at work")
        assert deck.commands == []
    run.release()


async def test_leaving_says_that_commands_go_on(deck: Deck, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    run = FakeRun(home, "going")
    run.live(step=10)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "going")
        deck.begin_command([*LONG, run.folder.name], title="log")
        command = deck.commands[0]
        await pilot.press("q")
        assert command.running()
        command.stop()
        while command.running():
            await pilot.pause(0.02)
    assert "1 run and 1 command go on" in capsys.readouterr().err
    run.release()


async def test_a_failed_command_is_told_in_its_own_words(deck: Deck) -> None:
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        deck.begin_command(["export", "nothing", "/nowhere"], title="Export")
        await until(pilot, "Export: there is no run 'nothing'")


def test_a_command_that_does_not_stop_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpudeck_tui.commands._GRACE_S", 0.0)
    run = FakeRun(home, "going")
    run.live(step=10)
    command = Command([*LONG, run.folder.name], home=home)
    command.stop()
    while command.running():
        pass
    assert str(command.problem()) == "stopped"
    run.release()


async def test_in_a_form_up_and_down_go_through_the_choices_and_the_command_follows(deck: Deck) -> None:
    fields = [Field("first", "first", "a", choices=("a", "b")), Field("second", "second")]
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        form = CommandForm("Form", fields, lambda values: ["say", values["first"], values["second"]])
        deck.push_screen(form)
        await until(pilot, "tpudeck say a ''")
        await pilot.press("down")
        await until(pilot, "tpudeck say b ''")
        await pilot.press("tab", *"[x]")
        await until(pilot, "tpudeck say b '[x]'")


async def test_a_readonly_console_starts_no_command(home: Home) -> None:
    FakeRun(home, "watched").finish()
    deck = Deck(home, refresh_s=0.05, readonly=True)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "watched")
        await pilot.press("E", "H", "B", "r", "Q")
        await until(pilot, "--readonly")
        assert len(deck.screen_stack) == 1
        assert deck.commands == []


async def test_a_run_is_renamed_and_a_name_that_cannot_be_is_refused(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "before")
    run.finish()
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "before")
        await pilot.press("r", "ctrl+u", *"after", "enter")
        await until(pilot, "now called after")
        await pilot.press("r", "ctrl+u", *"a b", "enter")
        await until(pilot, "a run's name is letters")
    assert orjson.loads((run.folder / "meta.json").read_bytes())["name"] == "after"


async def test_a_waiting_run_gets_another_priority(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "waits")
    run.live()
    run.status("queued")
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "queued")
        await pilot.press("Q", "ctrl+u", *"7", "enter")
        await until(pilot, "another place in the queue")
    assert orjson.loads((run.folder / "meta.json").read_bytes())["priority"] == 7
    run.release()


async def test_outside_text_is_shown_and_never_obeyed_in_dialogs(deck: Deck, home: Home) -> None:
    nasty = "a [b] [red]x[/] [/usr/bin/x] \x1b[31m"
    run = FakeRun(home, nasty)
    run.finish()
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "a [b]")
        for key, words in (("i", "Ask a [b]"), ("E", "Export a [b]"), ("F", "Fork a [b]"), ("v", "What holds a [b]"),
                           ("r", "Rename a [b]"), ("H", "Push a [b]"), ("D", "Delete a [b]")):  # fmt: skip
            await pilot.press(key)
            await until(pilot, words)
            await pilot.press("escape")
        await pilot.press("D", "y")
        await until(pilot, "No runs yet.")
        await pilot.press("T")
        await until(pilot, "a [b] [red]x[/]")
        deck.begin_command(["runs", "show", nasty], title=nasty)
        await until(pilot, "there is no run", within_s=15)


def test_a_table_printed_with_tabs_is_aligned() -> None:
    assert aligned(["what\ttime", "a longer one\t3 ms", "no table"]) == [
        "what          time",
        "a longer one  3 ms",
        "no table",
    ]


class SlowForm(Form[str]):
    """Takes its time over the answer."""

    answers = 0

    def command(self, values: Values) -> list[str]:
        return ["slow", values["word"]]

    def answer(self, values: Values) -> str:
        self.answers += 1
        time.sleep(0.3)
        return values["word"]


async def test_a_form_is_answered_once_and_keys_work_while_it_answers(deck: Deck) -> None:
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        given: list[str | None] = []
        form = SlowForm("Slow", [Field("word", "word", "a")])
        deck.push_screen(form, given.append)
        await until(pilot, "tpudeck slow a")
        await pilot.press("enter", "enter", "b")
        await until(pilot, "tpudeck slow ab")
        await until(pilot, "No runs yet.")
        while not given:
            await pilot.pause(0.02)
        assert (given, form.answers) == (["a"], 1)
