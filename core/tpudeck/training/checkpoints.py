"""Checkpoints: everything a run needs to go on exactly where it was.

::

    checkpoints/step-00001000/
        weights.safetensors     the weights, by name
        optimizer.safetensors   the moments, ``m/NAME`` and ``v/NAME``
        manifest.json           step, scores, what is not logged yet, environment, and size and checksum of both files

A checkpoint is written in a folder aside, its manifest last, and then renamed: it is there whole, or not at all. When
it is read everything is verified; where something is wrong the one before is taken. Nothing but the step number is
needed to go on with the data, because batches, masks and dropout follow from it.

The files hold plain arrays, so any program reads them, and nothing in them can run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import orjson

from tpudeck.errors import ArtefactError, TrainingDivergedError
from tpudeck.runs.events import plain
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Checkpoint", "Checkpoints", "assign"]

FORMAT_VERSION = 1
_WEIGHTS, _OPTIMIZER = "weights.safetensors", "optimizer.safetensors"

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as its manifest describes it."""

    folder: Path
    step: int
    score: Mapping[str, Any] | None = None
    """Of the evaluation at this step, where there was one."""
    best_step: int | None = None
    """The step with the lowest evaluation loss so far."""
    best_eval_loss: float | None = None
    unlogged: Mapping[str, Any] = field(default_factory=dict)
    """The losses and times since the last line of metrics."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(int(file["size_bytes"]) for file in self.files.values())

    def verify(self) -> None:
        """Raise :class:`ArtefactError` where a file differs from what the manifest says."""
        for name, expected in self.files.items():
            path = self.folder / name
            found = path.stat().st_size if path.exists() else None
            if found != expected["size_bytes"]:
                what = "is missing" if found is None else f"has {found} bytes instead of {expected['size_bytes']}"
                raise ArtefactError(f"{path} {what}")
            if _checksum(path) != expected["crc32c"]:
                raise ArtefactError(f"{path} does not match its checksum")

    def weights(self) -> Arrays:
        return _load(self.folder / _WEIGHTS)

    def optimizer(self) -> Arrays:
        return _load(self.folder / _OPTIMIZER)


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, *, keep: int = 1) -> None:
        self.folder = folder
        self._keep = keep

    def __iter__(self) -> Iterator[Checkpoint]:
        """All with a readable manifest, newest first."""
        for folder in self._folders():
            with contextlib.suppress(ArtefactError):
                yield _read_manifest(folder)

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step-[0-9]*"), reverse=True)

    def save(
        self, weights: Mapping[str, tf.Variable], moments: Mapping[str, tf.Variable], **manifest: Any
    ) -> Checkpoint:
        """Write a checkpoint and delete those that need not be kept; ``manifest`` holds the fields but the files.

        Raises :class:`TrainingDivergedError`, and writes nothing, where a weight isn't finite.
        """
        values = {_WEIGHTS: _values(weights), _OPTIMIZER: _values(moments)}
        _require_finite(values[_WEIGHTS], manifest["step"])
        self.folder.mkdir(exist_ok=True)
        self._remove_leftovers()
        name = f"step-{manifest['step']:08d}"
        aside = self.folder / f".{name}"
        aside.mkdir()
        for file, arrays in values.items():
            _save(arrays, aside / file)
        files = {
            file: {"size_bytes": (aside / file).stat().st_size, "crc32c": _checksum(aside / file)} for file in values
        }
        write_json(aside / "manifest.json", plain({"format_version": FORMAT_VERSION, **manifest, "files": files}))
        final = self.folder / name
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
        _sync(self.folder)
        self._remove_old(manifest.get("best_step"))
        return _read_manifest(final)

    def newest(self, rejected: Callable[[int, str], None] = lambda step, reason: None) -> Checkpoint | None:
        """The newest one that is whole; ``rejected`` is told of every other with the reason."""
        for folder in self._folders():
            try:
                checkpoint = _read_manifest(folder)
                checkpoint.verify()
            except (ArtefactError, OSError) as error:
                rejected(int(folder.name.removeprefix("step-")), str(error))
            else:
                return checkpoint
        return None

    def find(self, which: str) -> Checkpoint:
        """``best``, ``last`` or a step; :class:`ArtefactError` where there is none or it is damaged."""
        found = list(self)
        if not found:
            raise ArtefactError(f"{self.folder} holds no checkpoint", hint="the run has to get to its first one")
        if which == "last":
            wanted = found[0].step
        elif which == "best":
            best = found[0].best_step
            wanted = found[0].step if best is None else best
        else:
            wanted = int(which) if which.isdecimal() else -1
        chosen = next((checkpoint for checkpoint in found if checkpoint.step == wanted), None)
        if chosen is None:
            steps = ", ".join(str(checkpoint.step) for checkpoint in found)
            raise ArtefactError(f"a checkpoint is best, last or one of the steps {steps}, got {which!r}")
        chosen.verify()
        return chosen

    def _remove_leftovers(self) -> None:
        for path in self.folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _remove_old(self, best_step: int | None) -> None:
        for checkpoint in list(self)[self._keep :]:
            if checkpoint.step != best_step:
                shutil.rmtree(checkpoint.folder, ignore_errors=True)


def assign(variables: Mapping[str, tf.Variable], arrays: Arrays, *, source: Path) -> None:
    """Put saved values into variables; :class:`ArtefactError` where names or shapes don't fit."""
    missing, unknown = variables.keys() - arrays.keys(), arrays.keys() - variables.keys()
    if missing or unknown:
        name = min(missing or unknown)
        raise ArtefactError(
            f"{source} belongs to another model: {name} is {'missing' if missing else 'unknown'}",
            hint="the experiment of a run must not change once it has begun",
        )
    for name, variable in variables.items():
        if arrays[name].shape != tuple(variable.shape):
            raise ArtefactError(
                f"{source} belongs to another model: {name} is {arrays[name].shape}, not {tuple(variable.shape)}"
            )
        variable.assign(arrays[name])


def _read_manifest(folder: Path) -> Checkpoint:
    path = folder / "manifest.json"
    known = {"step", "score", "best_step", "best_eval_loss", "unlogged", "environment", "files"}
    try:
        data = read_json(path)
        return Checkpoint(folder, **{key: data[key] for key in known if key in data})
    except (OSError, orjson.JSONDecodeError, TypeError) as error:
        raise ArtefactError(f"{path} cannot be read: {error}") from error


def _values(variables: Mapping[str, tf.Variable]) -> Arrays:
    return {name: np.ascontiguousarray(variable.numpy()) for name, variable in variables.items()}


def _require_finite(weights: Arrays, step: int) -> None:
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise TrainingDivergedError(
                f"the weight {name} is no longer finite after step {step}; no checkpoint was written",
                hint="resume from the last checkpoint with a lower train.learning_rate, or set train.clip_norm",
            )


def _save(arrays: Arrays, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file(arrays, path)
    except SafetensorError as error:
        if "os error 28" in str(error):  # the library tells of a full disk in words only
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise
    path.chmod(0o644)  # the library writes files that only their owner may read
    _sync(path)


def _load(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise ArtefactError(f"{path} cannot be read: {error}") from error


def _checksum(path: Path) -> str:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            checksum = google_crc32c.extend(checksum, block)
    return f"{checksum:08x}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
