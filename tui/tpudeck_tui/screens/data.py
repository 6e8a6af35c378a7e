"""Data: texts, tokenizers and shard sets, what is in them, and what to do about it.

Whatever has to be read (a set, a record, the batch of a step) is read by a thread and painted when it is there; what
has to be counted is counted by a child process, whose progress is shown, and kept for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import get_current_worker

from tpudeck import jobs
from tpudeck.errors import InputError, InterruptedRunError, TpudeckError
from tpudeck.inspection.records import number_in_set
from tpudeck_tui.artefacts import Artefact, Opened, around, find, known_statistics, made, merged, open_artefact, texts
from tpudeck_tui.cells import clean, wrap
from tpudeck_tui.charts import ChartScreen
from tpudeck_tui.panels import statistics
from tpudeck_tui.panels.artefact import READERS, View
from tpudeck_tui.screens.base import shown
from tpudeck_tui.screens.dialogs import Prompt
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine
from tpudeck_tui.widgets.pictures import Pictures
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["DataScreen"]

_EXAMPLE = "The method returns a list of strings, and raises an error otherwise."
_FAULTS = (TpudeckError, OSError, IndexError, ValueError)


_COLUMNS: tuple[Column[Artefact], ...] = (
    Column("kind", "kind", 9, lambda artefact: (artefact.kind, "muted"), lambda artefact: artefact.kind),
    Column(
        "about", "what", 8, lambda artefact: (artefact.about, "bright"), lambda artefact: artefact.about, grows=True
    ),
    Column("key", "key", 6, lambda artefact: (artefact.key[:6], "quiet"), lambda artefact: artefact.key, rank=1),
)


class DataScreen(ChartScreen):
    """The list, and the artefact under the cursor."""

    DEFAULT_CSS = """
    DataScreen {
        #artefacts { width: 28; height: 1fr; }
        #detail { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $faint; }
        #where { height: 1; }
        #text { display: none; }
        #pictures { display: none; }
        &.-pictures #pages { height: 1; }
        &.-pictures #pictures { display: block; height: 1fr; }
        &.-normal #artefacts, &.-wide #artefacts { width: 42; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("o", "open", "Open", "data.open", tooltip="Open a folder, file, preset, run, or source of text"),
        shown("i", "type", "Type a text", "data.type", tooltip="Type a text and see its pieces"),
        shown("s", "count", "Count", "data.count", tooltip="Count: statistics of what is under the cursor"),
        shown("space", "mark", "Mark", "data.mark", show=False, tooltip="Mark a tokenizer, to see others beside it"),
        shown("n", "record(1)", "Next record or step", "data.next_record", show=False),
        shown("p", "record(-1)", "Record or step before", "data.record_before", show=False),
        shown("r", "go_to", "Go to a record or step", "data.go_to", show=False),
        shown("v", "split", "Other split", "data.split", show=False),
        shown("m", "picture", "Next chart", "data.picture", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None
        self._beside: Opened | None = None
        """A marked tokenizer, read."""
        self._text = _EXAMPLE
        self._pages_seen: dict[str, str] = {}
        """Kind → the page one last looked at."""
        self._problem = ""
        self._texts: list[Artefact] = []
        self._named: list[Artefact] = []
        """What was opened by name."""
        self._statistics: dict[str, dict[str, Any]] = {}
        self._counting: dict[str, dict[str, Any]] = {}
        """Artefact → the progress of its count."""

    def body(self) -> Iterable[Widget]:
        entry = Input(_EXAMPLE, id="text")
        entry.cursor_blink = False
        table = Table(_COLUMNS, identity=lambda artefact: artefact.identity, id="artefacts")
        table.empty = (("", ""), ("Looking …", "muted"))
        yield Horizontal(
            table,
            Vertical(
                Lines(self._where, id="where"),
                entry,
                Pages(("Facts",), id="pages"),
                Pictures(self.glyphs, id="pictures"),
                id="detail",
            ),
        )

    def on_mount(self) -> None:
        self._list_texts()

    @property
    def _table(self) -> Table[Artefact]:
        return self.query_one("#artefacts", Table)

    # What there is.

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        """Runs make artefacts: look again whenever something about runs has changed."""
        self._list_made()

    @work(thread=True, exclusive=True, group="list")
    def _list_made(self) -> None:
        found = made(self.app.home)
        self.app.call_from_thread(self._show_list, found)

    @work(thread=True, exclusive=True, group="texts")
    def _list_texts(self) -> None:
        self._texts = texts(self.app.home)
        self.app.call_from_thread(self._list_made)

    def _show_list(self, found: list[Artefact]) -> None:
        self._table.show(merged(self._named, found, self._texts))

    def action_open(self) -> None:
        hint = "A folder, a file, preset:NAME, a run, builtin, gs://… or hub:ORG/NAME."
        self.app.push_screen(Prompt("Open", hint=hint), self._named_by_user)

    def _named_by_user(self, text: str | None) -> None:
        if text:
            self._find(text)

    @work(thread=True, exclusive=True, group="find")
    def _find(self, text: str) -> None:
        try:
            found = find(text, self.app.home)
        except _FAULTS as error:
            self.app.call_from_thread(self.app.say, _told(error), severity="error")
            return
        self.app.call_from_thread(self._take_found, found)

    def _take_found(self, found: list[Artefact]) -> None:
        self._named = merged(found, self._named)
        self._show_list(self._table.rows)
        self._table.go_to(found[-1].identity)

    @on(Table.Moved, "#artefacts")
    def _moved(self) -> None:
        if (artefact := self._table.current) is not None:
            self._open(artefact)

    # Reading one.

    @work(thread=True, exclusive=True, group="open")
    def _open(self, artefact: Artefact) -> None:
        view, problem = View(Opened(artefact)), ""
        try:
            view.opened = opened = open_artefact(artefact, self.app.home, self.app.runs)
            view.split = opened.shards.splits[0] if opened.shards is not None and opened.shards.splits else ""
        except _FAULTS as error:
            problem = _told(error)
        view.opened.statistics = view.opened.statistics or self._statistics.get(artefact.identity)
        self.app.call_from_thread(self._take, view, problem)
        if not problem and view.opened.statistics is None:
            self._look_up(view)

    def _look_up(self, view: View) -> None:
        """Statistics that are known already; a text has to be read to tell which one it is."""
        try:
            view.opened.statistics = known_statistics(view.opened, self.app.home)
        except _FAULTS:
            return  # counting will say it
        if view.opened.statistics is not None:
            self.app.call_from_thread(self._paint)

    def _take(self, view: View, problem: str) -> None:
        if self._table.current == view.opened.artefact:
            self._view, self._problem = view, problem
            self.query_one(Pages).page = self._pages_seen.get(view.opened.artefact.kind, "")
            self._paint()
            self._fetch()
            self._read_beside()

    @on(Pages.Turned)
    def _turned(self, message: Pages.Turned) -> None:
        if self._view is not None and not self._problem:
            self._pages_seen[self._view.opened.artefact.kind] = message.pages.page
        self._fetch()
        self._paint()

    def _fetch(self) -> None:
        """Read what the page that is seen shows, unless it is there."""
        view, page = self._view, self.query_one(Pages).page
        if view is not None and page in READERS and page not in view.fetched:
            self._read(view, page, READERS[page])

    @work(thread=True, exclusive=True, group="read")
    def _read(self, view: View, page: str, reader: Callable[[View], Any]) -> None:
        asked = (view.split, view.number, view.step)
        try:
            found = reader(view)
        except _FAULTS as error:
            found, view.problems[page] = None, _told(error)
        if asked == (view.split, view.number, view.step):
            view.fetched[page] = found
        self.app.call_from_thread(self._paint)

    # What is shown.

    def _where(self, width: int) -> list[TextLine]:
        if self._view is None:
            return []
        opened = self._view.opened
        run = f"  of {opened.run}" if opened.run else ""
        artefact = opened.artefact
        name = artefact.key or (artefact.name if artefact.name != artefact.about else "")
        return [[(opened.artefact.kind, "title"), (f"  {clean(opened.artefact.about)}", "bright"),
                 (clean(f"{run}  {name}"), "muted")]]  # fmt: skip

    def _paint(self) -> None:
        view, pages, pictures = self._view, self.query_one(Pages), self.query_one(Pictures)
        self.query_one("#where", Lines).repaint()
        if view is None:
            return
        progress = self._counting.get(view.opened.artefact.identity)
        sources = self._problem_pages() if self._problem else view.pages(self._beside, lambda: self._text, progress)
        pages.names = list(sources)
        if pages.page not in sources:
            pages.turn_to(pages.names[0])
        pages.fill(sources)
        found = view.opened.statistics
        drawn = pages.page == "Charts" and found is not None
        self.set_class(drawn, "-pictures")
        if found is not None and drawn:
            pictures.show(statistics.plots(view.opened.artefact.kind, found))

    def _problem_pages(self) -> dict[str, Callable[[int], list[TextLine]]]:
        return {"Facts": lambda width: [[(line, "bad")] for line in wrap(self._problem, width)]}

    # Texts that are typed, and tokenizers beside each other.

    def action_type(self) -> None:
        view, pages = self._view, self.query_one(Pages)
        if view is None or view.opened.artefact.kind != "tokenizer":
            self.app.say("a text is split by a tokenizer: choose one in the list", severity="warning")
            return
        if pages.page not in {"Pieces", "Beside"}:
            pages.turn_to("Pieces")
        entry = self.query_one("#text", Input)
        entry.display = True
        entry.focus()

    @on(Input.Changed, "#text")
    def _typed(self, event: Input.Changed) -> None:
        self._text = event.value
        self.query_one(Pages).repaint()

    @on(Input.Submitted, "#text")
    def _done(self, event: Input.Submitted) -> None:
        event.input.display = False
        self.query_one(Pages).focus()

    def action_mark(self) -> None:
        """Mark a tokenizer; those one looks at then are shown beside it."""
        artefact = self._table.current
        if artefact is None or artefact.kind != "tokenizer":
            self.app.say("tokenizers are compared: mark one, then look at another", severity="warning")
            return
        before = self._table.marked - {artefact.identity}
        self._table.marked -= before
        self._table.toggle_mark()
        if self._table.marked:
            self.app.say(f"{artefact.about} is marked: the page Beside shows the next tokenizer you choose beside it")
        self._read_beside()

    @work(thread=True, exclusive=True, group="beside")
    def _read_beside(self) -> None:
        marked = next((row for row in self._table.rows if row.identity in self._table.marked), None)
        if marked == (self._beside.artefact if self._beside else None):
            return
        try:
            self._beside = open_artefact(marked, self.app.home, ()) if marked is not None else None
        except _FAULTS as error:
            self.app.call_from_thread(self.app.say, _told(error), severity="error")
            return
        self.app.call_from_thread(self._paint)

    # Records and steps.

    def action_record(self, by: int) -> None:
        """Another record; on the page of batches another step."""
        view = self._view
        if view is not None and view.opened.shards is not None:
            if self.query_one(Pages).page == "Trained":
                self._go(step=max(0, view.step + by))
            else:
                self._go(number=(view.number + by) % max(1, len(view.opened.shards.split(view.split))))

    def action_split(self) -> None:
        view = self._view
        if view is not None and view.opened.shards is not None:
            splits = view.opened.shards.splits
            self._go(split=splits[(splits.index(view.split) + 1) % len(splits)], number=0)

    def action_go_to(self) -> None:
        view = self._view
        if view is None or view.opened.shards is None:
            self.app.say("records are in shard sets: choose one in the list", severity="warning")
        elif self.query_one(Pages).page == "Trained":
            step = Prompt(
                "Go to step", str(view.step), hint="Counted from 0.", attempt=lambda text: self._go(step=_whole(text))
            )
            self.app.push_screen(step)
        else:
            record = Prompt(
                "Go to record",
                str(view.number),
                hint="A record, or shard:record; both are counted from 0.",
                attempt=lambda text: self._go(number=self._record_named(text)),
            )
            self.app.push_screen(record)

    def _record_named(self, text: str) -> int:
        """``1234``, or ``2:17`` for record 17 of shard 2."""
        view = self._view
        assert view is not None
        assert view.opened.shards is not None
        shard, colon, record = text.rpartition(":")
        if colon:
            return number_in_set(view.opened.shards, view.split, _whole(shard), _whole(record))
        number, total = _whole(record), len(view.opened.shards.split(view.split))
        if number >= total:
            raise InputError(f"{view.split} has the records 0 to {total - 1:,}, got {number:,}")
        return number

    def _go(self, *, split: str | None = None, number: int | None = None, step: int | None = None) -> None:
        view, pages = self._view, self.query_one(Pages)
        if view is None:
            return
        page = "Records" if step is None else "Trained"
        view.split = view.split if split is None else split
        view.number = view.number if number is None else number
        view.step = view.step if step is None else step
        view.fetched.pop(page, None)
        view.problems.pop(page, None)
        if pages.page == page:
            self._fetch()
        else:
            pages.turn_to(page)

    # Charts.

    def action_picture(self) -> None:
        self.query_one(Pictures).choose_next()

    def action_full(self) -> None:
        if self.has_class("-pictures") and self.maximized is None:
            self.query_one(Pictures).focus()
        super().action_full()

    @on(Pictures.ExportRequested)
    def _export(self, message: Pictures.ExportRequested) -> None:
        self.write_csv(message.name, message.pieces)

    # Counting.

    def action_count(self) -> None:
        """Have everything counted, in a process of its own."""
        view, pages = self._view, self.query_one(Pages)
        if view is None or self._problem:
            return
        if pages.page not in {"Numbers", "Charts"}:
            pages.turn_to("Numbers")
        if view.opened.statistics is None and view.opened.artefact.identity not in self._counting:
            if not self.app.may_write():
                return
            self._counting[view.opened.artefact.identity] = {}
            view.problems.pop("Numbers", None)
            self._count(view)
            self._paint()

    @work(thread=True, group="count")
    def _count(self, view: View) -> None:
        opened, identity, worker = view.opened, view.opened.artefact.identity, get_current_worker()

        def told(progress: dict[str, Any]) -> None:
            if worker.is_cancelled:
                raise InterruptedRunError("the console was left")
            self._counting[identity] = progress
            self.app.call_from_thread(self._paint)

        try:
            opened.statistics = self._statistics[identity] = jobs.run(
                opened.task,
                opened.experiment or around("builtin"),
                request=opened.request,
                home=self.app.home,
                on_progress=told,
            )
        except _FAULTS as error:
            view.problems["Numbers"] = _told(error)
        self._counting.pop(identity, None)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._counted, identity)

    def _counted(self, identity: str) -> None:
        """The numbers are there, also for whoever looked away and came back meanwhile."""
        view = self._view
        if view is not None and view.opened.artefact.identity == identity:
            view.opened.statistics = self._statistics.get(identity)
            self._paint()


def _told(error: Exception) -> str:
    return error.show() if isinstance(error, TpudeckError) else str(error)


def _whole(text: str) -> int:
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = -1
    if number < 0:
        raise InputError(f"a whole number from 0 on is expected, got {text.strip() or 'nothing'}")
    return number
