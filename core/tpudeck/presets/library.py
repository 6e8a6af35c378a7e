"""Presets as files: found by name, resolved through `extends`, changed by overrides, compared and written.

A preset is TOML. Values come, later ones winning, from the schema's defaults, the chain of `extends`, the file itself,
and the overrides of the command line or the form; :class:`Resolved` remembers which of them each value came from. All
that says how long a run or how large a batch is counts as one choice: setting one of the keys clears its siblings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

import tpudeck
from tpudeck.config import Home, read_toml
from tpudeck.errors import Fault, InputError, PresetError, did_you_mean
from tpudeck.presets.schema import NONE, Experiment
from tpudeck.presets.validation import experiment_from, takes_text
from tpudeck.storage import write_atomic

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Resolved",
    "copy_preset",
    "diff",
    "find",
    "flatten",
    "load_experiment",
    "merge",
    "overrides_as_data",
    "parse_override",
    "preset_files",
    "resolve",
    "save_experiment",
    "save_preset",
    "shipped_folder",
    "to_toml",
]

_SIBLINGS = (
    ("train.steps", "train.epochs", "train.duration"),
    ("train.global_batch_size", "train.replica_batch_size"),
)
"""Setting one of these clears the others, wherever they came from."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
    hint = did_you_mean(bare, files) or f"there are {', '.join(files) or 'none'}"
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
    for siblings in _SIBLINGS:
        if any(changed.get(path, NONE) != NONE for path in siblings):
            for path in siblings:
                _clear(merged, path)
    for path, value in changed.items():
        _set(merged, path, value)
    return merged


def parse_override(text: str) -> tuple[str, Any]:
    """``"train.steps=50"`` → a dotted key and its value: TOML where it is TOML, else the text as it stands.

    ``none`` sets back what may be none; where a field holds text, a bare number is text.
    """
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals or not all(part.isidentifier() for part in path.split(".")):
        raise InputError(f"an override is KEY=VALUE, got {text!r}", hint="for example --set train.steps=50")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return path, value
    return path, parsed if isinstance(parsed, str) or not takes_text(path) else value


@dataclass(frozen=True)
class Resolved:
    """A validated experiment, and where each of its values came from."""

    experiment: Experiment
    origins: Mapping[str, str]
    """Dotted key → ``default``, ``preset NAME`` or ``--set``."""
    chain: tuple[Path, ...]
    """The files it came from, the nearest first."""


def _read_chain(path: Path, home: Home) -> list[tuple[Path, dict[str, Any]]]:
    """A preset file and those it extends, the nearest first; what a base is called and described as stays with it."""
    chain: list[tuple[Path, dict[str, Any]]] = []
    while True:
        if any(path == seen for seen, _ in chain):
            names = " → ".join(seen.stem for seen, _ in chain)
            raise InputError(f"presets extend each other in a circle: {names} → {path.stem}")
        data = read_toml(path)
        parent = data.pop("extends", None)
        if chain:
            data.pop("name", None)
        chain.append((path, data))
        if parent is None:
            return chain
        if not isinstance(parent, str):
            raise PresetError([Fault("extends", "must be the name of one preset", repr(parent))], source=str(path))
        path = _find_base(parent, path, home)


def _find_base(name: str, file: Path, home: Home) -> Path:
    """The preset that `file` extends: beside it, else by name; its own name means the shipped one."""
    candidates = (file.parent / f"{name}.toml", shipped_folder() / f"{name}.toml")
    if name == file.stem and candidates[1].is_file():
        return candidates[1]
    if candidates[0].is_file():
        return candidates[0]
    try:
        return find(name, home)
    except InputError as error:
        raise InputError(f"{file.stem} extends {name!r}: {error.message}", hint=error.hint) from error


def resolve(
    name: str, *, home: Home, overrides: Sequence[str] = (), changes: Mapping[str, Any] | None = None
) -> Resolved:
    """Load a preset by name or path, apply overrides (``KEY=VALUE``) and changes (nested), and validate.

    Raises :class:`PresetError` with every fault, :class:`InputError` where there is no such preset.
    """
    chain = _read_chain(find(name, home), home)
    layers = [(f"preset {path.stem}", layer) for path, layer in reversed(chain)]
    layers.append(("--set", merge(changes or {}, overrides_as_data(overrides))))
    data: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        data = merge(data, layer)
        origins |= {path: origin for path, _ in flatten(layer)}
    data.setdefault("name", re.sub(r"[^A-Za-z0-9._-]+", "-", chain[0][0].stem).lstrip("-._")[:64] or "preset")
    experiment = experiment_from(data, source=chain[0][0].stem)
    present = {path for path, _ in flatten(data)}
    return Resolved(
        experiment=experiment,
        origins={
            path: origins.get(path, "default") if path in present else "default"
            for path, _ in flatten(experiment.model_dump())
        },
        chain=tuple(path for path, _ in chain),
    )


def overrides_as_data(overrides: Sequence[str]) -> dict[str, Any]:
    """Overrides as nested data; of two for the same key, or for siblings, the later one stands."""
    given: dict[str, Any] = {}
    for override in overrides:
        path, value = parse_override(override)
        change: dict[str, Any] = {}
        _set(change, path, value)
        given = merge(given, change)
    return given


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


def copy_preset(source: str, name: str, *, home: Home) -> Path:
    """Copy a preset's file, comments and all, into the user's presets under a new name."""
    text = find(source, home).read_bytes()
    return _write_own(name, text, home)


def save_preset(name: str, *, extends: str, changes: Mapping[str, Any], home: Home, comment: str = "") -> Path:
    """Write a short preset of the user's own: what it extends, and what it changes.

    It is validated first: raises :class:`PresetError` and writes nothing where the result breaks rules.
    """
    resolve(extends, home=home, changes=changes)
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    body = tomli_w.dumps({"extends": extends.removeprefix("preset:")} | dict(changes))
    return _write_own(name, (head + body).encode(), home)


def _write_own(name: str, text: bytes, home: Home) -> Path:
    if not _NAME.fullmatch(name) or name.endswith(".toml"):  # which would be read as a path
        raise InputError(f"a preset's name is letters, digits, dot, dash and underscore, without .toml; got {name!r}")
    path = home.presets / f"{name}.toml"
    if path.exists():
        raise InputError(f"there is a preset {name} already: {path}", hint="choose another name, or delete it first")
    try:
        home.presets.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="TPUDECK_HOME names another folder"
        ) from error
    return path
