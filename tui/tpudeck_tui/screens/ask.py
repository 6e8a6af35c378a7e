"""Ask a run's model: fill the masks of a text, or go on with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck.presets import load_experiment
from tpudeck.units import format_duration
from tpudeck_tui.cells import pad, progress_bar, wrap
from tpudeck_tui.commands import Command
from tpudeck_tui.screens.base import shown
from tpudeck_tui.screens.dialogs import Dialog
from tpudeck_tui.widgets.pages import Pages, TextLine

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary
    from tpudeck_tui.app import Deck

__all__ = ["AskDialog"]

_LOOK_S = 0.2
_TOKEN_CELLS = 18
_SPACE = "␣"
_EXAMPLE = "The method returns a <mask> of strings."


@dataclass(frozen=True)
class Answer:
    """What a model made of a text."""

    text: str
    """Completed."""
    masks: tuple[tuple[tuple[str, float], ...], ...]
    """For every mask the likeliest tokens, each with its probability."""
    step: int

    @classmethod
    def of(cls, document: dict[str, Any]) -> Answer:
        """From what ``fill-mask`` and ``generate`` print as JSON."""
        sample = document["samples"][0]
        masks = (
            tuple((str(choice["token"]), float(choice["probability"])) for choice in mask)
            for mask in sample.get("answers", ())
        )
        return cls(str(sample.get("filled") or sample.get("generated")), tuple(masks), int(document["step"]))


class AskDialog(Dialog[None]):
    """A text goes in, the model's answer comes out; earlier answers stay below."""

    app: Deck
    DEFAULT_CSS = "AskDialog #answers { height: 12; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("pageup", "scroll(-5)", "Up", "ask.up", show=False),
        shown("pagedown", "scroll(5)", "Down", "ask.down", show=False),
    ]

    def __init__(self, run: RunSummary, home: Home) -> None:
        super().__init__()
        self._run, self._home = run, home
        experiment = load_experiment(Path(run.path) / "experiment.toml")
        self._causal = experiment.objective == "causal"
        self._example = next(iter(experiment.samples.texts), "Once upon a time" if self._causal else _EXAMPLE)
        self._command: Command | None = None
        self._answers: list[Answer] = []
        """The newest first."""
        self._problem: TpudeckError | None = None

    def heading(self) -> str:
        return f"Ask {self._run.name}"

    def body(self) -> Iterable[Widget]:
        entry = Input(self._example, id="text", select_on_focus=False)
        entry.cursor_blink = False
        yield entry
        yield Pages(("Answers",), id="answers")
        what = "how a text begins" if self._causal else "a text with <mask> in it"
        yield Static(f"{what} · enter ask · page up/down scroll · esc back", classes="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(Pages).styles.height = max(6, min(24, self.app.size.height - 13))
        self._timer = self.set_interval(_LOOK_S, self._look, pause=True)
        self._paint()

    def on_unmount(self) -> None:
        if self._command is not None:
            self._command.stop()
            self.app.let_go(self._command)

    @on(Input.Submitted)
    def _ask(self, event: Input.Submitted) -> None:
        """One question at a time."""
        if self._command is not None or not event.value.strip():
            return
        task = "generate" if self._causal else "fill-mask"
        self._problem = None
        self._command = Command(
            [task, self._run.path, "--json", "--", event.value], home=self._home, title=self.heading()
        )
        self._timer.resume()
        self._paint()

    def _look(self) -> None:
        command = self._command
        if command is not None and not command.running():
            self._timer.pause()
            self._command = None
            try:
                self._problem = command.problem()
                if self._problem is None:
                    self._answers.insert(0, Answer.of(command.document()))
            except TpudeckError as error:
                self._problem = error
        self._paint()

    def _paint(self) -> None:
        for pages in self.query(Pages):  # none while it is being taken down
            pages.fill({"Answers": self._lines})

    def action_scroll(self, lines: int) -> None:
        self.query_one(Pages).action_scroll_by(lines)

    def _lines(self, width: int) -> list[TextLine]:
        lines: list[TextLine] = []
        if self._command is not None:
            elapsed = format_duration(self._command.elapsed_s)
            lines.append([(f"the model is loaded, which takes a few seconds …  {elapsed}", "muted")])
        if self._problem is not None:
            lines += [[(line, "bad")] for line in wrap(self._problem.show(), width)]
        for answer in self._answers:
            lines += [*answer_lines(answer, width), []]
        return lines or [[("enter asks the best checkpoint.", "muted")]]


def answer_lines(answer: Answer, width: int) -> list[TextLine]:
    """The completed text, and for every mask the likeliest tokens with a bar each."""
    lines: list[TextLine] = [[(line, "title")] for line in wrap(answer.text, width)]
    for number, mask in enumerate(answer.masks, start=1):
        if len(answer.masks) > 1:
            lines.append([(f"mask {number}", "muted")])
        for token, share in mask:
            filled, rest = progress_bar(share, max(8, min(30, width - _TOKEN_CELLS - 12)))
            shown = pad(token.strip() or _SPACE, _TOKEN_CELLS)
            lines.append([(f"  {shown}", "bright"), (filled, "bar"), (rest, "bar-rest"), (f" {share:6.1%}", "")])
    lines.append([(f"step {answer.step:,}", "quiet")])
    return lines
