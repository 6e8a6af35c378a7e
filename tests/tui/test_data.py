"""The Data screen: what is listed, read, counted and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Size
from tokenizers import Tokenizer, models, pre_tokenizers

from shardsets import build_set, some_documents, tokenizer
from tpudeck import jobs
from tpudeck.config import Home
from tpudeck.errors import CorpusError, InputError
from tpudeck.inspection.pieces import Reader
from tpudeck.inspection.task import known_shards
from tpudeck.presets import Experiment
from tpudeck.storage import write_json
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck_tui.app import Deck
from tpudeck_tui.artefacts import around, find, made, texts
from tpudeck_tui.panels.pieces import piece_lines, side_by_side_lines
from tpudeck_tui.panels.statistics import plots, statistics_lines
from tpudeck_tui.plot.dots import ASCII, BRAILLE
from tpudeck_tui.plot.picture import Picture, Plot
from tpudeck_tui.widgets.pages import Pages, TextLine
from tpudeck_tui.widgets.pictures import Pictures
from tpudeck_tui.widgets.table import Table
from tui.fakes import FakeRun
from tui.views import until

WORDS = ["[red]blue", "w1", "日本語", "\x1b[31m", "x"]


@pytest.fixture
def words(home: Home) -> LoadedTokenizer:
    """A tokenizer whose vocabulary tries to be markup, and to be obeyed."""
    loaded = tokenizer(home.tokenizers / "0words", [*WORDS, *(f"w{number}" for number in range(2, 60))])
    write_json(
        loaded.folder / "manifest.json", {"kind": "[words]", "vocab_size": loaded.vocab_size, "hash": loaded.hash}
    )
    return loaded


def letters(folder: Path) -> LoadedTokenizer:
    """Words and digits apart."""
    rust = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "<unk>": 2, "w": 3, "1": 4, "2": 5, "x": 6}, "<unk>"))
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True)])
    rust.add_special_tokens(["<s>", "</s>", "<unk>"])
    folder.mkdir(parents=True)
    rust.save(str(folder / "tokenizer.json"))
    return load(folder)


def made_set(home: Home, words: LoadedTokenizer) -> Path:
    folder = home.shards / "set"
    folder.parent.mkdir(parents=True)
    documents = some_documents(150)
    build_set(folder, words, train=documents, validation=documents[:30])
    return folder


def trained_on(home: Home, folder: Path) -> FakeRun:
    run = FakeRun(home, "tiny [run]", experiment=_EXPERIMENT)
    (run.folder / "results").mkdir()
    write_json(run.folder / "results" / "shards.json", {"ok": True, "result": {"folder": str(folder)}})
    run.finish()
    return run


_EXPERIMENT = """
name = "tiny"
[shards]
sequence_length = 16
[model]
layers = 1
width = 8
heads = 1
[train]
steps = 10
global_batch_size = 4
"""


def plain(lines: list[TextLine]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


async def open_data(pilot: Any, deck: Deck, identity: str) -> None:
    await pilot.press("3")
    await until(pilot, "builtin")
    table: Table[Any] = deck.screen.query_one("#artefacts", Table)
    table.go_to(next(row.identity for row in table.rows if row.identity.startswith(identity)))


# Lists.


def test_what_a_name_means_follows_from_what_is_there(home: Home, words: LoadedTokenizer, tmp_path: Path) -> None:
    folder = made_set(home, words)
    (tmp_path / "text.txt").write_text("some text\n")
    kinds = {str(words.folder): "tokenizer", str(words.folder / "tokenizer.json"): "tokenizer", str(folder): "shards",
             str(tmp_path / "text.txt"): "text", "builtin": "text", "hub:org/name": "text",
             "preset:quickstart": "text", str(tmp_path / "*.txt"): "text"}  # fmt: skip
    assert {name: find(name, home)[-1].kind for name in kinds} == kinds
    run = trained_on(home, folder)
    assert find(run.folder.name, home)[0].kind == "text"
    with pytest.raises(InputError, match="no folder, file, preset or run"):
        find("nothing-like-it", home)
    with pytest.raises(CorpusError, match="no file matches"):
        find(str(tmp_path / "*.csv"), home)
    with pytest.raises(InputError, match="nothing was named"):
        find("  ", home)


def test_every_text_of_a_preset_is_listed_once(home: Home) -> None:
    listed = texts(home)
    assert "builtin" in {artefact.name for artefact in listed}
    assert len({artefact.identity for artefact in listed}) == len(listed)
    assert made(home) == []


# Pieces.


def test_pieces_stand_above_their_ids_also_wide_ones(words: LoadedTokenizer) -> None:
    lines = plain(piece_lines(words, Reader(words), "w1 日本語 w1 unheard [red]blue", 100))
    upper, lower = lines[2], lines[3]
    assert upper.startswith("w1 日本語 w1 unheard [red]blue")
    assert [cell_len(upper[: upper.index(piece)]) for piece in ("日本語", "unheard", "[red]blue")] == [
        lower.index(f"{words.rust.token_to_id('日本語')}"), lower.index("3 ", 10), lower.rindex("5")
    ]  # fmt: skip
    assert "5 tokens   1 unknown" in lines[0]


def test_no_line_of_pieces_is_wider_than_its_room_nor_obeyed(words: LoadedTokenizer) -> None:
    text = " ".join(WORDS * 8) + " \x1b]0;title\x07 " + "x" * 300
    for width in (20, 47, 80):
        for lines in (
            piece_lines(words, Reader(words), text, width),
            side_by_side_lines((words, Reader(words), "a"), (words, Reader(words), "b" * 40), text, width),
        ):
            assert max(cell_len(line) for line in plain(lines)[2:]) <= width
            assert "\x1b" not in "".join(plain(lines))


def test_two_tokenizers_differ_where_they_are_marked(words: LoadedTokenizer, tmp_path: Path) -> None:
    other = letters(tmp_path / "letters")
    lines = side_by_side_lines((words, Reader(words), "words"), (other, Reader(other), "letters"), "w1 x w2", 60)
    marked = [text.strip() for line in lines for text, part in line if part == "differs"]
    assert marked == ["w1", "w2", "w│1", "w│2"]
    assert "2 places cut differently" in "\n".join(plain(lines))


# Pictures.


def picture(plot: Plot, width: int = 60, height: int = 14, **more: Any) -> list[str]:
    strips = Picture(plot, width=width, height=height, glyphs=BRAILLE, part=lambda name: Style(), **more).strips()
    return [strip.text for strip in strips]


def curve(x: list[float], y: list[float], **more: Any) -> Plot:
    return Plot("a title", "tokens", np.array(x), {"y": np.array(y)}, lambda at: f"at {x[at]:g}: {y[at]:g}", **more)


def test_a_curve_over_a_logarithmic_axis_has_decades_and_percent() -> None:
    x = np.geomspace(1, 1000, 40).tolist()
    lines = picture(curve(x, np.linspace(0.1, 1, 40).tolist(), log_x=True, percent=True))
    assert [label for label in ("1", "10", "100", "1,000") if label in lines[-1].split()] == ["1", "10", "100", "1,000"]
    assert "100%┤" in "\n".join(lines)
    assert "tokens" in lines[-1]


def test_a_bar_is_as_high_as_its_value() -> None:
    lines = picture(curve([0, 1, 2], [8, 4, 0], bars=True), width=40, height=13)
    columns = ["".join(line[cell] for line in lines[1:-2]) for cell in (8, 16, 24)]
    filled = [sum(mark in "█▇▆▅▄▃▂▁" for mark in column) for column in columns]
    assert filled == [10, 5, 0]


def test_the_cursor_says_what_is_under_it_even_where_there_is_little_room() -> None:
    plot = curve([1, 10, 100], [5, 3, 2], log_x=True)
    assert picture(plot, cursor=1)[0] == "a title  at 10: 3"
    assert picture(plot, width=16, cursor=1)[0] == "at 10: 3"


@pytest.mark.parametrize("bars", [False, True])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("x", "y"),
    [([], []), ([1], [1]), ([1], [0]), ([1, 2], [0, 0]), ([1, 2, 3], [np.nan, np.inf, 1]), ([1, 1e12], [1, 1e15]),
     (list(range(1, 3000)), [1.0] * 2999)],
)  # fmt: skip
def test_any_numbers_make_a_picture_of_the_right_size(bars: bool, log: bool, x: list[float], y: list[float]) -> None:
    for width, height in ((16, 5), (49, 22), (120, 9), (15, 4)):
        lines = picture(curve(x, y, bars=bars, log_x=log, log_y=log), width=width, height=height)
        assert len(lines) <= height
        assert max(map(cell_len, lines), default=0) <= width


async def test_pictures_share_the_room_and_the_mouse_finds_their_points() -> None:
    found = Pictures(ASCII)
    several = [curve([1, 10, 100], [1, 2, 3], bars=True), curve([1, 10], [1, 2])]
    found._plots = tuple(several)
    size = Size(120, 20)
    found.part = lambda name: Style()  # type: ignore[method-assign]
    found.paint(size)
    assert [(left, top, index) for left, top, index, _ in found._seen] == [(0, 0, 0), (60, 0, 1)]
    found.paint(Size(49, 20))
    assert len(found._seen) == 1
    assert found._seen[0][3].point_at(8) == 0


# Counting.


async def test_a_set_is_counted_shown_and_drawn_as_the_commands_count_it(
    deck: Deck, home: Home, words: LoadedTokenizer
) -> None:
    folder = made_set(home, words)
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_data(pilot, deck, "shards")
        await until(pilot, "sequence length")
        await pilot.press("s")
        text = await until(pilot, "repeated records", within_s=60)
        known = known_shards(home, folder)
        assert known is not None
        split = known["splits"]["train"]
        assert f"{split['tokens']:,}" in text
        assert f"{split['unknown_share']:.3%}" in text
        assert "of the tokens are the unknown token" in text
        deck.screen.query_one(Pages).turn_to("Charts")
        await until(pilot, lambda text: "coverage" in text and "frequency by rank" in text and "100%┤" in text)
        deck.screen.query_one(Pictures).focus()
        await pilot.press("right", "right")
        await until(pilot, "the 2 most frequent tokens:")
        await pilot.press("m", "m", "left")
        await until(pilot, "documents (")
        await pilot.press("e")
        await until(pilot, "wrote")
        assert any(path.read_text().startswith("tokens,documents") for path in (home.root / "exports").iterdir())


async def test_what_was_counted_is_there_at_once(deck: Deck, home: Home, words: LoadedTokenizer) -> None:
    folder = made_set(home, words)
    jobs.run("inspect-shards", Experiment(), request={"shards": str(folder)}, home=home)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await open_data(pilot, deck, "shards")
        await until(pilot, "sequence length")
        deck.screen.query_one(Pages).turn_to("Numbers")
        await until(pilot, "repeated records", within_s=60)


async def test_a_tokenizer_and_a_text_are_counted(deck: Deck, home: Home, words: LoadedTokenizer) -> None:
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_data(pilot, deck, "tokenizer")
        await until(pilot, "characters per token")
        await pilot.press("s")
        text = await until(pilot, "round trips lost", within_s=60)
        assert "are the unknown token" in text
        await open_data(pilot, deck, "text builtin")
        await until(pilot, "validation fraction")
        deck.screen.query_one(Pages).turn_to("Documents")
        await until(pilot, lambda text: "   0  " in text and "   1  " in text)
        await pilot.press("s")
        await until(pilot, "and near copies", within_s=60)


async def test_a_watching_console_counts_nothing(home: Home, words: LoadedTokenizer) -> None:
    deck = Deck(home, readonly=True, refresh_s=0.05)
    async with deck.run_test(size=(100, 30), notifications=True) as pilot:
        await open_data(pilot, deck, "tokenizer")
        await until(pilot, "characters per token")
        await pilot.press("s")
        await until(pilot, "changes nothing")
        assert not (home.cache / "inspection").exists()


async def test_a_count_that_fails_says_why(deck: Deck, home: Home, words: LoadedTokenizer) -> None:
    folder = made_set(home, words)
    path = folder / "train" / "shard-00001.tfrecord"
    octets = bytearray(path.read_bytes())
    octets[100] ^= 1
    path.write_bytes(octets)
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_data(pilot, deck, "shards")
        await until(pilot, "sequence length")
        await pilot.press("s")
        await until(pilot, "is corrupted: the record at offset", within_s=60)


# Records, steps, and two tokenizers.


async def test_one_goes_to_a_record_of_a_shard_and_to_a_step(deck: Deck, home: Home, words: LoadedTokenizer) -> None:
    trained_on(home, made_set(home, words))
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "tiny [run]")
        await open_data(pilot, deck, "shards")
        await until(pilot, "of tiny [run]")
        await pilot.press("r")
        await until(pilot, "Go to record")
        await pilot.press("ctrl+u", *"2:7", "enter")
        await until(pilot, lambda text: "train record 27 of" in text and "shard-00002.tfrecord at byte" in text)
        await pilot.press("n")
        await until(pilot, "train record 28 of")
        await pilot.press("v")
        await until(pilot, "validation record 0 of")
        for wrong, told in (
            ("9:9", "validation has the shards 0 to"),
            ("x", "a whole number from 0 on is expected, got x"),
        ):
            await pilot.press("r")
            await until(pilot, "Go to record")
            await pilot.press("ctrl+u", *wrong, "enter")
            await until(pilot, lambda text, told=told: "Go to record" in text and told in text)
            await pilot.press("escape")
        deck.screen.query_one(Pages).turn_to("Trained")
        await until(pilot, "step 0, the first of 4 sequences, in tiny [run]")
        await pilot.press("r")
        await until(pilot, "Go to step")
        await pilot.press("ctrl+u", *"1234", "enter")
        await until(pilot, lambda text: "step 1,234, the first of" in text and "replaced→by" in text)


async def test_that_there_is_more_below_is_seen_at_80_columns(deck: Deck, home: Home, words: LoadedTokenizer) -> None:
    made_set(home, words)
    async with deck.run_test(size=(80, 24)) as pilot:
        await open_data(pilot, deck, "shards")
        await until(pilot, lambda text: any("Charts" in line and line.endswith("↓") for line in text.splitlines()))


async def test_a_marked_tokenizer_stands_beside_the_others(
    deck: Deck, home: Home, words: LoadedTokenizer, tmp_path: Path
) -> None:
    other = letters(home.tokenizers / "1letters")
    write_json(other.folder / "manifest.json", {"kind": "letters", "vocab_size": other.vocab_size})
    async with deck.run_test(size=(120, 40), notifications=True) as pilot:
        await open_data(pilot, deck, "tokenizer")
        await until(pilot, "characters per token")
        await pilot.press("space")
        await until(pilot, "Beside")
        await pilot.press("i", "ctrl+u", *"w1 x", "enter")
        deck.screen.query_one(Pages).turn_to("Beside")
        await until(pilot, lambda text: "1 place cut differently" in text and "w│1" in text)


async def test_numbers_and_plots_of_every_kind_fit_any_width(home: Home, words: LoadedTokenizer) -> None:
    folder = made_set(home, words)
    whole = {
        "shards": jobs.run("inspect-shards", Experiment(), request={"shards": str(folder)}, home=home),
        "tokenizer": jobs.run(
            "inspect-tokenizer",
            around("builtin"),
            request={"tokenizer": str(words.folder), "sample_mb": 0.2},
            home=home,
        ),
        "text": jobs.run("inspect-corpus", around("builtin"), request={"sample_mb": 0.2}, home=home),
    }
    for kind, found in whole.items():
        for width in (40, 120):
            lines = plain(statistics_lines(kind, found, Reader(words), width))
            assert max(map(cell_len, lines)) <= width
        drawn = plots(kind, found)
        assert drawn
        for plot in drawn:
            assert all(plot.readout(at) for at in range(len(plot.x)))
    assert "±" in "\n".join(plain(statistics_lines("tokenizer", whole["tokenizer"], Reader(words), 120)))
