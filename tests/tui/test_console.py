"""The console as its user meets it: keys in, text out."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import orjson
import pytest

from tpudeck.config import Home
from tpudeck.presets import Experiment, flatten
from tpudeck.runs.events import Evaluated, SamplesFilled
from tpudeck.runs.writer import RunWriter
from tpudeck_tui.app import Deck
from tpudeck_tui.draft import about
from tpudeck_tui.widgets.chart import Chart
from tpudeck_tui.widgets.pages import Pages
from tpudeck_tui.widgets.table import Table
from tui.fakes import FakeRun, fill
from tui.views import screen_text, until

NASTY = "a [b] [/usr/bin/x] [red]x[/] \x1b[31m\x07 名前 e\u0301 [@click=app.bell]"
"""Brackets that are no markup, escapes, wide and combining characters."""


async def test_an_empty_home_teaches_the_first_step(deck: Deck) -> None:
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        text = await until(pilot, "No runs yet.")
        assert "quickstart" in text
        for key, words in (("4", "No runs yet"), ("5", "nothing to compare"), ("2", "quickstart")):
            await pilot.press(key)
            await until(pilot, words)


async def test_every_run_is_listed_newest_first_and_opens_with_enter(deck: Deck, home: Home) -> None:
    fill(home, 5)
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        text = await until(pilot, "run-04")
        assert text.index("run-04") < text.index("run-00")
        await pilot.press("down", "enter")
        text = await until(pilot, "✓ run-03" if "✓ run-03" in text else "run-03  ")
        await until(pilot, "tokens/s")
        assert deck.current_mode == "live"
        assert deck.chosen_run is not None
        assert "run-03" in deck.chosen_run.name


async def test_a_filter_narrows_the_list_and_escape_clears_it(deck: Deck, home: Home) -> None:
    fill(home, 6)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "run-00")
        await pilot.press("slash", *"tag:abl")
        await until(pilot, lambda text: "run-03" in text and "run-01" not in text)
        await pilot.press("enter", "escape")
        await until(pilot, "run-01")


async def test_a_wrong_filter_says_what_is_wrong(deck: Deck, home: Home) -> None:
    fill(home, 2)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "run-01")
        await pilot.press("slash", *"los<3")
        await until(pilot, "a filter knows")


async def test_a_filter_may_ask_for_values_of_the_experiment(deck: Deck, home: Home) -> None:
    FakeRun(home, "narrow", number=1).finish()
    FakeRun(home, "broad", number=2, experiment="[model]\nwidth = 1024\n").finish()
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "narrow")
        await pilot.press("slash", *"cfg.model.width>500")
        await until(pilot, lambda text: "broad" in text and "narrow" not in text.replace("cfg", ""))


async def test_the_order_is_remembered(deck: Deck, home: Home) -> None:
    fill(home, 3)
    async with deck.run_test(size=(120, 30), notifications=True) as pilot:
        await until(pilot, "run-02")
        deck.screen.query_one("#runs", Table).focus()
        while deck.screen.query_one("#runs", Table).sort_key != "loss":
            await pilot.press("o")
    again = Deck(home, refresh_s=0.05)
    async with again.run_test(size=(120, 30), notifications=True) as pilot:
        text = await until(pilot, "run-02")
        assert text.index("run-00") < text.index("run-02")


async def test_the_page_of_live_is_remembered(deck: Deck, home: Home) -> None:
    fill(home, 1)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "run-00")
        deck.screen.query_one("#pages", Pages).focus()
        await pilot.press("right", "right")
        await until(pilot, "perplexity  accuracy")
    again = Deck(home, refresh_s=0.05)
    async with again.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "perplexity  accuracy")


async def test_marked_runs_are_overlaid_and_their_differences_shown(deck: Deck, home: Home) -> None:
    for number, (rate, more) in enumerate((("1e-3", ""), ("2e-3", '[shards]\nsource = ""\n'))):
        text = f"[train]\nlearning_rate = {rate}\nsteps = 9\n{more}"
        run = FakeRun(home, f"rate-{number}", number=number, experiment=text)
        run.train(2000, seed=number)
        run.finish()
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "rate-1")
        await pilot.press("space", "space", "c")
        await until(pilot, lambda text: "● rate" in text and "◆ rate" in text)
        await pilot.press("d")
        text = await until(pilot, "train.learning_rate")
        assert "0.001" in text
        assert "0.002" in text
        assert "train.steps" not in text
        assert "shards.source" not in text


async def test_a_growing_run_is_seen_to_grow(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "grows")
    run.train(1000)
    run.live(step=1000, done=1000, total=5400)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "step 1,000 of 5,400")
        writer = RunWriter(run.folder)
        writer.metrics(2000, loss=1.25)
        writer.close()
        await until(pilot, "step 2,000 of 5,400")
        chart = deck.screen.query_one("#main-chart", Chart)
        assert chart.view.curves[0].line.step[-1] == 2000
    run.release()


async def test_a_run_that_vanishes_is_said_to_be_gone(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "fleeting")
    run.train(500)
    run.finish()
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "fleeting")
        shutil.rmtree(run.folder)
        await until(pilot, "This run is gone")
        await pilot.press("1")
        await until(pilot, "No runs yet.")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (250, 70)])
async def test_outside_text_is_shown_and_never_obeyed(deck: Deck, home: Home, size: tuple[int, int]) -> None:
    run = FakeRun(home, NASTY, preset=NASTY, tags=(NASTY,), note=NASTY)
    run.train(500)
    run.alert(NASTY)
    (run.folder / "console.log").write_text(f"{NASTY}\n10%\r20%\r{NASTY}\n")
    run.finish("failed", error={"type": "WorkError", "message": NASTY, "hint": NASTY})
    FakeRun(home, "second", number=7).finish()
    async with deck.run_test(size=size, notifications=True) as pilot:
        await until(pilot, "a [b] [/us")
        await pilot.press("slash", *"a [b", "enter", "escape", "end", "space", "t", "escape", "n", "escape", "enter")
        await until(pilot, "a [b] [/usr/bin/x]")
        for _ in range(6):
            deck.screen.query_one("#pages").action_turn(1)
            await pilot.pause(0.02)
            assert "\x1b" not in screen_text(deck)
        await pilot.press("5")
        await until(pilot, "a [b]")
        deck.say(NASTY)
        await until(pilot, "[red]x[/]")


async def test_nothing_but_ascii_is_written_in_ascii(home: Home) -> None:
    run = FakeRun(home, NASTY)
    run.train(2000)
    run.finish()
    deck = Deck(home, refresh_s=0.05, ascii=True)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        for key, words in (
            ("1", "a [b]"),
            ("4", "loss"),
            ("5", "loss"),
            ("2", "quickstart"),
            ("question_mark", "Keys"),
        ):
            await pilot.press(key)
            assert (await until(pilot, words)).isascii()


async def test_keys_without_a_letter_are_named_in_ascii(home: Home) -> None:
    fill(home, 1)
    deck = Deck(home, refresh_s=0.05, ascii=True)
    async with deck.run_test(size=(100, 30)) as pilot:
        assert "enter Open" in await until(pilot, "? Keys")
        await pilot.press("4", "tab")
        await until(pilot, "right Next page")


async def test_a_notice_hides_neither_the_filter_nor_the_keys(deck: Deck, home: Home) -> None:
    fill(home, 1)
    async with deck.run_test(size=(60, 16), notifications=True) as pilot:
        await pilot.press("slash", *"loss<9")
        deck.say("a notice as long as it takes " * 3)
        lines = (await until(pilot, "as it takes")).splitlines()
        assert lines[-1].endswith("? Keys") and "loss<9" in lines[-2] and "takes" not in lines[-2]


async def test_the_same_notice_is_not_stacked(deck: Deck) -> None:
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        for _ in range(5):
            deck.say("only once")
        assert (await until(pilot, "only once")).count("only once") == 1
        deck.say("another one")
        await until(pilot, "another one")


async def test_a_terminal_too_small_is_told_what_is_needed(deck: Deck) -> None:
    async with deck.run_test(size=(50, 12), notifications=True) as pilot:
        assert "50 x 12" in await until(pilot, "tpudeck needs 60 x 16")
        await pilot.resize_terminal(80, 24)
        await until(pilot, "No runs yet.")


async def test_the_help_lists_the_keys_of_the_screen_and_of_the_focus(deck: Deck, home: Home) -> None:
    fill(home, 1)
    async with deck.run_test(size=(120, 60), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "run-00")
        deck.screen.query_one("#main-chart").focus()
        await pilot.press("question_mark")
        text = await until(pilot, "everywhere")
        for words in ("Log scale", "Smoothing", "Zoom in", "chart.x_axis", "Leave (runs go on)", "Stop: save"):
            assert words in text
        await pilot.press("escape")
        await until(pilot, lambda text: "everywhere" not in text)


async def test_a_key_can_be_given_to_another_action(home: Home) -> None:
    home.root.mkdir(exist_ok=True)
    home.settings_file.write_text('[console.keys]\n"app.presets" = "f2"\n')
    deck = Deck(home, refresh_s=0.05)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("f2")
        await until(pilot, "What follows")


@pytest.mark.parametrize(
    ("text", "words"),
    [("[console\n", "TOML"), ("[console]\ntheme = 3\n", "console.theme"), ("[console]\nspeed = 3\n", "console.speed"),
     ("console = 1\n", "is a table"), ('[console]\ntheme = "mauve [b]"\n', "no theme 'mauve [b]'")],
)  # fmt: skip
async def test_a_broken_settings_file_is_a_notice(home: Home, text: str, words: str) -> None:
    home.settings_file.write_text(text)
    deck = Deck(home, refresh_s=0.05)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        # The path in it is long or short, and the line breaks somewhere.
        text = await until(pilot, lambda text: words in " ".join(text.replace("▌", " ").split()))
        assert "No runs yet." in text


async def test_a_readonly_console_changes_nothing(home: Home) -> None:
    run = FakeRun(home, "watched")
    run.finish()
    before = (run.folder / "meta.json").read_bytes()
    deck = Deck(home, refresh_s=0.05, readonly=True)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "read-only")
        await pilot.press("D", "a", "t", "n", "R", "S")
        await until(pilot, "--readonly")
        await pilot.press("2", "L", "c")
        await pilot.pause(0.1)
        assert len(deck.screen_stack) == 1
    assert (run.folder / "meta.json").read_bytes() == before


async def test_tags_notes_archive_and_trash(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "mine")
    run.finish()
    async with deck.run_test(size=(200, 40), notifications=True) as pilot:
        await until(pilot, "mine")
        await pilot.press("t", *"one two", "enter")
        await until(pilot, "one two")
        await pilot.press("n", *"a note", "enter")
        await until(pilot, "a note")
        meta = orjson.loads((run.folder / "meta.json").read_bytes())
        assert (meta["tags"], meta["note"]) == (["one", "two"], "a note")
        await pilot.press("a")
        await until(pilot, "A shows them")
        await pilot.press("A")
        await until(pilot, "one two")
        await pilot.press("D", "y")
        await until(pilot, "No runs yet.")
        assert not run.folder.exists()
        assert (home.trash / run.folder.name / "run.json").exists()
        await pilot.press("T")
        await until(pilot, "Deleted runs")
        await pilot.press("enter")
        await until(pilot, lambda text: "mine is back" in text and "nothing lies in the trash" in text)
        await pilot.press("escape")
        await until(pilot, "one two")
    assert (run.folder / "run.json").exists()


async def test_a_stop_is_asked_for_once_and_confirmed(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "going")
    run.live(step=10, done=10, total=100)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, "running")
        await pilot.press("S")
        await until(pilot, "Stop going?")
        await pilot.press("n")
        assert not (run.folder / "requests" / "stop.json").exists()
        await pilot.press("S", "y")
        await until(pilot, "asked to stop")
    assert (run.folder / "requests" / "stop.json").exists()
    run.release()


async def test_a_preset_is_edited_with_its_faults_at_the_field_and_saved(deck: Deck, home: Home) -> None:
    async with deck.run_test(size=(140, 40), notifications=True) as pilot:
        await pilot.press("2")
        await until(pilot, "corpus.column")
        values = deck.screen.query_one("#values", Table)
        values.focus()
        values.go_to("model.heads")
        await pilot.press("enter", "ctrl+u", "3", "enter")
        text = await until(pilot, "to put right")
        assert "must divide model.width (128)" in text
        await pilot.press("L")
        await until(pilot, "put this right first")
        await pilot.press("enter", "ctrl+u", "8", "enter")
        await until(pilot, "1 changed")
        await pilot.press("ctrl+s")
        await until(pilot, "Save as a preset of your own")
        await pilot.press("enter")
        await until(pilot, "my-quickstart")
    assert "heads = 8" in (home.presets / "my-quickstart.toml").read_text()


async def test_many_runs_scroll_at_once(deck: Deck, home: Home) -> None:
    for number in range(300):
        FakeRun(home, f"n{number:03d}", created=time.time() - 60 * number, number=number).finish()
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda text: "n000" in text and "300 runs" in text)
        await pilot.press("end")
        await until(pilot, "n299")
        await pilot.press("pageup", "home")
        await until(pilot, "n000")


async def test_an_export_holds_what_is_shown(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "exported")
    run.train(1000)
    run.finish()
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "exported")
        deck.screen.query_one("#main-chart").focus()
        await pilot.press("e")
        await until(pilot, "wrote")
        await pilot.press("f9")
        await pilot.pause(0.2)
    files = list((home.root / "exports").iterdir())
    table = next(path for path in files if path.suffix == ".csv").read_text().splitlines()
    assert table[0] == "series,step,time_s,loss,smoothed"
    assert len([line for line in table if line.startswith("train,")]) == 20
    picture = next(path for path in files if path.suffix == ".svg").read_text()
    assert picture.startswith("<svg")


def written_to(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


async def test_looking_writes_nothing_into_runs(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "untouched")
    run.train(500)
    run.finish()
    before = written_to(home.runs)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        for key in "1452":
            await pilot.press(key)
            await pilot.pause(0.2)
    assert written_to(home.runs) - before <= {f"{run.folder.name}/run.lock"}


async def test_a_tokenizer_splits_what_is_typed(deck: Deck, home: Home) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = home.tokenizers / "abc"
    folder.mkdir(parents=True)
    words = {"<s>": 0, "</s>": 1, "[red]": 2, "blue": 3, "<unk>": 4}
    rust = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["<s>", "</s>"])
    rust.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}')
    (folder / "manifest.json").write_text('{"kind": "[wordlevel]", "vocab_size": 5}')
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("3")
        await until(pilot, "characters per token")
        await pilot.press("i", "ctrl+u", *"[red] blue x")
        await until(pilot, lambda text: "[red]" in text and "│ 3 tokens" in text and "1 unknown" in text)


async def test_a_damaged_artefact_is_told_in_words(deck: Deck, home: Home) -> None:
    for name in ("a", "b"):
        (home.shards / name).mkdir(parents=True)
        (home.shards / name / "manifest.json").write_text("{" if name == "a" else '{"format_version": 99}')
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("3")
        await until(pilot, lambda text: "damaged" in text and ("is damaged" in text or "format version" in text))


async def test_the_machine_and_the_doctor_are_shown(deck: Deck) -> None:
    async with deck.run_test(size=(100, 40), notifications=True) as pilot:
        await pilot.press("6")
        await until(pilot, lambda text: "Python" in text and "load" in text)
        await pilot.press("1")
        await until(pilot, "No runs yet.")


def test_every_value_of_a_preset_is_explained() -> None:
    assert [path for path, _ in flatten(Experiment().model_dump()) if not about(path)] == []


async def test_what_a_value_means_is_shown_whole_at_80_columns(deck: Deck) -> None:
    async with deck.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await until(pilot, "corpus.column")
        await pilot.press("tab", "down")
        await until(pilot, "or hub:ORG/NAME.")


async def test_values_of_a_preset_are_found_by_a_word(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("2")
        await until(pilot, "corpus.column")
        deck.screen.query_one("#values", Table).focus()
        await pilot.press("slash", *"learning_r", "enter")
        text = await until(pilot, "train.learning_rate")
        assert "corpus.column" not in text
        assert "train.epochs" not in text
        await pilot.press("escape")
        await until(pilot, "train.epochs")


async def test_presets_are_filtered_by_a_word(deck: Deck) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("2")
        await until(pilot, "bert-base")
        await pilot.press("slash", *"quicks", "enter")
        await until(pilot, lambda text: "quickstart" in text and "bert-base" not in text)


async def test_what_is_refused_can_be_put_right_where_it_was_typed(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "mine")
    run.finish()
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, "mine")
        await pilot.press("r", *" too", "enter")
        assert "mine too" in await until(pilot, "a run's name is letters")
        await pilot.press("left", "left", "left", "backspace", "-")
        await until(pilot, lambda text: "a run's name is letters" not in text)
        await pilot.press("enter")
        await until(pilot, "now called mine-too")
        await pilot.press("2")
        await until(pilot, "corpus.column")
        await pilot.press("c", *"/", "enter")
        await until(pilot, "a preset's name is letters")
        await pilot.press("backspace", "enter")
        await until(pilot, "wrote")
    assert (home.presets / "my-quickstart.toml").is_file()


async def test_every_action_of_the_screen_is_in_the_palette(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "mine")
    run.finish()
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "mine")
        await pilot.press("ctrl+p")
        await until(pilot, "Search for commands")
        await until(pilot, lambda text: text.count("Delete (to the trash)") == 1)
        await pilot.press(*"archive, or")
        await until(pilot, "Archive, or take back")
        await pilot.press("enter")
        await until(pilot, "A shows them")
    assert orjson.loads((run.folder / "meta.json").read_bytes())["archived"] is True


async def test_the_help_of_runs_explains_the_filter_and_the_signs(deck: Deck) -> None:
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, "No runs yet.")
        await pilot.press("question_mark")
        await until(pilot, "runs.sort")
        await pilot.press("right")
        await until(pilot, "cfg.train.learning_rate>1e-4")
        await pilot.press("right")
        await until(pilot, "the best one")


async def test_devices_are_drawn_one_by_one(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "eight")
    run.train(500)
    run.machine(20)
    run.finish()
    async with deck.run_test(size=(250, 70), notifications=True) as pilot:
        await pilot.press("4")
        text = await until(pilot, "TensorCore % by device")
        assert "● 0 41  ◆ 1 42  ▲ 2 43  ■ 3 44" in text
        assert "duty cycle % by device" in text
        assert "memory GiB by device" in text
        assert "● TensorCore 42.5" in text


async def test_charts_of_devices_are_left_out_where_there_are_none(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "plain")
    run.train(500)
    run.machine(20, tpu=False)
    run.finish()
    async with deck.run_test(size=(250, 70), notifications=True) as pilot:
        await pilot.press("4")
        assert "by device" not in await until(pilot, "─ CPU")
        for _ in range(6):
            await pilot.press("m")
        await until(pilot, lambda text: text.count("learning rate") == 1)
        assert deck.screen.query_one("#main-chart", Chart).chart_title == "loss"


async def test_compare_goes_through_every_metric(deck: Deck, home: Home) -> None:
    fill(home, 2)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.press("5")
        for title in ("loss", "eval loss", "tokens/s", "gradient norm", "ms/step", "learning rate", "loss"):
            await until(pilot, lambda text, title=title: text.splitlines()[2].startswith(f" {title}  "))
            await pilot.press("m")


async def test_live_runs_are_switched_by_a_key_and_counted(deck: Deck, home: Home) -> None:
    runs = [FakeRun(home, f"live-{number}", number=number) for number in range(3)]
    for run in runs:
        run.train(500)
        run.live(step=500, done=500, total=5400)
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, "live-0")
        await pilot.press("4")
        first = await until(pilot, "1 of 3 running")
        await pilot.press("J")
        second = await until(pilot, "2 of 3 running")
        assert first.splitlines()[1].split()[1] != second.splitlines()[1].split()[1]
        await pilot.press("K", "K")
        await until(pilot, "3 of 3 running")
    for run in runs:
        run.release()


async def test_the_progress_of_a_long_run_fits_a_small_terminal(deck: Deck, home: Home) -> None:
    run = FakeRun(home, total_steps=1_000_000)
    run.train(100)
    writer = RunWriter(run.folder)
    writer.event(Evaluated(step=100, eval_loss=104_567.8, perplexity=1e9, accuracy=0.0, baseline_loss=6.0, targets=9))
    writer.close()
    run.finish("stopped", step=123_456, done=123_456)
    async with deck.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        text = await until(pilot, "step 123,456 of 1,000,000")
        assert "eval 104,568" in text and "12 %" in text


async def test_every_panel_fills_the_screen_when_it_is_shown_alone(deck: Deck, home: Home) -> None:
    fill(home, 1)
    async with deck.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, "Evaluations")
        for panel in (deck.screen.query_one("#main-chart"), deck.screen.query_one("#pages")):
            panel.focus()
            await pilot.press("z")
            await pilot.pause()
            assert panel.outer_size == (80, 22)
            await pilot.press("z")


async def test_long_lines_of_the_log_are_shown_whole(deck: Deck, home: Home) -> None:
    run = FakeRun(home)
    (run.folder / "console.log").write_text(f"  {'x' * 100} the end\n")
    async with deck.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "tab", "left", "left", "left")
        assert f"{'x' * 24} the end" in await until(pilot, "the end")


async def test_alerts_and_the_note_are_in_the_header(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "noted", note="a [note]")
    run.train(500)
    run.live()
    run.status("running", latest={"stage": "train", "phase": "training"}, alerts=["input_bound"])
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("4")
        text = await until(pilot, "noted")
        assert "! input_bound  a [note]" in text.splitlines()[1]
    run.release()


async def test_samples_show_how_answers_changed(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "learns")
    run.train(500)
    writer = RunWriter(run.folder)
    for step, answers in (
        (100, (("the", 0.20), ("a", 0.10))),
        (200, (("list", 0.30), ("the", 0.11))),
        (300, (("list", 0.30), ("the", 0.11))),
    ):
        found = [[{"token": token, "probability": share} for token, share in answers]]
        writer.event(SamplesFilled(step=step, samples=({"text": "a <mask>", "filled": "", "answers": found},)))
    writer.close()
    run.finish()
    async with deck.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("4")
        await until(pilot, "learns")
        deck.screen.query_one("#pages", Pages).turn_to("Samples")
        text = await until(pilot, "a <mask>")
        assert "200  list 30%  the 11%↓" in text
        assert "100  the 20%  a 10%" in text
        assert "300  list" not in text


async def test_the_queue_says_who_has_a_device_and_who_waits(deck: Deck, home: Home) -> None:
    from tpudeck import queue

    first, second = FakeRun(home, "first", number=1), FakeRun(home, "second", number=2)
    lock = queue.take("cpu", first.folder)
    assert lock is not None
    with queue.waiting("cpu", second.folder):
        async with deck.run_test(size=(100, 40), notifications=True) as pilot:
            await pilot.press("6")
            await until(pilot, "load")
            deck.screen.query_one("#machine", Pages).turn_to("Queue")
            text = await until(pilot, f"1. {second.folder.name}")
            assert first.folder.name in text
    os.close(lock)


async def test_the_key_bar_offers_only_what_can_be_done_to_the_run(deck: Deck, home: Home) -> None:
    FakeRun(home, "stopped", created=time.time() - 60, number=1).finish("stopped")
    run = FakeRun(home, "going", number=2)
    run.live(step=10)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, lambda text: "S Stop" in text and "R Resume" not in text)
        await pilot.press("down")
        await until(pilot, lambda text: "R Resume" in text and "S Stop" not in text)
        await pilot.press("S")
        await until(pilot, "only a run that is going on can be stopped")
    run.release()


async def test_a_name_in_the_keymap_that_nothing_has_is_told(home: Home) -> None:
    home.settings_file.write_text('[console.keys]\n"run.stopp" = "f8"\n"run.stop" = "f7"\n"chart.log" = "f6"\n')
    deck = Deck(home, refresh_s=0.05)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        text = await until(pilot, "nothing is called run.stopp", within_s=20)
        assert "chart.log" not in text


async def test_two_consoles_look_at_the_same_runs(deck: Deck, home: Home) -> None:
    run = FakeRun(home, "shared")
    run.finish()
    other = Deck(home, refresh_s=0.05)
    async with deck.run_test(size=(100, 30), notifications=True) as one, other.run_test(size=(100, 30)) as two:
        await until(one, "shared")
        await until(two, "shared")
        await one.press("r", "ctrl+u", *"renamed", "enter")
        await until(two, "renamed")
        await two.press("D", "y")
        await until(one, "No runs yet.")
