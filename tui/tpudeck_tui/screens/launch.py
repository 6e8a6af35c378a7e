"""The launch dialog: the last look before a run starts, with the command line that does the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Static

from tpudeck.config import Home
from tpudeck.doctor import refuse_what_cannot_work
from tpudeck.errors import TpudeckError
from tpudeck.presets import resolve
from tpudeck.shards.task import ready as shards_ready
from tpudeck.tokenizer.stage import ready as tokenizer_ready
from tpudeck_tui.draft import Draft
from tpudeck_tui.screens.dialogs import Dialog

__all__ = ["LaunchDialog"]


class LaunchDialog(Dialog[Path]):
    """Name, tags, device; answers with the folder of the run it started."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+y", "copy", "Copy the command", id="launch.copy"),
        Binding("ctrl+l", "launch", "Launch", id="launch.start"),
    ]

    def __init__(self, draft: Draft, home: Home, *, heading: str = "") -> None:
        super().__init__()
        self._heading = heading or f"Launch {draft.preset}"
        self._home = home
        self._draft = draft
        self._ready: list[str] = []

    def heading(self) -> str:
        return self._heading

    def body(self) -> Iterable[Widget]:
        experiment = self._draft.experiment
        assert experiment is not None
        for label, key, value in (
            ("name", "name", experiment.name),
            ("tags", "tags", ""),
            ("device", "device", experiment.device.kind),
        ):
            entry = Input(value, id=key, select_on_focus=False)
            entry.cursor_blink = False
            yield Horizontal(Label(label), entry, classes="field")
        yield Static(id="checks", markup=False)
        yield Static(id="command", markup=False)
        yield Static("tab: next field   enter: launch   ctrl+y: copy the command   escape: back", classes="hint")
        yield Horizontal(
            Button(Content("Back"), id="back"),
            Button(Content("Launch"), id="launch", variant="primary"),
            classes="buttons",
        )

    def on_mount(self) -> None:
        self._look()
        self._look_for_artefacts()

    @on(Input.Changed)
    def _look(self) -> None:
        """Check again, and show the command line."""
        self.query_one("#command", Static).update(self._command())
        self.query_one("#checks", Static).update("\n".join(self._checks()))

    def _text(self, key: str) -> str:
        return self.query_one(f"#{key}", Input).value.strip()

    @property
    def _run_tags(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._text("tags").replace(",", " ").split()))

    @property
    def _device(self) -> str:
        """The device, where it is another one than the preset's."""
        experiment = self._draft.experiment
        device = self._text("device")
        return "" if experiment is None or device == experiment.device.kind else device

    @property
    def _run_name(self) -> str:
        experiment = self._draft.experiment
        return "" if experiment is not None and self._text("name") == experiment.name else self._text("name")

    def _command(self) -> str:
        return self._draft.command(name=self._run_name, tags=self._run_tags, device=self._device)

    def _overrides(self) -> list[str]:
        return self._draft.overrides + ([f"device.kind={self._device}"] if self._device else [])

    def _checks(self) -> list[str]:
        """What was looked at, and how it came out."""
        try:
            experiment = resolve(self._draft.preset, home=self._home, overrides=self._overrides()).experiment
            refuse_what_cannot_work(experiment)
        except TpudeckError as error:
            return [f"✗ {line}" for line in error.show().splitlines()]
        changed = len(self._draft.changes)
        good = "✓ the experiment breaks no rule" + (f" ({changed} changed)" if changed else "")
        return [good, "✓ this machine can start it", *self._ready]

    @work(thread=True, exclusive=True, group="ready")
    def _look_for_artefacts(self) -> None:
        """Which stages have nothing to do; to know it the text may have to be read, so it is found out aside."""
        experiment = self._draft.experiment
        found = []
        for stage, ready in (("tokenizer", tokenizer_ready), ("shards", shards_ready)):
            try:
                there = experiment is not None and ready(experiment, self._home) is not None
            except (TpudeckError, OSError) as error:
                found.append(f"✗ {stage}: {error}")
                continue
            found.append(f"✓ {stage}: found ready" if there else f"· {stage}: is made first")
        self.app.call_from_thread(self._take_ready, found)

    def _take_ready(self, found: list[str]) -> None:
        self._ready = found
        if self.is_attached:
            self._look()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._command())
        self.app.notify("copied the command", markup=False)

    @on(Input.Submitted)
    @on(Button.Pressed, "#launch")
    def action_launch(self) -> None:
        """Create the run and start it."""
        from tpudeck import launch

        try:
            experiment = resolve(self._draft.preset, home=self._home, overrides=self._overrides()).experiment
            folder = launch.create(
                experiment, home=self._home, name=self._run_name or None, preset=self._draft.preset, tags=self._run_tags,
                argv=self._command().split(),
            )  # fmt: skip
            launch.start(folder)
        except (TpudeckError, OSError) as error:
            text = error.show() if isinstance(error, TpudeckError) else str(error)
            self.app.notify(text, severity="error", markup=False)
            return
        self.dismiss(folder)

    @on(Button.Pressed, "#back")
    def _back(self) -> None:
        self.dismiss(None)
