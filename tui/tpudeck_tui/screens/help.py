"""`?`: every key that works where one is, made from the bindings themselves, so it cannot lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tpudeck_tui.cells import pad
from tpudeck_tui.screens.dialogs import Dialog
from tpudeck_tui.widgets.pages import Pages, TextLine

__all__ = ["HelpScreen"]


class HelpScreen(Dialog[None]):
    """The keys of the screen behind it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,q", "dismiss", "Back", show=False),
    ]
    HEADING = "Keys"

    def __init__(self, behind: Screen[Any]) -> None:
        super().__init__()
        self._behind = behind

    def body(self) -> Iterable[Widget]:
        yield Pages(("Keys",), id="keys")
        yield Static(
            "Another key for any of these: [console.keys] in config.toml, by the name at the right.",
            classes="hint",
            markup=False,
        )

    def on_mount(self) -> None:
        pages = self.query_one(Pages)
        lines = self._lines()
        pages.styles.height = min(len(lines) + 1, max(8, self.app.size.height - 11))
        pages.fill({"Keys": lambda width: lines})
        pages.focus()

    def _lines(self) -> list[TextLine]:
        groups: dict[str, dict[str, tuple[list[str], str]]] = {}
        for active in self._behind.active_bindings.values():
            binding = active.binding
            if binding.id and not binding.system:
                group = groups.setdefault(binding.id.partition(".")[0], {})
                keys, _ = group.setdefault(binding.id, ([], binding.tooltip or binding.description))
                keys.append(self.app.get_key_display(binding))
        lines: list[TextLine] = []
        for name, entries in sorted(groups.items(), key=lambda item: item[0] == "app"):
            lines.append([("everywhere" if name == "app" else name, "title")])
            for binding_id, (keys, description) in entries.items():
                shown = " ".join(dict.fromkeys(keys))
                lines.append([(f"  {shown:<14}", "key"), (pad(description, 42), ""), (f"  {binding_id}", "quiet")])
        return lines
