"""The top line (where am I) and the bottom line (what can I press)."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import ActiveBinding
from textual.geometry import Size
from textual.strip import Strip

from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["KeyBar", "TopBar"]


class _Bar(Canvas):
    """One line of texts; those with an action can be clicked."""

    def texts(self, width: int) -> list[tuple[str, str, str]]:
        """Text, part, action."""
        raise NotImplementedError

    def paint(self, size: Size) -> list[Strip]:
        segments = []
        for text, part, action in self.texts(size.width):
            style = self.part(part)
            if action:
                style += Style(meta={"@click": action})
            segments.append(Segment(text, style))
        return [Strip(segments)]

    def on_mouse_move(self, event: events.MouseMove) -> None:
        event.stop()


class TopBar(_Bar):
    """The name, the six screens, and what everybody should know."""

    def __init__(self, tabs: tuple[tuple[str, str, str], ...]) -> None:
        super().__init__()
        self._tabs = tabs
        """Key, mode, title."""
        self.notes: tuple[tuple[str, str], ...] = ()
        """Texts at the right, with their parts; where there is no room for all, the first ones."""

    def texts(self, width: int) -> list[tuple[str, str, str]]:
        here = self.app.current_mode
        full = width >= 100
        found = [(" tpudeck " if full else " ", "name", "")]
        for key, mode, title in self._tabs:
            part = "here" if mode == here else "muted"
            found.append((f" {key} {title} ", part, f"app.switch_mode('{mode}')"))
        used = sum(len(text) for text, _, _ in found)
        room = width - used - 1
        notes = list(self.notes)
        while notes and sum(cell_len(text) + 2 for text, _ in notes) > room:
            notes.pop()
        right = sum(cell_len(text) + 2 for text, _ in notes)
        found.append((" " * (room - right), "", ""))
        found += [(f"{text}  ", part, "") for text, part in notes]
        return found


class KeyBar(_Bar):
    """The keys of this screen that lead somewhere now, then those of what has the focus; `?` has them all."""

    def texts(self, width: int) -> list[tuple[str, str, str]]:
        keys: dict[str, tuple[str, str, str]] = {}
        for active in sorted(self.screen.active_bindings.values(), key=self._rank):
            binding = active.binding
            if binding.show and active.enabled and binding.action not in keys and self._offered(binding.action):
                keys[binding.action] = (self.app.get_key_display(binding), binding.description, binding.key)
        found: list[tuple[str, str, str]] = []
        room = width - len(" ? Keys ")
        for shown, description, key in keys.values():
            text = f" {description} "
            if room < len(shown) + len(text) + 1:
                break
            room -= len(shown) + len(text) + 1
            click = f"app.simulate_key('{key}')"
            found += [(f" {shown}", "key", click), (text, "muted", click)]
        return [*found, (" " * room, "", ""), (" ?", "key", "app.help"), (" Keys ", "muted", "app.help")]

    def _rank(self, active: ActiveBinding) -> int:
        """What is the screen's own comes first, what all screens have comes last."""
        if active.node is not self.screen:
            return 2
        group = (active.binding.id or "").partition(".")[0]
        return 0 if group == self.app.current_mode else 3 if group == "charts" else 1

    def _offered(self, action: str) -> bool:
        offers = getattr(self.screen, "offers", None)
        return offers is None or bool(offers(action))
