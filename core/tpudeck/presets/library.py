"""Presets as files: found by name, resolved through `extends`, changed by overrides, compared and written.

A preset is TOML. Values come, later ones winning, from the schema's defaults, the chain of `extends`, the file itself,
and the overrides of the command line or the form; :class:`Resolved` remembers which of them each value came from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

import tpudeck
from tpudeck.config import Home, read_toml
from tpudeck.errors import Fault, InputError, PresetError
from tpudeck.presets.schema import Experiment, check, experiment_from
from tpudeck.storage import write_atomic

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Resolved",
    "diff",
    "find",
    "flatten",
    "load_experiment",
    "merge",
    "parse_override",
    "preset_files",
    "resolve",
    "save_experiment",
    "shipped_folder",
    "to_toml",
]

_SIBLINGS = (
    ("train.steps", "train.epochs", "train.duration"),
    ("train.global_batch_size", "train.replica_batch_size"),
)
"""Setting one of these clears the others, wherever they came from."""


def shipped_folder() -> Path:
    """Where the presets that come with tpudeck lie: in the wheel, or beside the source."""
    package = Path(tpudeck.__file__).parent
    packed = package / "_presets"
    return packed if packed.is_dir() else package.parents[1] / "presets"


def preset_files(home: Home) -> dict[str, Path]:
    """Every preset by name; the user's own hide shipped ones of the same name."""
    return {path.stem: path for folder in (shipped_folder(), home.presets) for path in sorted(folder.glob("*.toml"))}


def find(name: str, home: Home) -> Path:
    """The file of a preset given by name (``preset:NAME`` and ``NAME``), or by a path that ends in ``.toml``."""
    bare = name.removeprefix("preset:")
    if bare.endswith(".toml"):
        path = Path(bare).expanduser()
        if path.is_file():
            return path
        raise InputError(f"there is no preset file {bare}")
    files = preset_files(home)
    if bare in files:
        return files[bare]
    import difflib

    close = difflib.get_close_matches(bare, files, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(files) or 'none'}"
    raise InputError(f"there is no preset named {bare!r}", hint=f"{hint} (tpudeck presets list)")


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables → dotted keys and their values."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _set(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        child = data.setdefault(parent, {})
        if not isinstance(child, dict):
            raise InputError(f"{path}: {parent} is a value, not a section")
        data = child
    data[last] = value


def _clear(data: dict[str, Any], path: str) -> None:
    *parents, last = path.split(".")
    section: Any = data
    for parent in parents:
        section = section.get(parent) if isinstance(section, dict) else None
    if isinstance(section, dict):
        section.pop(last, None)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it, key by key; setting one of several siblings clears the others."""
    merged: dict[str, Any] = {}
    for path, value in flatten(base):
        _set(merged, path, value)
    changed = dict(flatten(changes))
    for path in changed:
        for siblings in _SIBLINGS:
            if path in siblings:
                for other in siblings:
                    if other not in changed:
                        _clear(merged, other)
    for path, value in changed.items():
        _set(merged, path, value)
    return merged


def parse_override(text: str) -> tuple[str, Any]:
    """``"train.steps=50"`` → a dotted key and its value: TOML where it is TOML, else the text as it stands."""
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals or not all(part.isidentifier() for part in path.split(".")):
        raise InputError(f"an override is KEY=VALUE, got {text!r}", hint="for example --set train.steps=50")
    try:
        return path, tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return path, value


@dataclass(frozen=True)
class Resolved:
    """A validated experiment, and where each of its values came from."""

    experiment: Experiment
    origins: Mapping[str, str]
    """Dotted key → ``default``, ``preset NAME`` or ``--set``."""
    chain: tuple[Path, ...]
    """The files it came from, the nearest first."""


def _read_chain(path: Path, home: Home) -> list[tuple[Path, dict[str, Any]]]:
    chain: list[tuple[Path, dict[str, Any]]] = []
    while True:
        if any(path == seen for seen, _ in chain):
            names = " → ".join(seen.stem for seen, _ in chain)
            raise InputError(f"presets extend each other in a circle: {names} → {path.stem}")
        data = read_toml(path)
        parent = data.pop("extends", None)
        chain.append((path, data))
        if parent is None:
            return chain
        if not isinstance(parent, str):
            raise PresetError([Fault("extends", "is the name of one preset", repr(parent))], source=str(path))
        beside = path.parent / f"{parent}.toml"
        path = beside if beside.is_file() and beside != path else find(parent, home)


def resolve(
    name: str, *, home: Home, overrides: Sequence[str] = (), changes: Mapping[str, Any] | None = None
) -> Resolved:
    """Load a preset by name or path, apply overrides (``KEY=VALUE``) and changes (nested), and validate.

    Raises :class:`PresetError` with every fault, :class:`InputError` where there is no such preset.
    """
    chain = _read_chain(find(name, home), home)
    data: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers = [(f"preset {path.stem}", layer) for path, layer in reversed(chain)]
    given: dict[str, Any] = {}
    for override in overrides:
        key, value = parse_override(override)
        _set(given, key, value)
    layers += [("--set", merge(changes or {}, given))]
    for origin, layer in layers:
        data = merge(data, layer)
        origins |= {path: origin for path, _ in flatten(layer)}
    data.setdefault("name", chain[0][0].stem)
    experiment = experiment_from(data, source=chain[0][0].stem)
    complete = dict(flatten(experiment.model_dump()))
    present = dict(flatten(data))
    return Resolved(
        experiment=experiment,
        origins={path: origins.get(path, "default") if path in present else "default" for path in complete},
        chain=tuple(path for path, _ in chain),
    )


def diff(left: Experiment, right: Experiment) -> dict[str, tuple[Any, Any]]:
    """The values in which two experiments differ, by dotted key."""
    one, two = dict(flatten(left.model_dump())), dict(flatten(right.model_dump()))
    return {path: (one.get(path), two.get(path)) for path in one | two if one.get(path) != two.get(path)}


def to_toml(experiment: Experiment) -> str:
    """The complete experiment as TOML. What is none is left out: TOML has no null, and none is the default."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True), multiline_strings=False)


def save_experiment(experiment: Experiment, path: Path) -> None:
    """Write the complete experiment; :func:`load_experiment` reads the same one back."""
    write_atomic(path, to_toml(experiment).encode())


def load_experiment(path: Path) -> Experiment:
    """Read a complete experiment (``experiment.toml`` of a run, or any preset file without `extends`)."""
    return experiment_from(read_toml(path), source=str(path))


def faults_in(data: Mapping[str, Any]) -> list[Fault]:
    """Every fault in plain data, for forms."""
    return check(data)[1]
