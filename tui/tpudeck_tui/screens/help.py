"""`?`: every key that works where one is, made from the bindings themselves, so it cannot lie; and what signs mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tpudeck_tui.cells import fit, pad
from tpudeck_tui.query import GRAMMAR
from tpudeck_tui.run_cells import STATUSES
from tpudeck_tui.screens.dialogs import Dialog
from tpudeck_tui.widgets.pages import Pages, TextLine

if TYPE_CHECKING:
    from tpudeck_tui.app import Deck

__all__ = ["HelpScreen"]

_RANKS = {"run": 1, "model": 1, "charts": 2, "app": 4}
"""What is not of the screen itself comes after it; what works everywhere comes last."""
_HEADINGS = {"app": "everywhere", "model": "the run's model", "charts": "panels"}
_SIGNS: tuple[tuple[str, str], ...] = (
    ("─ ●◆▲■", "a curve, and the markers that tell several apart"),
    ("▾  ★", "a checkpoint, and the best one"),
    ("↻", "a resume; what it replaced is drawn dim"),
    ("×", "values that are no number"),
    ("n/a", "could not be read; the reason is beside it"),
)


class HelpScreen(Dialog[None]):
    """The keys of the screen behind it."""

    app: Deck
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,q", "dismiss", "Back", show=False),
    ]
    HEADING = "Help"

    def __init__(self, behind: Screen[Any]) -> None:
        super().__init__()
        self._behind = behind

    def body(self) -> Iterable[Widget]:
        yield Pages(("Keys", "Filter", "Signs") if self.app.current_mode == "runs" else ("Keys", "Signs"), id="keys")
        yield Static(
            "arrows turn the page and scroll · esc back · another key for any of these: [console.keys] in config.toml",
            classes="hint",
            markup=False,
        )

    def on_mount(self) -> None:
        pages = self.query_one(Pages)
        pages.styles.height = max(8, min(len(self._keys(80)) + 1, self.app.size.height - 10))
        pages.fill({"Keys": self._keys, "Filter": _filter, "Signs": _signs})
        pages.focus()

    def _keys(self, width: int) -> list[TextLine]:
        groups: dict[str, dict[str, tuple[list[str], str]]] = {}
        for active in self._behind.active_bindings.values():
            binding = active.binding
            if binding.id and not binding.system:
                group = groups.setdefault(binding.id.partition(".")[0], {})
                keys, _ = group.setdefault(binding.id, ([], binding.tooltip or binding.description))
                keys.append(self.app.get_key_display(binding))
        here = self.app.current_mode
        lines: list[TextLine] = []
        for name, entries in sorted(groups.items(), key=lambda item: 0 if item[0] == here else _RANKS.get(item[0], 3)):
            lines.append([(_HEADINGS.get(name, "here" if name == here else f"the {name}"), "title")])
            lines += [
                _line(" ".join(dict.fromkeys(keys)), description, binding_id, width)
                for binding_id, (keys, description) in entries.items()
            ]
        return lines


def _line(keys: str, description: str, binding_id: str, width: int) -> TextLine:
    """Keys, what they do, and at the right the name for the keymap, where there is room for it."""
    keys, description = f"  {keys:<11} ", fit(description, width - 14)
    room = width - len(keys) - cell_len(description) - 2
    return [(keys, "key"), (description, ""), (f"{binding_id:>{room + 2}}" if len(binding_id) <= room else "", "quiet")]


def _filter(width: int) -> list[TextLine]:
    """The language of the filter."""
    head: TextLine = [("Terms are separated by spaces, and all of them must hold.", "title")]
    return [head, *_described(GRAMMAR, 34, width)]


def _signs(width: int) -> list[TextLine]:
    statuses = [[(f"  {glyph} ", part), (name, "")] for name, (glyph, part) in STATUSES.items()]
    return [[("in charts", "title")], *_described(_SIGNS, 10, width), [("of runs", "title")], *statuses]


def _described(rows: Iterable[tuple[str, str]], cells: int, width: int) -> list[TextLine]:
    return [[(f"  {pad(term, cells)} ", "key"), (fit(meaning, width - cells - 3), "")] for term, meaning in rows]
