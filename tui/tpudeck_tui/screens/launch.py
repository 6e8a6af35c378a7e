"""The launch dialog: the last look before a run starts, with the command line that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tpudeck import launch
from tpudeck.chips import CHIPS
from tpudeck.config import Home
from tpudeck.doctor import refuse_what_cannot_start
from tpudeck.errors import InputError, TpudeckError
from tpudeck.presets import Experiment, resolve
from tpudeck.shards.task import ready as shards_ready
from tpudeck.tokenizer.stage import ready as tokenizer_ready
from tpudeck.units import format_duration
from tpudeck_tui import preflights
from tpudeck_tui.commands import Command
from tpudeck_tui.draft import Draft
from tpudeck_tui.screens.dialogs import Prompt
from tpudeck_tui.screens.forms import Field, Form, Values, fault_lines, options, whole_number

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["ForkDialog", "LaunchDialog"]

_DEVICES = ("auto", "cpu", "gpu", "tpu")
_LOOK_S = 0.3
_MORE = (
    Field("notify", "notify", hint="a name in config.toml, a command or a URL, told of trouble and the end", more=True),
    Field("priority", "priority", hint="0; higher goes first where the device is busy", more=True),
    Field("mirror", "mirror", hint="gs://…: keep a copy there while it runs", more=True),
    Field("tensorboard", "tensorboard", "no", choices=("no", "yes"), more=True),
)


class LaunchDialog(Form[Path]):
    """Answers with the folder of the run it started."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "preflight", "Compile for the TPU", id="launch.preflight"),
    ]
    START = "Launch"

    def __init__(self, draft: Draft, home: Home, *, heading: str = "", fields: tuple[Field, ...] = ()) -> None:
        experiment = draft.base.experiment
        name = experiment.name if draft.experiment is None else draft.experiment.name
        own = fields or (
            Field("name", "name", name),
            Field("tags", "tags", hint="separated by spaces"),
            Field("device", "device", experiment.device.kind, choices=_DEVICES),
            Field("changes", "changes", shlex.join(draft.overrides), hint="KEY=VALUE, separated by spaces"),
            *_MORE,
        )
        super().__init__(heading or f"Launch {draft.preset}", own)
        self._home = home
        self._draft = draft
        self._ready: dict[str, list[str]] = {}
        """What of an experiment the stages depend on → which of them are found ready."""
        self._compiling: tuple[Command, Experiment, str] | None = None
        self._chip = ""
        """The chip that was asked for."""
        self._refused = ""
        """Why the last preflight came to nothing."""

    def keys(self) -> str:
        more = "ctrl+o more · " if any(field.more for field in self._fields) else ""
        return f"enter launch · ctrl+t preflight · ctrl+y copy · {more}esc back"

    def on_mount(self) -> None:
        self._timer = self.set_interval(_LOOK_S, self._look_at_compiler, pause=True)
        super().on_mount()

    def on_unmount(self) -> None:
        if self._compiling is not None:
            self._compiling[0].stop()
            self.app.let_go(self._compiling[0])

    # What was typed.

    def overrides(self, values: Values) -> list[str]:
        """The changes, and the device where it is another one than the preset's."""
        try:
            changes = shlex.split(values["changes"])
        except ValueError as error:
            raise InputError(f"changes are KEY=VALUE as in a shell: {error}") from error
        device = values.get("device", "")
        same = device in {"", self._draft.base.experiment.device.kind}
        return changes + ([] if same else [f"device.kind={device}"])

    def experiment(self, values: Values) -> Experiment:
        return resolve(self._draft.preset, home=self._home, overrides=self.overrides(values)).experiment

    def command(self, values: Values) -> list[str]:
        name = "" if values["name"] == self._draft.base.experiment.name else values["name"]
        words = ["run", self._draft.preset]
        words += [word for change in self.overrides(values) for word in ("--set", change)]
        words += options(name=name)
        words += [word for tag in _words(values["tags"]) for word in ("--tag", tag)]
        words += [word for target in _words(values["notify"]) for word in ("--notify", target)]
        words += options(
            priority=_priority(values), mirror=values["mirror"], tensorboard=values["tensorboard"] == "yes"
        )
        return [*words, "--detach"]

    def answer(self, values: Values) -> Path:
        """Create the run and start it."""
        folder = self.create(values)
        launch.start(folder)
        return folder

    def create(self, values: Values) -> Path:
        return launch.create(
            self.experiment(values),
            home=self._home,
            name=values["name"] or None,
            preset=self._draft.preset,
            argv=["tpudeck", *self.command(values)],
            tags=_words(values["tags"]),
            priority=_priority(values),
            options=launch.Options(
                notify=tuple(_words(values["notify"])),
                tensorboard=values["tensorboard"] == "yes",
                mirror=values["mirror"],
            ),
        )

    # What was looked at.

    def checks(self, values: Values) -> Iterator[str]:
        experiment = self.experiment(values)
        changed = len(self.overrides(values))
        yield "✓ the experiment breaks no rule" + (f" ({changed} changed)" if changed else "")
        yield from _machine_lines(experiment)
        yield from self._artefact_lines(experiment)
        yield from self._preflight_lines(experiment)

    def _artefact_lines(self, experiment: Experiment) -> list[str]:
        """Which stages have nothing to do; to know it the text may have to be read, so the answer is kept."""
        about = experiment.model_dump_json(include={"corpus", "tokenizer", "shards", "model"})
        if about not in self._ready:
            self._ready[about] = [
                _stage_line(stage, ready, experiment, self._home)
                for stage, ready in (("tokenizer", tokenizer_ready), ("shards", shards_ready))
            ]
        return self._ready[about]

    # The compiler.

    def _preflight_lines(self, experiment: Experiment) -> list[str]:
        if self._compiling is not None:
            command, _, chip = self._compiling
            return [f"· preflight for {chip}: compiling …  {format_duration(command.elapsed_s)}"]
        if self._refused:
            return [f"✗ preflight: {line}" for line in self._refused.splitlines()]
        chip = self._chip or preflights.chip_for(experiment)
        report = preflights.remembered(self._home, experiment, chip)
        if report is not None:
            return [preflights.in_words(report)]
        return [f"· preflight for {chip}: not done yet"] if chip else []

    def action_preflight(self) -> None:
        """Compile a replica's step for the chip, aside; it is asked for where the experiment doesn't say."""
        try:
            experiment = self.experiment(self.values())
        except TpudeckError as error:
            self.app.tell(error)
            return
        if self._compiling is not None:
            return
        if chip := self._chip or preflights.chip_for(experiment):
            self._compile(experiment, chip)
            return
        known = " ".join(name for name, chip in CHIPS.items() if chip.tensorflow)
        self.app.push_screen(
            Prompt("Compile for which chip?", "v5e", hint=f"One of {known}."),
            lambda chip: self._compile(experiment, chip) if chip else None,
        )

    def _compile(self, experiment: Experiment, chip: str) -> None:
        words = ["preflight", self._draft.preset, "--chip", chip, "--json"]
        words += [word for change in self.overrides(self.values()) for word in ("--set", change)]
        command = Command(words, home=self._home, title=f"Preflight for {chip}")
        self._compiling, self._chip, self._refused = (command, experiment, chip), chip, ""
        self._timer.resume()
        self.look()

    def _look_at_compiler(self) -> None:
        if self._compiling is not None and not self._compiling[0].running():
            self._timer.pause()
            (command, experiment, chip), self._compiling = self._compiling, None
            try:
                report = command.document()
                preflights.remember(self._home, experiment, chip, report)
            except (TpudeckError, OSError) as error:
                self._refused = (command.problem() or error).show() if isinstance(error, TpudeckError) else str(error)
        self.look()


