"""`?`: every key that works where one is, made from the bindings themselves, so it cannot lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tpudeck_tui.screens.dialogs import Dialog

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
        scroll = VerticalScroll(Static(self._table()))
        scroll.styles.height = "auto"
        scroll.styles.max_height = "80vh"
        yield scroll
        yield Static(
            "Another key for any of these: [console.keys] in config.toml, by the name at the right.",
            classes="hint",
            markup=False,
        )

    def _table(self) -> Text:
        variables = self.app.theme_variables
        accent, muted = variables.get("accent", ""), variables.get("muted", "")
        groups: dict[str, dict[str, tuple[list[str], str, str]]] = {}
        for active in self._behind.active_bindings.values():
            binding = active.binding
            if not binding.id or binding.system:
                continue
            group = binding.id.partition(".")[0]
            keys, _, _ = groups.setdefault(group, {}).setdefault(
                binding.id, ([], binding.tooltip or binding.description, binding.id)
            )
            key = self.app.get_key_display(binding)
            if key not in keys:
                keys.append(key)
        text = Text(no_wrap=True, overflow="ellipsis")
        for group, entries in sorted(groups.items(), key=lambda item: item[0] == "app"):
            text.append(f"{'everywhere' if group == 'app' else group}\n", "bold")
            for keys, description, binding_id in entries.values():
                text.append(f"  {' '.join(keys):<14}", accent)
                text.append(f"{description:<38.38}")
                text.append(f"  {binding_id}\n", muted)
        text.rstrip()
        return text
