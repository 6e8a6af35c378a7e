"""What can be done with a run's model and its copies: each is a command of tpudeck, at work beside the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.screen import Screen

from tpudeck.errors import TpudeckError
from tpudeck_tui.screens.base import shown

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.app import Deck
    from tpudeck_tui.screens.forms import Field, Values

__all__ = ["ModelActions"]


class ModelActions(Screen[None]):
    """Ask, export, publish, copy away, judge the speed of one run."""

    app: Deck

    BINDINGS: ClassVar[list[BindingType]] = [
        shown("i", "ask", "Ask", "model.ask", tooltip="Ask the model: type a text, see what it fills in"),
        shown("E", "export", "Export", "model.export", show=False, tooltip="Export for Transformers and PyTorch"),
        shown("H", "publish", "Push to the Hub", "model.publish", show=False),
        shown("B", "copy_away", "Copy the run to a bucket", "model.copy_away", show=False),
        shown("v", "speed", "What holds it back", "model.speed", show=False),
        shown("P", "profile", "Profile", "model.profile", show=False, tooltip="Profile the next steps of a live run"),
    ]

    def meant_runs(self) -> list[RunSummary]:
        """The runs an action is for."""
        raise NotImplementedError

    def _one(self) -> RunSummary | None:
        """The one run that is meant; says so where several are."""
        runs = self.meant_runs()
        if len(runs) > 1:
            self.app.say("this is done to one run at a time: escape clears the marks", severity="warning")
        return runs[0] if len(runs) == 1 else None

    def action_ask(self) -> None:
        from tpudeck_tui.screens.ask import AskDialog

        if (run := self._one()) is not None:
            try:
                self.app.push_screen(AskDialog(run, self.app.home))
            except TpudeckError as error:
                self.app.tell(error)

    def action_export(self) -> None:
        from tpudeck_tui.screens.forms import Field, options, required

        run = self._one()
        if run is None or not self.app.may_write():
            return
        folder = _unused(self.app.home.root / "exports" / run.id)

        def words(values: Values) -> list[str]:
            where = required(values, "folder", "an export needs a new folder")
            return ["export", run.id, where, *options(checkpoint=values["checkpoint"])]

        self._begin(
            f"Export {run.name}",
            [Field("folder", "folder", str(folder)), _checkpoint()],
            words,
            detail="A folder that Transformers opens, with PyTorch.",
        )

    def action_publish(self) -> None:
        from tpudeck_tui.screens.forms import Field, options, required

        run = self._one()
        if run is None or not self.app.may_write():
            return

        def words(values: Values) -> list[str]:
            name = required(values, "repository", "name the repository: ORG/NAME")
            public = values["public"] == "yes"
            return ["push", run.id, name, *options(checkpoint=values["checkpoint"], public=public)]

        self._begin(
            f"Push {run.name} to the Hub",
            [
                Field("repository", "repository", hint="ORG/NAME; made where it is missing"),
                _checkpoint(),
                Field("public", "public", "no", choices=("no", "yes")),
            ],
            words,
            detail="The exported model with its tokenizer, recipe, results and curve.",
        )

    def action_copy_away(self) -> None:
        from tpudeck_tui.screens.forms import Field

        run = self._one()
        if run is None or not self.app.may_write():
            return
        self._begin(
            f"Copy {run.name} to a bucket",
            [Field("to", "to", hint="gs://BUCKET/NAME, or empty: the store of config.toml")],
            lambda values: ["runs", "push", run.id, *filter(None, (values["to"],))],
            detail="With its checkpoints, tokenizer and shards: it can go on elsewhere.",
        )

    def action_speed(self) -> None:
        if (run := self._one()) is not None:
            self.app.watch_command(["doctor", "speed", run.id], title=f"What holds {run.name} back")

    def action_profile(self) -> None:
        run = self._one()
        if run is None or not self.app.may_write():
            return
        self.app.watch_command(["runs", "profile", run.id], title=f"Profile of {run.name}")

    def _begin(self, heading: str, fields: list[Field], words: Callable[[Values], list[str]], *, detail: str) -> None:
        """Ask for what is missing, then let the command go."""
        from tpudeck_tui.screens.forms import CommandForm

        def answered(line: list[str] | None) -> None:
            if line is not None:
                self.app.begin_command(line, title=heading)

        self.app.push_screen(CommandForm(heading, fields, words, detail=detail), answered)


def _checkpoint() -> Field:
    from tpudeck_tui.screens.forms import Field

    return Field("checkpoint", "checkpoint", "best", hint="best, last, or a step", choices=("best", "last"))


def _unused(folder: Path) -> Path:
    """A folder that isn't there yet."""
    number, found = 1, folder
    while found.exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found
