"""What the six screens have in common: the bars, the room they need, and the hooks through which news arrives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tpudeck_tui.widgets.bars import KeyBar, TopBar

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.app import Deck
    from tpudeck_tui.messages import Seen

__all__ = ["LEAST_HEIGHT", "LEAST_WIDTH", "DeckScreen", "TooSmall"]

LEAST_WIDTH, LEAST_HEIGHT = 60, 16

TABS = (
    ("1", "runs", "Runs"),
    ("2", "presets", "Presets"),
    ("3", "data", "Data"),
    ("4", "live", "Live"),
    ("5", "compare", "Compare"),
    ("6", "system", "System"),
)


class TooSmall(Static):
    """Instead of a screen that cannot be shown."""

    def on_resize(self, event: events.Resize) -> None:
        width, height = self.app.size
        self.update(f"tpudeck needs {LEAST_WIDTH} x {LEAST_HEIGHT}\nthis terminal has {width} x {height}")


class DeckScreen(Screen[None]):
    """One of the six. Subclasses compose a :meth:`body`, and take in what they are shown."""

    app: Deck

    ALLOW_IN_MAXIMIZED_VIEW: ClassVar[str] = "KeyBar,TopBar"
    TITLE: ClassVar[str | None] = ""

    def compose(self) -> ComposeResult:
        yield TopBar(TABS)
        yield from self.body()
        yield KeyBar()
        yield TooSmall()

    def body(self) -> Iterable[Widget]:
        """What lies between the bars."""
        raise NotImplementedError

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        """The list of runs is another one; called on the visible screen only."""

    def show_run(self, folder: Path, seen: Seen) -> None:
        """A followed run said something."""

    def show_vanished(self, folder: Path, reason: str) -> None:
        """A followed run is gone."""

    def followed(self) -> Iterable[Path]:
        """The runs this screen wants to be shown in full while it is visible."""
        return ()

    def offers(self, action: str) -> bool:
        """Whether an action leads somewhere now; the key bar leaves out those that don't, their keys say why."""
        return True

    def on_screen_resume(self) -> None:
        self.refresh_bars()
        self.app.follow(self.followed())
        self.show_runs(self.app.runs)

    def refresh_bars(self) -> None:
        """The bars say something else now."""
        if self.is_mounted:
            bar = self.query_one(TopBar)
            bar.notes = self.app.notes()
            bar.repaint()
            self.query_one(KeyBar).repaint()

    def on_descendant_focus(self) -> None:
        self.call_after_refresh(self.refresh_bars)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT, "-too-small")


def shown(key: str, action: str, description: str, id: str, *, show: bool = True, tooltip: str = "") -> Binding:
    """A key of a screen: `id` names it for the user's keymap."""
    return Binding(key, action, description, id=id, show=show, tooltip=tooltip or description)
