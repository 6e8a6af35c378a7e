"""The checkpoints of a run, as their manifests describe them; read without TensorFlow.

::

    checkpoints/step-00001000/
        weights.safetensors     the weights, by name
        optimizer.safetensors   the moments, ``m/NAME`` and ``v/NAME``
        manifest.json           step, scores, what is not logged yet, environment, and size and checksum of both files

The files hold plain arrays, so any program reads them, and nothing in them can run. :mod:`tpudeck.training` writes
them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from tpudeck.errors import ArtefactError
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    import numpy.typing as npt

    Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "OPTIMIZER",
    "WEIGHTS",
    "Checkpoint",
    "Checkpoints",
    "checksum",
    "copy_checkpoint",
    "read_manifest",
]

FORMAT_VERSION = 1
WEIGHTS, OPTIMIZER, MANIFEST = "weights.safetensors", "optimizer.safetensors", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as its manifest describes it."""

    folder: Path
    step: int
    tokenizer_hash: str = ""
    """Of the tokenizer whose tokens the weights are about."""
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
            if checksum(path) != expected["crc32c"]:
                raise ArtefactError(f"{path} does not match its checksum")

    def weights(self) -> Arrays:
        return _load(self.folder / WEIGHTS)

    def optimizer(self) -> Arrays:
        return _load(self.folder / OPTIMIZER)


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Checkpoint]:
        """All with a readable manifest, newest first."""
        for folder in self._folders():
            with contextlib.suppress(ArtefactError):
                yield read_manifest(folder)

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step-[0-9]*"), reverse=True)

    def newest(self, rejected: Callable[[int, str], None] = lambda step, reason: None) -> Checkpoint | None:
        """The newest one that is whole; ``rejected`` is told of every other with the reason."""
        for folder in self._folders():
            try:
                checkpoint = read_manifest(folder)
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


def copy_checkpoint(checkpoint: Checkpoint, run: Path) -> None:
    """Make a checkpoint of one run the first of another, which then begins at its step.

    What it says about the other checkpoints and the unfinished line of its run stays behind.
    """
    folder = run / "checkpoints" / checkpoint.folder.name
    folder.mkdir(parents=True)
    for name in checkpoint.files:
        shutil.copyfile(checkpoint.folder / name, folder / name)
    data = read_json(checkpoint.folder / MANIFEST)
    score = data.get("score")
    best = {"best_step": checkpoint.step, "best_eval_loss": score["loss"]} if score else {}
    kept = {key: value for key, value in data.items() if key not in {"best_step", "best_eval_loss", "unlogged"}}
    write_json(folder / MANIFEST, kept | best)


def read_manifest(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, unverified; :class:`ArtefactError` where its manifest cannot be read."""
    path = folder / MANIFEST
    known = {item.name for item in fields(Checkpoint)} - {"folder"}
    try:
        data = read_json(path)
        return Checkpoint(folder, **{key: data[key] for key in known if key in data})
    except (OSError, orjson.JSONDecodeError, TypeError) as error:
        raise ArtefactError(f"{path} cannot be read: {error}") from error


def checksum(path: Path) -> str:
    """CRC-32C, which the processor computes as fast as it reads."""
    import google_crc32c

    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            value = google_crc32c.extend(value, block)
    return f"{value:08x}"


def _load(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise ArtefactError(f"{path} cannot be read: {error}") from error
