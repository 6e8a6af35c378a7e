"""An experiment being edited: a preset, the values that were changed, and what is wrong with the result.

Pure: no terminal, no files but the preset's own. Texts are read as ``--set KEY=VALUE`` reads them, so the command line
that does the same is one join away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from tpudeck.config import Home
from tpudeck.errors import Fault, InputError
from tpudeck.presets import Experiment, Resolved, check, flatten, merge, resolve
from tpudeck.presets.library import overrides_as_data
from tpudeck.presets.validation import takes_text

__all__ = ["Draft", "Value", "about", "choices", "show_value"]


_DESCRIPTIONS = frozenset({"summary", "needs", "takes"})
"""What a preset says about itself comes last."""


@dataclass(frozen=True)
class Value:
    """One line of the form."""

    path: str
    text: str
    origin: str
    """``default``, ``preset NAME``, or ``changed``."""
    fault: str = ""


@dataclass(frozen=True)
class Draft:
    """A preset with changes: immutable, so that every edit is a new one and undo is the one before."""

    preset: str
    base: Resolved
    changes: Mapping[str, str] = field(default_factory=dict)
    """Dotted key → text as typed."""

    @classmethod
    def of(cls, preset: str, home: Home) -> Draft:
        """Raises :class:`InputError` where the preset itself cannot be read."""
        return cls(preset, resolve(preset, home=home))

    def with_change(self, path: str, text: str) -> Draft:
        """The draft with one more value changed; a value like the preset's own is no change."""
        changes = {key: value for key, value in self.changes.items() if key != path}
        if text != self._base_texts[path]:
            changes[path] = text
        return Draft(self.preset, self.base, changes)

    @property
    def overrides(self) -> list[str]:
        """The changes as the command line takes them."""
        return [f"{path}={text or ('none' if not takes_text(path) else '')}" for path, text in self.changes.items()]

    @cached_property
    def data(self) -> dict[str, Any]:
        """The experiment as plain data, changes and all, valid or not."""
        return merge(self.base.experiment.model_dump(), overrides_as_data(self.overrides))

    @cached_property
    def _checked(self) -> tuple[Experiment | None, list[Fault]]:
        try:
            return check(self.data)
        except InputError as error:
            return None, [Fault("", error.message, hint=error.hint)]

    @property
    def experiment(self) -> Experiment | None:
        """The experiment, where there is nothing wrong with it."""
        return self._checked[0]

    @property
    def faults(self) -> list[Fault]:
        return self._checked[1]

    @cached_property
    def _base_texts(self) -> dict[str, str]:
        return {path: show_value(value) for path, value in flatten(self.base.experiment.model_dump())}

    @cached_property
    def values(self) -> list[Value]:
        """Every value, in the order of the schema, each with its fault."""
        now = {path: show_value(value) for path, value in flatten(self.data)}
        faults = {fault.path: fault for fault in reversed(self.faults)}
        found = []
        for path, before in self._base_texts.items():
            text = self.changes.get(path, now.get(path, ""))
            origin = "changed" if text != before else self.base.origins.get(path, "default")
            found.append(Value(path, text, origin, _fault_text(faults.pop(path, None))))
        return sorted(found, key=lambda value: value.path in _DESCRIPTIONS)

    @property
    def other_faults(self) -> list[Fault]:
        """Faults that belong to a section or to a key that is not in the form."""
        paths = set(self._base_texts)
        return [fault for fault in self.faults if fault.path not in paths]

    def nested_changes(self) -> dict[str, Any]:
        """The changes as the nested data of a preset file."""
        return overrides_as_data(self.overrides)

    @property
    def file(self) -> Path:
        return self.base.chain[0]


def _fault_text(fault: Fault | None) -> str:
    if fault is None:
        return ""
    return f"{fault.rule}{f' ({fault.hint})' if fault.hint else ''}"


def show_value(value: Any) -> str:
    """A value as one would type it; none is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        import json

        return json.dumps(list(value), ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _field(path: str) -> Any:
    section, _, name = path.rpartition(".")
    model: Any = Experiment.model_fields[section].annotation if section else Experiment
    return model.model_fields[name]


def about(path: str) -> str:
    """What the schema says about a value."""
    return " ".join((_field(path).description or "").replace("`", "").split())


def choices(path: str) -> list[str]:
    """The words a value may be, where there is a fixed list of them."""
    annotation = _field(path).annotation
    words: list[str] = []
    for part in (annotation, *get_args(annotation)):
        words += [word for word in get_args(part) if isinstance(word, str)]
        words += ["true", "false"] if part is bool else []
    return list(dict.fromkeys(words))
