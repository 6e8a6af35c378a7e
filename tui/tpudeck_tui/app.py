"""The application: which screens there are, which keys reach them, and how news gets to the one that is seen.

Screens, and the libraries they need, are imported when they are first opened: the run list, which comes first, needs
neither numpy (85 ms) nor pydantic (65 ms).
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.screen import Screen

from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck_tui.looks import Looks
from tpudeck_tui.messages import LookFailed, RunRead, RunsListed, RunVanished
from tpudeck_tui.screens.base import TABS, DeckScreen
from tpudeck_tui.watcher import Watcher

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.commands import Command

__all__ = ["Deck"]

_MOVES = ("table.", "pages.", "chart.cursor")
"""Ids of keys that only move: they would drown the others in the palette."""
_COMMANDS_S = 0.25
"""Time between two looks at commands, where there are any."""
_IMPORT_AFTER_S = 0.7
"""After the first list of runs: by then it has been painted."""

_TERMINATED = 128 + signal.SIGTERM
_SCREENS = {
    "runs": ("tpudeck_tui.screens.runs", "RunsScreen"),
    "presets": ("tpudeck_tui.screens.presets", "PresetsScreen"),
    "data": ("tpudeck_tui.screens.data", "DataScreen"),
    "live": ("tpudeck_tui.screens.live", "LiveScreen"),
    "compare": ("tpudeck_tui.screens.compare", "CompareScreen"),
    "system": ("tpudeck_tui.screens.system", "SystemScreen"),
}


def _collect_garbage_from_now_on() -> None:
    """What was made for the first frame stays, and is never searched for garbage again."""
    gc.freeze()
    gc.enable()


def _a_shell_waits() -> bool:
    """Whether somebody with job control started this process: else, once stopped, nobody could let it go on."""
    parent = os.getppid()
    return os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgid(0)


def _import_screens() -> None:
    """What takes the most of opening a screen for the first time; one imports while one reads the list of runs."""
    for module, _ in _SCREENS.values():
        import_module(module)


def _screen(module: str, name: str) -> Screen[Any]:
    screen: Screen[Any] = getattr(import_module(module), name)()
    return screen


def _binding_ids(owner: type[DOMNode]) -> set[str]:
    """The names of all keys of a class and of those below it."""
    own = {binding.id for binding in owner.BINDINGS if isinstance(binding, Binding) and binding.id}
    return own.union(*(_binding_ids(below) for below in owner.__subclasses__()))


class Deck(Looks):
    """The console."""

    CSS_PATH = "app.tcss"
    DEFAULT_MODE: ClassVar[str] = "runs"
    TITLE = "tpudeck"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-normal"), (190, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-short"), (32, "-tall")]  # noqa: RUF012
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        mode: partial(_screen, *place) for mode, place in _SCREENS.items()
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"app.switch_mode('{mode}')", f"Go to {title}", id=f"app.{mode}", show=False)
            for key, mode, title in TABS
        ),
        Binding("question_mark,f1", "help", "Keys", key_display="?", id="app.help", show=False),
        Binding("q,ctrl+q", "leave", "Leave (runs go on)", key_display="q", id="app.quit", show=False),
        Binding("ctrl+z", "suspend", "To the shell (fg comes back)", id="app.suspend", show=False),
        Binding("w", "commands", "What is at work beside", id="app.commands", show=False),
        Binding("f9", "save_screen", "Picture of the screen (SVG)", id="app.picture", show=False),
    ]

    def __init__(
        self,
        home: Home,
        *,
        readonly: bool = False,
        refresh_s: float | None = None,
        ascii: bool = False,
    ) -> None:
        super().__init__(home, ascii=ascii)
        self.home = home
        self.readonly = readonly
        self.runs: tuple[RunSummary, ...] = ()
        self.chosen_run: Path | None = None
        """The run that Live shows."""
        self.compared: tuple[Path, ...] = ()
        """The runs that Compare shows."""
        self.commands: list[Command] = []
        """Those that nobody waits for: what comes of them is told."""
        self.watcher = Watcher(home, self.post_message, refresh_s=refresh_s or self.settings.refresh)
        self._listed = False
        """Whether the first list of runs was shown."""
        self._said, self._said_until = "", 0.0

    def get_default_screen(self) -> Screen[Any]:
        return _screen(*_SCREENS["runs"])

    def on_mount(self) -> None:
        self.set_keymap(self.settings.keys)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, partial(self.exit, return_code=_TERMINATED))
        self.watcher.start()
        self._commands_timer = self.set_interval(_COMMANDS_S, self._look_at_commands, pause=True)
        if self.settings.problem:
            self.set_timer(0.1, partial(self.say, self.settings.problem, severity="warning"))
        if self.settings.keys:
            self.run_worker(self._check_keys, thread=True)

    def on_unmount(self) -> None:
        self.watcher.stop()

    def _check_keys(self) -> None:
        """Say which names of the user's keymap nothing is called."""
        _import_screens()
        if unknown := sorted(set(self.settings.keys) - _binding_ids(DOMNode)):
            text = f"{self.home.settings_file.name}: nothing is called {', '.join(unknown)}; ? shows the names"
            self.call_from_thread(self.say, text, severity="warning")

    # News.

    def on_runs_listed(self, message: RunsListed) -> None:
        self.runs = message.runs
        self._deliver(lambda screen: screen.show_runs(self.runs))
        self._on_screens(DeckScreen.refresh_bars)
        if not gc.isenabled():
            self.call_after_refresh(_collect_garbage_from_now_on)
        if not self._listed:
            self._listed = True
            self.set_timer(_IMPORT_AFTER_S, partial(self.run_worker, _import_screens, thread=True))

    def on_run_read(self, message: RunRead) -> None:
        self._deliver(lambda screen: screen.show_run(message.folder, message.seen))

    def on_run_vanished(self, message: RunVanished) -> None:
        self._deliver(lambda screen: screen.show_vanished(message.folder, message.reason))

    def _deliver(self, show: Callable[[DeckScreen], None]) -> None:
        """Give news to the screen that is seen, and say that it was taken in."""
        self.watcher.taken()
        self._on_screens(show)

    def _on_screens(self, show: Callable[[DeckScreen], None]) -> None:
        """Do it to the screen that is seen, also behind a dialog."""
        for screen in self.screen_stack:
            if isinstance(screen, DeckScreen):
                with suppress(NoMatches):  # a screen that is just being taken down shows nothing any more
                    show(screen)

    def on_look_failed(self, message: LookFailed) -> None:
        self.watcher.taken()
        self.say(f"the runs cannot be read: {message.reason}", severity="error")

    def follow(self, folders: Iterable[Path]) -> None:
        """Have these runs read in full."""
        self.watcher.follow(folders)

    # Commands beside the console.

    def begin_command(self, words: Sequence[str], *, title: str) -> None:
        """Start a command, and tell what comes of it."""
        if (command := self._started(words, title)) is not None:
            self.let_go(command)
            self.say(f"{title}: begun. w shows what is at work")

    def watch_command(self, words: Sequence[str], *, title: str) -> None:
        """Start a command, and show what it prints."""
        from tpudeck_tui.screens.work import CommandDialog

        if (command := self._started(words, title)) is not None:
            self.push_screen(CommandDialog(command))

    def _started(self, words: Sequence[str], title: str) -> Command | None:
        from tpudeck_tui.commands import Command

        try:
            return Command(words, home=self.home, title=title)
        except OSError as error:
            self.tell(error)
            return None

    def let_go(self, command: Command) -> None:
        """Nobody waits for it any more."""
        self.commands.append(command)
        self._commands_timer.resume()
        self._on_screens(DeckScreen.refresh_bars)

    def _look_at_commands(self) -> None:
        """Tell of those that have ended."""
        ended = [command for command in self.commands if not command.running()]
        self.commands = [command for command in self.commands if command not in ended]
        for command in ended:
            if command.stopping:
                self.say(f"{command.title}: stopped", severity="warning")
            elif (problem := command.problem()) is not None:
                self.say(f"{command.title}: {problem.show()}", severity="error")
            else:
                self.say(f"{command.title}: {(command.output() or command.said() or ['done'])[-1]}")
        if ended:
            self.watcher.look_now()
            self._on_screens(DeckScreen.refresh_bars)
        if not self.commands:
            self._commands_timer.pause()

    def on_resize(self) -> None:
        """Paint anew also where the size is what it was: sizes in between, which a busy console never sees, have cut
        away what the terminal showed."""
        self.screen.refresh()

    # What screens share.

    def say(self, text: str, *, severity: Any = "information") -> None:
        """A notice; the text may come from anywhere. What is still to be read is not said again."""
        now = time.monotonic()
        if text != self._said or now > self._said_until:
            self._said, self._said_until = text, now + self.NOTIFICATION_TIMEOUT
            self.notify(text, severity=severity, markup=False)

    def tell(self, error: TpudeckError | OSError) -> None:
        """An error as a notice: what is wrong, and what to do."""
        self.say(error.show() if isinstance(error, TpudeckError) else str(error), severity="error")

    def may_write(self) -> bool:
        """Whether this console may change anything; says so where it may not."""
        if self.readonly:
            self.say("this console was opened with --readonly: it watches, and changes nothing", severity="warning")
        return not self.readonly

    def open_run(self, folder: Path) -> None:
        """Show a run live."""
        self.chosen_run = folder
        self.switch_mode("live")

    def show_launched(self, folder: Path | None) -> None:
        """Go to a run that was just started, if it was."""
        if folder is not None:
            self.watcher.look_now()
            self.open_run(folder)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What the top line says at its right."""
        live = sum(run.live for run in self.runs)
        found = [("read-only", "warning")] if self.readonly else []
        found += [(f"{len(self.commands)} at work", "accent")] if self.commands else []
        found += [(f"{live} running", "key")] if live else []
        return (
            *found,
            (f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''}" if self.runs else "no runs yet", "muted"),
        )

    # Actions.

    def action_help(self) -> None:
        from tpudeck_tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_commands(self) -> None:
        from tpudeck_tui.screens.work import CommandsDialog

        if not isinstance(self.screen, CommandsDialog):
            self.push_screen(CommandsDialog())

    def action_leave(self) -> None:
        live, beside = sum(run.live for run in self.runs), len(self.commands)
        going_on = [f"{live} run{'s' if live > 1 else ''}"] if live else []
        going_on += [f"{beside} command{'s' if beside > 1 else ''}"] if beside else []
        goes = "goes" if live + beside == 1 else "go"
        said = f"{' and '.join(going_on)} {goes} on without the console. `tpudeck` opens it again."
        self.exit(message=f"{said} `tpudeck runs list` shows the runs." if going_on else None)

    def action_suspend(self) -> None:
        if _a_shell_waits():
            self.action_suspend_process()
        else:
            self.say("there is no shell here that could bring the console back; q leaves it, and runs go on")

    def on_driver_signal_resume(self) -> None:
        """Back from the shell, on an empty terminal."""
        self.refresh(layout=True)

    def action_save_screen(self) -> None:
        folder = self.home.root / "exports"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.say(f"wrote {self.save_screenshot(path=str(folder))}")
        except OSError as error:
            self.tell(error)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every key of the screen, what has the focus included; and the theme, which has none."""
        told: set[str] = set()
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.id and not binding.system and not binding.id.startswith(_MOVES) and binding.id not in told:
                told.add(binding.id)
                does = partial(self.run_action, binding.action, active.node)
                key = self.get_key_display(binding)
                yield SystemCommand(binding.tooltip or binding.description, f"{key}  ({binding.id})", does)
        yield SystemCommand("Theme", "Choose colours", self.action_change_theme)
