"""How the console looks: its theme, the styles of what canvases paint, and ASCII where nothing else can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.style import Style
from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter

from tpudeck.config import Home
from tpudeck_tui.ascii import AsciiFilter
from tpudeck_tui.settings import Memory, Settings
from tpudeck_tui.theme import DEFAULT_VARIABLES, THEMES, palette, theme_for
from tpudeck_tui.widgets.canvas import PaintingApp

__all__ = ["Looks"]


_KEYS_IN_ASCII = {"←": "left", "→": "right", "↑": "up", "↓": "down", "⏎": "enter"}
"""Their look-alikes are keys themselves."""


class Looks(PaintingApp):
    """An application that looks as its user chose, and as the terminal can."""

    def __init__(self, home: Home, *, ascii: bool = False) -> None:
        self.settings = Settings.load(home)
        self.memory = Memory(home)
        self.ascii = ascii or self.settings.ascii
        self._ascii_filters = (AsciiFilter(),) if self.ascii else ()
        self._palette: dict[str, Style] = {}
        self._palette_theme = ""
        super().__init__()
        self._choose_theme()

    def _choose_theme(self) -> None:
        """Before the first style sheet is read: to change the theme later is to read them all again."""
        for theme in THEMES:
            self.register_theme(theme)
        chosen = self.settings.theme
        if chosen and chosen not in self.available_themes:
            problem = f"console.theme: there is no theme {chosen!r}; ctrl+p has them under Theme"
            self.settings = replace(self.settings, problem=self.settings.problem or problem)
        wanted = chosen or self.memory.get(self._theme_key, "")
        self.set_reactive(App.theme, wanted if wanted in self.available_themes else self._default_theme)

    @property
    def _default_theme(self) -> str:
        return theme_for(self.console.color_system, light=self.settings.light)

    @property
    def _theme_key(self) -> str:
        """A theme is remembered for terminals with as many colours as this one."""
        return f"theme.{self.console.color_system}"

    def watch_theme(self, theme: str) -> None:
        self.memory.keep(self._theme_key, "" if theme == self._default_theme else theme)

    @property
    def palette(self) -> dict[str, Style]:
        if self._palette_theme != self.theme:
            self._palette, self._palette_theme = palette(self.get_css_variables()), self.theme
        return self._palette

    def get_key_display(self, binding: Binding) -> str:
        shown = super().get_key_display(binding)
        return _KEYS_IN_ASCII.get(shown, shown) if self.ascii else shown

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DEFAULT_VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii_filters]
