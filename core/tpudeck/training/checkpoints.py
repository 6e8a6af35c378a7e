"""Writing checkpoints, and putting them back: everything a run needs to go on exactly where it was.

A checkpoint is written in a folder aside, its manifest last, and then renamed: it is there whole, or not at all. When
it is read everything is verified; where something is wrong the one before is taken. Nothing but the step number is
needed to go on with the data, because batches, masks and dropout follow from it.

What is in a checkpoint is described in :mod:`tpudeck.runs.checkpoints`.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpudeck.errors import ArtefactError, TrainingDivergedError
from tpudeck.runs.checkpoints import (
    FORMAT_VERSION,
    MANIFEST,
    OPTIMIZER,
    WEIGHTS,
    Checkpoint,
    Checkpoints,
    checksum,
    read_manifest,
)
from tpudeck.runs.events import plain
from tpudeck.storage import write_json

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["CheckpointWriter", "assign"]

Arrays = dict[str, npt.NDArray[Any]]


class CheckpointWriter(Checkpoints):
    """The checkpoints of a run that is being trained."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        super().__init__(folder)
        self._keep = keep

    def save(
        self, weights: Mapping[str, tf.Variable], moments: Mapping[str, tf.Variable], **manifest: Any
    ) -> Checkpoint:
        """Write a checkpoint and delete those that need not be kept; ``manifest`` holds the fields but the files.

        Raises :class:`TrainingDivergedError`, and writes nothing, where a weight isn't finite. Where writing fails,
        the room that the part took is given back.
        """
        values = {WEIGHTS: _values(weights), OPTIMIZER: _values(moments)}
        _require_finite(values[WEIGHTS], manifest["step"])
        self.folder.mkdir(exist_ok=True)
        self._remove_unfinished()
        final = self.folder / f"step-{manifest['step']:08d}"
        aside = self.folder / f".{final.name}"
        try:
            _write(aside, values, manifest)
        except BaseException:
            self._remove_unfinished()
            raise
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
        _sync(self.folder)
        self._remove_old(manifest.get("best_step"))
        return read_manifest(final)

    def _remove_unfinished(self) -> None:
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


def _values(variables: Mapping[str, tf.Variable]) -> Arrays:
    return {name: np.ascontiguousarray(variable.numpy()) for name, variable in variables.items()}


def _require_finite(weights: Arrays, step: int) -> None:
    for name, value in weights.items():
        if not np.isfinite(value).all():
            message = f"the weight {name} is no longer finite after step {step}; no checkpoint was written"
            raise TrainingDivergedError(message, step=step)


def _write(folder: Path, values: Mapping[str, Arrays], manifest: Mapping[str, Any]) -> None:
    folder.mkdir()
    for name, arrays in values.items():
        _save(arrays, folder / name)
    files = {name: {"size_bytes": (folder / name).stat().st_size, "crc32c": checksum(folder / name)} for name in values}
    write_json(folder / MANIFEST, plain({"format_version": FORMAT_VERSION, **manifest, "files": files}))


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
