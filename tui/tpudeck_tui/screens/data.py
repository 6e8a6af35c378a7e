"""Data: the tokenizers and the shard sets there are, and what is in them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input

from tpudeck import jobs
from tpudeck.errors import TpudeckError
from tpudeck.inspection.records import find_tokenizer
from tpudeck.inspection.task import known_shards
from tpudeck.presets import Experiment, load_experiment
from tpudeck.shards import ShardSet, open_set
from tpudeck.shards.manifest import Manifest
from tpudeck.storage import read_json
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
    trained_in: tuple[str, Experiment] | None = None
    """A run that was trained on this set: its name and experiment."""
    statistics: dict[str, Any] | None = None
    counting: str = "s counts every record (kept for the next time)"


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
        shown("s", "count", "Statistics", "data.count", tooltip="Count every record of a shard set"),
        shown("n", "record(1)", "Next record or step", "data.next_record", show=False),
        shown("p", "record(-1)", "Record or step before", "data.record_before", show=False),
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
                self._read_set(opened)
        except (TpudeckError, OSError) as error:
            problem = error.show() if isinstance(error, TpudeckError) else str(error)
        self.app.call_from_thread(self._take, opened, problem)

    def _read_set(self, opened: _Opened) -> None:
        """The set, its tokenizer and statistics where they are here, and a run that was trained on it."""
        home, folder = self.app.home, opened.artefact.folder
        opened.shards = shards = open_set(folder)
        opened.split = shards.splits[0] if shards.splits else ""
        tokenizer = find_tokenizer(home, shards.tokenizer_hash)
        opened.tokenizer = load(tokenizer) if tokenizer is not None else None
        opened.statistics = known_shards(home, folder)
        for run in self.app.runs:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, TpudeckError):
                result = read_json(Path(run.path) / "results" / "shards.json")["result"]
                if (Path(run.path) / str(result["folder"])).resolve() == folder.resolve():
                    opened.trained_in = run.name, load_experiment(Path(run.path) / "experiment.toml")
                    return

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

    def action_record(self, by: int) -> None:
        """Another record; on the page of batches another step."""
        opened, pages = self._opened, self.query_one(Pages)
        if opened is None or opened.shards is None:
            return
        if pages.page == "As trained":
            opened.step = max(0, opened.step + by)
            pages.repaint()
            return
        count = max(1, len(opened.shards.split(opened.split)))
        opened.number = (opened.number + by) % count
        pages.turn_to("Records")

    def action_split(self) -> None:
        opened = self._opened
        if opened is not None and opened.shards is not None:
            splits = opened.shards.splits
            opened.split, opened.number = splits[(splits.index(opened.split) + 1) % len(splits)], 0
            self.query_one(Pages).turn_to("Records")

    def action_count(self) -> None:
        """Have every record counted, in a process of its own."""
        opened = self._opened
        if opened is None or opened.shards is None:
            self.app.say("statistics are of shard sets: choose one in the list", severity="warning")
            return
        self.query_one(Pages).turn_to("Statistics")
        if opened.statistics is None:
            opened.counting = "counting …"
            self._count(opened)
            self._paint()

    @work(thread=True, exclusive=True, group="count")
    def _count(self, opened: _Opened) -> None:
        def told(progress: dict[str, Any]) -> None:
            opened.counting = f"counting: {progress['done']:,} of {progress['total']:,} sequences"
            self.app.call_from_thread(self.query_one(Pages).repaint)

        try:
            request = {"shards": str(opened.artefact.folder)}
            opened.statistics = jobs.run(
                "inspect-shards", Experiment(), request=request, home=self.app.home, on_progress=told
            )
        except TpudeckError as error:
            opened.counting = error.show()
        self.app.call_from_thread(self._paint)


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
    pages = {
        "Facts": lambda width: data.set_lines(shards, width),
        "Files": lambda width: data.file_lines(shards, width),
        "Records": _guarded(lambda width: data.record_lines(shards, loaded, opened.split, opened.number, width)),
        "Statistics": lambda width: _statistics(opened, width),
    }
    loaded, trained_in = opened.tokenizer, opened.trained_in
    if loaded is not None and trained_in is not None:
        name, experiment = trained_in
        pages["As trained"] = _guarded(
            lambda width: data.trained_lines(shards, loaded, experiment, name, opened.step, width)
        )
    return pages


def _statistics(opened: _Opened, width: int) -> list[TextLine]:
    if opened.statistics is None:
        return [[(line, "muted")] for line in wrap(opened.counting, width)]
    return data.statistics_lines(opened.statistics, opened.tokenizer, width)


def _guarded(source: Callable[[int], list[TextLine]]) -> Callable[[int], list[TextLine]]:
    """A page that reads files while it is painted: what goes wrong is what it shows."""

    def lines(width: int) -> list[TextLine]:
        try:
            return source(width)
        except (TpudeckError, OSError, IndexError) as error:
            return [[(line, "bad")] for line in wrap(str(error), width)]

    return lines


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