class ForkDialog(LaunchDialog):
    """A new run from an old one, anew or from one of its checkpoints."""

    def __init__(self, run: RunSummary, home: Home) -> None:
        draft = Draft.of(str(Path(run.path) / "experiment.toml"), home)
        super().__init__(
            draft,
            home,
            heading=f"Fork {run.name}",
            fields=(
                Field("name", "name", f"{run.name}-fork"),
                Field("checkpoint", "checkpoint", hint="empty: begin anew; best, last, or a step",
                      choices=("", "best", "last")),
                Field("changes", "changes", hint="KEY=VALUE, separated by spaces"),
            ),
        )  # fmt: skip
        self._run = run

    def command(self, values: Values) -> list[str]:
        words = ["runs", "fork", self._run.id]
        words += [word for change in self.overrides(values) for word in ("--set", change)]
        return [*words, *options(checkpoint=values["checkpoint"], name=values["name"]), "--detach"]

    def create(self, values: Values) -> Path:
        from tpudeck.fork import fork

        return fork(
            Path(self._run.path),
            home=self._home,
            changes=self.overrides(values),
            checkpoint=values["checkpoint"],
            name=values["name"] or None,
            argv=["tpudeck", *self.command(values)],
        )


def _stage_line(
    stage: str, ready: Callable[[Experiment, Home], Path | None], experiment: Experiment, home: Home
) -> str:
    try:
        there = ready(experiment, home) is not None
    except (TpudeckError, OSError) as error:
        return f"✗ {stage}: {error}"
    return f"✓ {stage}: found ready" if there else f"· {stage}: made first"


def _machine_lines(experiment: Experiment) -> list[str]:
    try:
        refuse_what_cannot_start(experiment)
    except TpudeckError as error:
        return fault_lines(error)
    return ["✓ this machine can start it"]


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


def _priority(values: Values) -> int:
    return whole_number(values["priority"] or "0", "a priority")
