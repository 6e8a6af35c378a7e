"""What can be done to a run, with the same keys wherever runs are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from tpudeck.errors import TpudeckError
from tpudeck_tui.model_actions import ModelActions
from tpudeck_tui.screens.base import shown

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["RunActions"]


class RunActions(ModelActions):
    """Stop, resume, fork, name, tag, note, archive, delete; subclasses say which runs are meant."""

    BINDINGS: ClassVar[list[BindingType]] = [
        shown("S", "stop", "Stop", "run.stop", tooltip="Stop: save a checkpoint and end"),
        shown("R", "resume", "Resume", "run.resume", tooltip="Resume from the last checkpoint"),
        shown("F", "fork", "Fork", "run.fork", show=False, tooltip="Fork: start anew from this run's experiment"),
        shown("C", "checkpoint", "Checkpoint now", "run.checkpoint", show=False),
        shown("t", "tag", "Tags", "run.tag", show=False),
        shown("n", "note", "Note", "run.note", show=False),
        shown("r", "rename", "Rename", "run.rename", show=False),
        shown("Q", "priority", "Place in the queue", "run.priority", show=False),
        shown("p", "copy_path", "Copy the path of the folder", "run.copy_path", show=False),
        shown("a", "archive", "Archive, or take back", "run.archive", show=False),
        shown("D,delete", "delete", "Delete (to the trash)", "run.delete", show=False),
    ]

    def offers(self, action: str) -> bool:
        """Only what is going on can be stopped, only what has ended resumed."""
        runs = self.meant_runs()
        match action:
            case "stop":
                return any(run.live for run in runs)
            case "resume":
                return any(not run.live and run.status != "finished" for run in runs)
            case "ask":
                return bool(runs)
            case _:
                return True

    def _each(self, runs: list[RunSummary], act: Callable[[Path], object], done: str) -> None:
        """Do something to each run; what fails is told, and the others go on."""
        count = 0
        for run in runs:
            try:
                act(Path(run.path))
                count += 1
            except (TpudeckError, OSError) as error:
                self.app.tell(error)
        if count:
            self.app.say(done if count == 1 else f"{done} ({count} runs)")
        self.app.watcher.look_now()

    def action_stop(self) -> None:
        from tpudeck.launch import request_stop
        from tpudeck_tui.screens.dialogs import Ask

        runs = [run for run in self.meant_runs() if run.live]
        if not self.app.may_write():
            return
        if not runs:
            self.app.say("only a run that is going on can be stopped", severity="warning")
            return
        again = [run for run in runs if run.status == "stopping"]

        def answered(yes: bool | None) -> None:
            if yes:
                self._each(
                    runs,
                    lambda folder: request_stop(folder, now=bool(again)),
                    "ended at once" if again else "asked to stop: it saves a checkpoint first",
                )

        question = f"Stop {_named(runs)}{' at once' if again else ''}?"
        detail = (
            "It was asked to stop and has not ended yet. At once loses what it did since its last checkpoint."
            if again
            else "It saves a checkpoint at its next step and ends. R goes on from there."
        )
        self.app.push_screen(Ask(question, detail, yes="Stop", no="Let it run"), answered)

    def action_resume(self) -> None:
        from tpudeck.launch import resume

        runs = [run for run in self.meant_runs() if not run.live]
        if not self.app.may_write():
            return
        if not runs:
            self.app.say("only a run that has ended can be resumed", severity="warning")
            return
        self._each(runs, resume, f"{_named(runs)} goes on" if len(runs) == 1 else "resumed")

    def action_fork(self) -> None:
        """A new run from the experiment of this one, anew or from one of its checkpoints."""
        from tpudeck_tui.screens.launch import ForkDialog

        run = self._one()
        if run is None or not self.app.may_write():
            return
        try:
            self.app.push_screen(ForkDialog(run, self.app.home), self.app.show_launched)
        except TpudeckError as error:
            self.app.tell(error)

    def action_checkpoint(self) -> None:
        from tpudeck.launch import request_checkpoint

        runs = [run for run in self.meant_runs() if run.live]
        if self.app.may_write() and runs:
            self._each(runs, request_checkpoint, "asked for a checkpoint at the next step")

    def action_copy_path(self) -> None:
        if runs := self.meant_runs():
            self.app.copy_to_clipboard("\n".join(run.path for run in runs))
            self.app.say(f"copied {runs[0].path}" if len(runs) == 1 else f"copied {len(runs)} paths")

    def action_tag(self) -> None:
        from tpudeck_tui.screens.dialogs import Prompt

        runs = self.meant_runs()
        if not runs or not self.app.may_write():
            return

        def answered(text: str | None) -> None:
            if text is not None:
                tags = list(dict.fromkeys(text.replace(",", " ").split()))
                self._change(runs, "tagged", tags=tags)

        known = sorted({tag for run in self.app.runs for tag in run.tags})
        hint = f"Separated by spaces; known: {' '.join(known)}." if known else "Separated by spaces."
        self.app.push_screen(Prompt(f"Tags of {_named(runs)}", " ".join(runs[0].tags), hint=hint), answered)

    def action_note(self) -> None:
        from tpudeck_tui.screens.dialogs import Prompt

        runs = self.meant_runs()
        if not runs or not self.app.may_write():
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self._change(runs, "noted", note=text)

        self.app.push_screen(Prompt(f"Note on {_named(runs)}", runs[0].note), answered)

    def action_rename(self) -> None:
        from tpudeck.launch import check_name
        from tpudeck.runs.meta import change_meta
        from tpudeck_tui.screens.dialogs import Prompt

        run = self._one()
        if run is None or not self.app.may_write():
            return

        def answered(text: str | None) -> None:
            if text is not None and text != run.name:
                self._each([run], lambda folder: change_meta(folder, name=text), f"now called {text}")

        self.app.push_screen(Prompt(f"Rename {run.name}", run.name, hint="The id stays.", attempt=check_name), answered)

    def action_priority(self) -> None:
        """Let runs that wait for a device go earlier, or later."""
        from tpudeck_tui.screens.dialogs import Prompt
        from tpudeck_tui.screens.forms import whole_number

        runs = [run for run in self.meant_runs() if run.status == "queued"]
        if not self.app.may_write():
            return
        if not runs:
            self.app.say("only a run that waits for its device has a place in a queue", severity="warning")
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self._change(runs, "has another place in the queue", priority=whole_number(text, "a priority"))

        self.app.push_screen(
            Prompt(
                f"Priority of {_named(runs)}", "0", hint="Higher goes first.",
                attempt=lambda text: whole_number(text, "a priority"),
            ),
            answered,
        )  # fmt: skip

    def action_archive(self) -> None:
        runs = self.meant_runs()
        if runs and self.app.may_write():
            archived = not runs[0].archived
            self._change(runs, "archived; A shows them" if archived else "back in the list", archived=archived)

    def _change(self, runs: list[RunSummary], done: str, **changes: object) -> None:
        from tpudeck.runs.meta import change_meta

        self._each(runs, lambda folder: change_meta(folder, **changes), done)

    def action_delete(self) -> None:
        from tpudeck.runs.meta import move_to_trash
        from tpudeck_tui.screens.dialogs import Ask

        runs = self.meant_runs()
        if not runs or not self.app.may_write():
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._each(
                    runs,
                    lambda folder: move_to_trash(self.app.home, folder),
                    "moved to the trash folder; T brings it back",
                )

        detail = f"Everything goes to {self.app.home.trash}, checkpoints too; T brings it back."
        self.app.push_screen(Ask(f"Delete {_named(runs)}?", detail, yes="Delete", no="Keep"), answered)


def _named(runs: list[RunSummary]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
