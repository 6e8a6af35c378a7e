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


def _variables(series: tuple[str, ...], **named: str) -> dict[str, str]:
    return {f"series-{index}": colour for index, colour in enumerate(series)} | {
        name.replace("_", "-"): colour for name, colour in named.items()
    }


_DARK_VARIABLES = _variables(
    _DARK_SERIES,
    muted="#8793a1",
    quiet="#64717f",
    faint="#2a333e",
    raw="#33597a",
    cursor="#24384c",
    mark="#3a3220",
    bright="#eef3f8",
)

THEMES = (
    Theme(
        name="tpudeck-dark",
        primary="#58b2f5",
        secondary="#c39bf5",
        accent="#f2b352",
        foreground="#ccd5df",
        background="#0e1318",
        surface="#141b22",
        panel="#1b242d",
        success="#6cc985",
        warning="#e5b94a",
        error="#f27f79",
        dark=True,
        variables=_DARK_VARIABLES,
    ),
    Theme(
        name="tpudeck-light",
        primary="#0969c3",
        secondary="#7a3fc4",
        accent="#b25c00",
        foreground="#24303b",
        background="#fbfcfd",
        surface="#f1f4f7",
        panel="#e4eaf0",
        success="#1a7f4b",
        warning="#9a6700",
        error="#c5332b",
        dark=False,
        variables=_variables(
            _LIGHT_SERIES,
            muted="#5d6b79", quiet="#84919d",
            faint="#dde4ea", raw="#a9cdec", cursor="#d3e5f6", mark="#fdf0d0", bright="#0b1117",
        ),
    ),
    Theme(
        name="tpudeck-16",
        ansi=True,
        primary="ansi_bright_blue",
        secondary="ansi_bright_magenta",
        accent="ansi_bright_yellow",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        success="ansi_bright_green",
        warning="ansi_bright_yellow",
        error="ansi_bright_red",
        dark=True,
        variables=BUILTIN_THEMES["ansi-dark"].variables
        | _variables(
            _ANSI_SERIES,
            muted="ansi_white", quiet="ansi_bright_black",
            faint="ansi_bright_black", raw="ansi_blue", cursor="ansi_blue", mark="ansi_black",
            bright="ansi_bright_white",
        ) | {"border": "ansi_bright_blue", "border-blurred": "ansi_bright_black"},
    ),
    Theme(
        name="tpudeck-16-light",
        ansi=True,
        primary="ansi_blue",
        secondary="ansi_magenta",
        accent="ansi_red",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        success="ansi_green",
        warning="ansi_red",
        error="ansi_red",
        dark=False,
        variables=BUILTIN_THEMES["ansi-light"].variables
        | _variables(
            _ANSI_LIGHT_SERIES,
            muted="ansi_bright_black", quiet="ansi_bright_black",
            faint="ansi_white", raw="ansi_cyan", cursor="ansi_white", mark="ansi_white",
            bright="ansi_black",
        ) | {"border": "ansi_blue", "border-blurred": "ansi_white"},
    ),
)  # fmt: skip


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


DEFAULT_VARIABLES = _DARK_VARIABLES
"""For the themes that come with Textual, which don't know these names."""


def theme_for(color_system: str | None, *, light: bool = False) -> str:
    """The theme for what the terminal can show."""
    few = color_system in (None, "standard", "windows")
    return f"tpudeck-16{'-light' if light else ''}" if few else f"tpudeck-{'light' if light else 'dark'}"
