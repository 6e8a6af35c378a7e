"""Data: the tokenizers and the shard sets there are, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input

from tpudeck.errors import TpudeckError
from tpudeck.shards import ShardSet, open_set
from tpudeck.shards.manifest import Manifest
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck.tokenizer.loaded import manifest_of
from tpudeck_tui.cells import wrap
from tpudeck_tui.charts import FullScreen
from tpudeck_tui.panels import data
from tpudeck_tui.screens.base import shown
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["DataScreen"]

_EXAMPLE = "The method returns a list of strings, and raises an error otherwise."


@dataclass(frozen=True)
class _Artefact:
    """One line of the list."""

    folder: Path
    kind: str
    """``tokenizer`` or ``shards``."""
    about: str
    made: float


@dataclass
class _Opened:
    """What the cursor is on, read: a tokenizer, or a shard set with its tokenizer where that is here."""

    artefact: _Artefact
    tokenizer: LoadedTokenizer | None = None
    shards: ShardSet | None = None
    split: str = ""
    number: int = 0
    step: int = 0
    text: str = _EXAMPLE


_COLUMNS: tuple[Column[_Artefact], ...] = (
    Column("kind", "kind", 9, lambda artefact: (artefact.kind, "muted"), lambda artefact: artefact.kind),
    Column(
        "about", "what", 8, lambda artefact: (artefact.about, "bright"), lambda artefact: artefact.about, grows=True
    ),
)


class DataScreen(FullScreen):
    """The list, and the artefact under the cursor."""

    DEFAULT_CSS = """
    DataScreen {
        #artefacts { width: 30; height: 1fr; }
        #detail { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $faint; }
        #where { height: 1; }
        #text { display: none; }
        &.-normal #artefacts, &.-wide #artefacts { width: 42; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("i", "type", "Type a text", "data.type", tooltip="Type a text and see its pieces"),
        shown("n", "record(1)", "Next record", "data.next_record", show=False),
        shown("p", "record(-1)", "Record before", "data.record_before", show=False),
        shown("N", "masks", "Other masks", "data.masks", show=False, tooltip="The masks of the next step"),
        shown("v", "split", "Other split", "data.split", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._opened: _Opened | None = None
        self._problem = ""

    def body(self) -> Iterable[Widget]:
        entry = Input(_EXAMPLE, id="text")
        entry.cursor_blink = False
        table = Table(_COLUMNS, identity=lambda artefact: str(artefact.folder), id="artefacts")
        table.empty = (
            ("", ""),
            ("No tokenizers and no shards yet:", "title"),
            ("a run makes them, or", "muted"),
            ("tpudeck shards build PRESET", "bright"),
        )
        yield Horizontal(
            table, Vertical(Lines(self._where, id="where"), entry, Pages(("Pieces",), id="pages"), id="detail")
        )

    @property
    def _table(self) -> Table[_Artefact]:
        return self.query_one("#artefacts", Table)

    # What there is.

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        """Runs make artefacts: look again whenever something about runs has changed."""
        home = self.app.home
        found = [*_list(home.tokenizers, "tokenizer", _about_tokenizer), *_list(home.shards, "shards", _about_shards)]
        self._table.show(sorted(found, key=lambda artefact: (artefact.kind != "tokenizer", -artefact.made)))

    @on(Table.Moved, "#artefacts")
    def _moved(self) -> None:
        if (artefact := self._table.current) is not None:
            self._open(artefact)

    @work(thread=True, exclusive=True, group="open")
    def _open(self, artefact: _Artefact) -> None:
        """Read an artefact, which may take a moment, aside."""
        opened, problem = _Opened(artefact), ""
        try:
            if artefact.kind == "tokenizer":
                opened.tokenizer = load(artefact.folder)
            else:
                opened.shards = open_set(artefact.folder)
                opened.split = opened.shards.splits[0] if opened.shards.splits else ""
                opened.tokenizer = self._tokenizer_of(opened.shards)
        except (TpudeckError, OSError) as error:
            problem = error.show() if isinstance(error, TpudeckError) else str(error)
        self.app.call_from_thread(self._take, opened, problem)

    def _tokenizer_of(self, shards: ShardSet) -> LoadedTokenizer | None:
        """The tokenizer a set was encoded with, by the hash of its file."""
        folders = (folder for folder in _folders(self.app.home.tokenizers))
        wanted = next((folder for folder in folders if manifest_of(folder).get("hash") == shards.tokenizer_hash), None)
        return load(wanted) if wanted is not None else None

    def _take(self, opened: _Opened, problem: str) -> None:
        if self._table.current == opened.artefact:
            self._opened, self._problem = opened, problem
            self._paint()

    # What is shown.

    def _where(self, width: int) -> list[TextLine]:
        if self._opened is None:
            return []
        return [[(self._opened.artefact.kind, "title"), (f"  {self._opened.artefact.folder.name}", "muted")]]

    def _paint(self) -> None:
        opened, pages = self._opened, self.query_one(Pages)
        self.query_one("#where", Lines).repaint()
        if opened is None or self._problem:
            pages.fill(
                dict.fromkeys(pages.names, lambda width: [[(line, "bad")] for line in wrap(self._problem, width)])
            )
            return
        sources = _set_pages(opened) if opened.shards is not None else _tokenizer_pages(opened)
        pages.names = list(sources)
        if pages.page not in sources:
            pages.page = pages.names[0]
        pages.fill(sources)

    # Actions.

    def action_type(self) -> None:
        if self._opened is not None and self._opened.shards is None and self._opened.tokenizer is not None:
            self.query_one(Pages).turn_to("Pieces")
            entry = self.query_one("#text", Input)
            entry.display = True
            entry.focus()

    @on(Input.Changed, "#text")
    def _typed(self, event: Input.Changed) -> None:
        if self._opened is not None:
            self._opened.text = event.value
            self.query_one(Pages).repaint()

    @on(Input.Submitted, "#text")
    def _done(self, event: Input.Submitted) -> None:
        event.input.display = False
        self.query_one(Pages).focus()

    def _turn_record(self, number: int = 0, step: int = 0) -> None:
        opened = self._opened
        if opened is not None and opened.shards is not None:
            count = max(1, len(opened.shards.split(opened.split)))
            opened.number, opened.step = (opened.number + number) % count, opened.step + step
            self.query_one(Pages).turn_to("Records")

    def action_record(self, by: int) -> None:
        self._turn_record(number=by)

    def action_masks(self) -> None:
        self._turn_record(step=1)

    def action_split(self) -> None:
        opened = self._opened
        if opened is not None and opened.shards is not None:
            splits = opened.shards.splits
            opened.split, opened.number = splits[(splits.index(opened.split) + 1) % len(splits)], 0
            self._turn_record()


def _tokenizer_pages(opened: _Opened) -> dict[str, Callable[[int], list[TextLine]]]:
    loaded = opened.tokenizer
    if loaded is None:
        return {"Facts": lambda width: []}
    about = manifest_of(loaded.folder)
    return {
        "Pieces": lambda width: data.piece_lines(loaded, opened.text, width),
        "Facts": lambda width: data.tokenizer_lines(loaded, about, width),
        "Vocabulary": lambda width: data.vocabulary_lines(loaded, width),
    }


def _set_pages(opened: _Opened) -> dict[str, Callable[[int], list[TextLine]]]:
    shards = opened.shards
    assert shards is not None
    return {
        "Facts": lambda width: data.set_lines(shards, width),
        "Files": lambda width: data.file_lines(shards, width),
        "Records": lambda width: _record(opened, shards, width),
    }


def _record(opened: _Opened, shards: ShardSet, width: int) -> list[TextLine]:
    try:
        return data.record_lines(shards, opened.tokenizer, opened.split, opened.number, opened.step, width)
    except (TpudeckError, OSError, IndexError) as error:
        return [[(str(error), "bad")]]


def _folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []


def _list(parent: Path, kind: str, about: Callable[[Path], str]) -> Iterable[_Artefact]:
    for folder in _folders(parent):
        if (folder / "manifest.json").is_file():
            yield _Artefact(folder, kind, about(folder), (folder / "manifest.json").stat().st_mtime)


def _about_tokenizer(folder: Path) -> str:
    manifest = manifest_of(folder)
    return f"{manifest.get('kind', '?')} {manifest.get('vocab_size', 0):,}"


def _about_shards(folder: Path) -> str:
    try:
        manifest = Manifest.load(folder)
    except TpudeckError:
        return "damaged"
    if manifest is None:
        return "?"
    sequences = sum(split.sequences for split in manifest.splits.values())
    return f"{sequences:,} x {manifest.packing.sequence_length}"
