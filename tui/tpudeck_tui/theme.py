"""Colours. Eight series colours are told apart by hue and by lightness, and markers do what colour cannot.

On terminals with 16 colours the themes use the terminal's own, so that they fit whatever palette its owner chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

__all__ = ["DEFAULT_VARIABLES", "SERIES_COLOURS", "THEMES", "palette", "theme_for"]

SERIES_COLOURS = 8

_PARTS: dict[str, tuple[str, str, str]] = {
    "title": ("bright", "", "bold"),
    "title-focused": ("primary", "", "bold underline"),
    "muted": ("muted", "", ""),
    "quiet": ("quiet", "", ""),
    "faint": ("faint", "", ""),
    "bright": ("bright", "", ""),
    "good": ("success", "", ""),
    "warning": ("warning", "", ""),
    "bad": ("error", "", ""),
    "live": ("primary", "", ""),
    "accent": ("accent", "", ""),
    "key": ("accent", "", "bold"),
    "name": ("primary", "", "bold"),
    "here": ("bright", "", "bold reverse"),
    "header": ("muted", "", "bold"),
    "sorted": ("primary", "", "bold"),
    "cursor": ("", "cursor", "bold"),
    "cursor-blurred": ("", "panel", ""),
    "chart-cursor": ("", "cursor", ""),
    "hidden": ("accent", "", "reverse"),
    "shown": ("success", "", "underline"),
    "replaced": ("error", "", "bold"),
    "differs": ("warning", "", "bold underline"),
    "mark": ("accent", "", "bold"),
    "bar": ("primary", "", ""),
    "bar-rest": ("faint", "", ""),
    "raw": ("raw", "", ""),
    "add": ("success", "", ""),
    "remove": ("error", "", ""),
    **{f"series-{index}": (f"series-{index}", "", "") for index in range(SERIES_COLOURS)},
}
"""What texts in a canvas can be: foreground and background as names of theme variables, and attributes."""

_DARK_SERIES = ("#58b2f5", "#f2b352", "#6cc985", "#c39bf5", "#f27f79", "#59d0d0", "#e58fc4", "#b9c46a")
_LIGHT_SERIES = ("#0969c3", "#b25c00", "#1a7f4b", "#7a3fc4", "#c5332b", "#007d8a", "#b0307f", "#677200")
_ANSI_SERIES = (
    "ansi_bright_blue", "ansi_bright_yellow", "ansi_bright_green", "ansi_bright_magenta",
    "ansi_bright_red", "ansi_bright_cyan", "ansi_white", "ansi_yellow",
)  # fmt: skip
_ANSI_LIGHT_SERIES = (
    "ansi_blue", "ansi_red", "ansi_green", "ansi_magenta", "ansi_cyan", "ansi_yellow", "ansi_black", "ansi_bright_blue",
)  # fmt: skip


def _theme(
    name: str, series: tuple[str, ...], grounds: tuple[str, str, str, str], *, dark: bool, ansi: bool = False,
    warning: str, error: str, **named: str,
) -> Theme:  # fmt: skip
    """A theme: what it means to be first, good or special has the colour of a series; `grounds` from front to back."""
    foreground, panel, surface, background = grounds
    variables = {f"series-{index}": colour for index, colour in enumerate(series)}
    variables |= {variable.replace("_", "-"): colour for variable, colour in named.items()}
    primary, accent, success, secondary, *_ = series
    return Theme(
        name=name, dark=dark, ansi=ansi, primary=primary, secondary=secondary, accent=accent, success=success,
        warning=warning, error=error, foreground=foreground, panel=panel, surface=surface, background=background,
        boost="ansi_default" if ansi else None,
        variables=(BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables if ansi else {}) | variables,
    )  # fmt: skip


_AS_IT_IS = ("ansi_default",) * 4

THEMES = (
    _theme(
        "tpudeck-dark", _DARK_SERIES, ("#ccd5df", "#1b242d", "#141b22", "#0e1318"), dark=True,
        warning="#e5b94a", error="#f27f79",
        muted="#8793a1", quiet="#64717f", faint="#2a333e", raw="#33597a", cursor="#24384c", bright="#eef3f8",
    ),
    _theme(
        "tpudeck-light", _LIGHT_SERIES, ("#24303b", "#e4eaf0", "#f1f4f7", "#fbfcfd"), dark=False,
        warning="#9a6700", error="#c5332b",
        muted="#5d6b79", quiet="#84919d", faint="#dde4ea", raw="#a9cdec", cursor="#d3e5f6", bright="#0b1117",
    ),
    _theme(
        "tpudeck-16", _ANSI_SERIES, _AS_IT_IS, dark=True, ansi=True,
        warning="ansi_bright_yellow", error="ansi_bright_red",
        muted="ansi_white", quiet="ansi_bright_black", faint="ansi_bright_black", raw="ansi_blue", cursor="ansi_blue",
        bright="ansi_bright_white", border="ansi_bright_blue", border_blurred="ansi_bright_black",
    ),
    _theme(
        "tpudeck-16-light", _ANSI_LIGHT_SERIES, _AS_IT_IS, dark=False, ansi=True,
        warning="ansi_red", error="ansi_red",
        muted="ansi_bright_black", quiet="ansi_bright_black", faint="ansi_white", raw="ansi_cyan", cursor="ansi_white",
        bright="ansi_black", border="ansi_blue", border_blurred="ansi_white",
    ),
)  # fmt: skip

DEFAULT_VARIABLES = THEMES[0].variables
"""For the themes that come with Textual, which don't know these names."""


def palette(variables: Mapping[str, str]) -> dict[str, Style]:
    """The styles of all parts under a theme.

    Plain styles and no CSS component classes: each of those is a virtual node that Textual styles again for every
    widget, which for thirty parts and ten widgets takes longer than all the rest of a screen.
    """

    def colour(name: str) -> Any:
        return Color.parse(variables[name]).rich_color if name else None

    return {
        part: Style(color=colour(front), bgcolor=colour(back)) + Style.parse(attributes or "none")
        for part, (front, back, attributes) in _PARTS.items()
    }


def theme_for(color_system: str | None, *, light: bool = False) -> str:
    """The theme for what the terminal can show."""
    few = color_system in (None, "standard", "windows")
    return f"tpudeck-16{'-light' if light else ''}" if few else f"tpudeck-{'light' if light else 'dark'}"
