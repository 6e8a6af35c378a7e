"""Launching and forking from the console: what the dialog says before it starts anything, and what it then starts."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tpudeck.config import Home
from tpudeck.presets import resolve
from tpudeck.runs.index import RunIndex
from tpudeck.storage import write_json
from tpudeck_tui import preflights
from tpudeck_tui.app import Deck
from tpudeck_tui.panels import preset
from tpudeck_tui.widgets.table import Table
from tui.fakes import FakeRun
from tui.views import until

TINY = [
    "train.steps=30", "train.log_every=5", "train.checkpoint_every=10", "corpus.max_documents=600",
    "tokenizer.vocab_size=300", "model.layers=1", "model.width=32", "model.heads=2",
]  # fmt: skip
REPORT = {
    "chip": "v5e", "replica_batch_size": 256, "fits": True, "peak_memory_bytes": 9 * 2**30, "hbm_bytes": 16 * 2**30,
    "bound": {"tokens_per_s": 812_000.0, "limited_by": "memory"},
}  # fmt: skip


async def open_launch(pilot: Pilot[None], preset: str = "quickstart") -> str:
    await pilot.press("2")
    await until(pilot, "corpus.column")
    presets = pilot.app.screen.query_one("#list", Table)
    presets.focus()
    presets.go_to(preset)
    await pilot.pause()
    await pilot.press("L")
    return await until(pilot, f"Launch {preset}")


async def test_the_dialog_shows_the_equal_command_line(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("2")
        await until(pilot, "corpus.column")
        values = deck.screen.query_one("#values", Table)
        values.focus()
        values.go_to("train.steps")
        await pilot.press("enter", "ctrl+u", *"50", "enter", "L")
        await until(pilot, "tpudeck run quickstart --set train.steps=50 --detach")
        await pilot.press("tab", *"a b")
        await until(pilot, "--tag a --tag b")
        await pilot.press("tab", "down")
        await until(pilot, "--set device.kind=cpu")
        await pilot.press("ctrl+y")
        await until(pilot, "copied the command")
        assert deck.clipboard.startswith("tpudeck run quickstart --set train.steps=50")


async def test_changes_are_typed_and_judged_in_the_dialog(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_launch(pilot)
        await pilot.press("tab", "tab", "tab", *"model.heads=3")
        text = await until(pilot, "must divide model.width (128)")
        assert "tpudeck run quickstart --set model.heads=3" in text
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert RunIndex(deck.home).refresh() == []
        await pilot.press("backspace", "4")
        await until(pilot, "breaks no rule (1 changed)")


async def test_what_is_seldom_wanted_is_shown_when_asked_for(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        assert "tensorboard" not in await open_launch(pilot)
        await pilot.press("ctrl+o")
        await until(pilot, "tensorboard")
        for _ in range(4):
            await pilot.press("tab")
        await pilot.press(*"ops", "tab", *"x")
        await until(pilot, "a priority is a whole number, got 'x'")
        await pilot.press("backspace", "2", "tab", "tab", "down")
        await until(pilot, "--notify ops --priority 2 --tensorboard")


async def test_the_dialog_fits_a_small_terminal(deck: Deck) -> None:
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await open_launch(pilot)
        await pilot.press("ctrl+o")
        text = await until(pilot, "tensorboard")
        assert "Back       Launch" in text
        await pilot.press("ctrl+o", "tab", "tab", "tab")
        deck.screen.query_one("#changes", Input).value = " ".join(TINY)
        assert "Back       Launch" in await until(pilot, "--set model.heads=2")


async def test_an_earlier_preflight_is_shown_for_the_same_step_only(deck: Deck, home: Home) -> None:
    experiment = resolve("bert-base-v5e-8", home=home).experiment
    preflights.remember(home, experiment, "v5e", REPORT)
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_launch(pilot, "bert-base-v5e-8")
        await until(pilot, "✓ preflight: 256 sequences per replica on v5e fit, 9.0 GiB of 16.0 GiB")
        await pilot.press("tab", "tab", "tab", *"model.layers=13")
        await until(pilot, "preflight for v5e: not done yet")


async def test_a_preflight_is_stopped_with_the_dialog(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_launch(pilot)
        await pilot.press("ctrl+t")
        await until(pilot, "Compile for which chip?")
        await pilot.press("enter")
        await until(pilot, "preflight for v5e: compiling")
        await pilot.press("escape")
        await until(pilot, "Preflight for v5e: stopped", within_s=20)


async def test_a_fork_keeps_the_experiment_but_for_its_changes(deck: Deck, home: Home) -> None:
    parent = FakeRun(home, "parent")
    parent.finish()
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "parent")
        await pilot.press("F")
        await until(pilot, f"tpudeck runs fork {parent.folder.name} --name parent-fork --detach")
        await pilot.press("tab", "down", "tab", *"model.width=64")
        await until(pilot, "--checkpoint best")
        await pilot.press("enter")
        await until(pilot, "keeps its model and its text")


async def test_a_readonly_console_launches_nothing(home: Home) -> None:
    deck = Deck(home, refresh_s=0.05, readonly=True)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("2")
        await until(pilot, "corpus.column")
        await pilot.press("L")
        await until(pilot, "--readonly")
        assert len(deck.screen_stack) == 1


@pytest.mark.training
@pytest.mark.slow
async def test_a_run_is_launched_watched_stopped_and_resumed(deck: Deck, home: Home) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_launch(pilot)
        await pilot.press("ctrl+u", *"mine", "tab", "tab", "tab", *" ".join([*TINY, "train.steps=100000"]), "enter")
        await until(pilot, lambda text: deck.current_mode == "live" and "mine" in text)
        await until(pilot, "of 100,000", within_s=90)
        await pilot.press("C")
        await until(pilot, "asked for a checkpoint")
        await until(pilot, ": checkpoint,", within_s=20)
        await pilot.press("S")
        await until(pilot, "Stop mine?")
        await pilot.press("y")
        await until(pilot, "■ mine", within_s=60)
        step = newest_step(home)
        await pilot.press("R")
        await until(pilot, lambda text: "resumed from step" in text, within_s=90)
        await pilot.press("S", "y")
        await until(pilot, "■ mine", within_s=60)
        assert newest_step(home) >= step > 0


def newest_step(home: Home) -> int:
    """The step of the only run's newest checkpoint."""
    folders = sorted(path.name for path in home.runs.glob("*/checkpoints/step-*"))
    return int(folders[-1].removeprefix("step-"))


def test_what_a_run_measured_counts_only_where_it_did_the_same(home: Home) -> None:
    run = FakeRun(home, preset="quickstart")
    run.train(100)
    run.finish()
    (run.folder / "results").mkdir()
    write_json(run.folder / "results" / "shards.json", {"result": {"train": {"sequences": 2_102}}})
    runs = RunIndex(home).refresh()

    def measured(*overrides: str) -> dict[str, float]:
        path = str(run.folder / "experiment.toml")
        return preset.measured(resolve(path, home=home, overrides=overrides).experiment, "quickstart", runs)

    both = {"sequences_train": 2_102, "tokens_per_s": 31_000.0}
    assert measured() == measured("train.steps=7") == both
    assert measured("corpus.max_documents=50") == {"tokens_per_s": 31_000.0}
    assert measured("model.layers=3") == {"sequences_train": 2_102}
    assert measured("tokenizer.vocab_size=300", "train.global_batch_size=8") == {}
