"""What can go wrong, and what the process that meets it should exit with.

An error says three things: the rule that was broken together with what arrived (the message), and what to do about it
(the hint). It is raised once, and caught once: the command line turns it into text and an exit code, the console into
a notice, a child process into a result file that its parent reads back with :func:`from_dict`.

::

    TpudeckError                    exit 1
    ├── InputError                  exit 2   what was given cannot work; nothing was started, nothing was written
    │   ├── PresetError                      an experiment breaks rules: every fault, each with its path
    │   ├── CorpusError                      text that is missing, empty, too small, or not text
    │   ├── ArtefactError                    a tokenizer, shard, checkpoint or run that is damaged or belongs elsewhere
    │   └── DiskFullError                    there is no room for what was to be written; what was there is unharmed
    ├── WorkError                   exit 1   the work was started and failed
    │   └── TrainingDivergedError            a loss or a weight is no longer finite
    ├── RetryLaterError             exit 3   a device, a lock or a service is busy: the same command may work later
    └── InterruptedRunError         exit 130 somebody asked to stop; what was done so far is kept
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

__all__ = [
    "ArtefactError",
    "CorpusError",
    "DiskFullError",
    "Fault",
    "InputError",
    "InterruptedRunError",
    "PresetError",
    "RetryLaterError",
    "TpudeckError",
    "TrainingDivergedError",
    "WorkError",
    "did_you_mean",
    "disk_is_full",
    "from_dict",
    "in_one_line",
    "of_system",
]


class TpudeckError(Exception):
    """Something a user should be told in plain words, with an exit code."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        # What is told is also written down as JSON, and names of files may hold bytes that are no Unicode.
        self.message = message.encode(errors="backslashreplace").decode()
        self.hint = hint.encode(errors="backslashreplace").decode()
        super().__init__(self.message)

    def show(self) -> str:
        """The error as the lines a terminal prints."""
        return f"{self.message}\n  → {self.hint}" if self.hint else self.message

    def to_dict(self) -> dict[str, object]:
        """Plain data for a result file; :func:`from_dict` is the way back."""
        return {"type": type(self).__name__, "message": self.message, "hint": self.hint}


class InputError(TpudeckError):
    """What was given cannot work."""

    exit_code = 2


@dataclass(frozen=True)
class Fault:
    """One broken rule in an experiment: where, which rule, what arrived, and what to do."""

    path: str
    rule: str
    got: str = ""
    hint: str = ""

    def show(self) -> str:
        got = f", got {self.got}" if self.got else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.path}: {self.rule}{got}{hint}"


class PresetError(InputError):
    """An experiment breaks one or more rules; all of them are told at once."""

    def __init__(self, faults: Sequence[Fault], *, source: str = "", hint: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        head = f"{source}: {count}" if source else count
        super().__init__("\n".join([head, *(f"  {fault.show()}" for fault in self.faults)]), hint=hint)

    def to_dict(self) -> dict[str, object]:
        return super().to_dict() | {"faults": [asdict(fault) for fault in self.faults], "source": self.source}


class CorpusError(InputError):
    """Text that is missing, empty, too small, or not text."""


class ArtefactError(InputError):
    """A tokenizer, shard, checkpoint or run that is damaged, or belongs to something else."""


class DiskFullError(InputError):
    """There is no room for what was to be written; what was there before is unharmed."""


def disk_is_full(error: OSError) -> bool:
    """Whether a write failed because there is no room, or none left for this user."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


_WRONG_PATH = frozenset(
    {
        errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR,
        errno.EPERM, errno.EROFS,
    }
)  # fmt: skip


def of_system(error: OSError, *, where: str) -> TpudeckError:
    """What the system refused, for a person; `where` is what it was about where no path is named."""
    said = error.strerror or str(error) or type(error).__name__
    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    if disk_is_full(error):
        return DiskFullError(f"the disk is full: no room for {path or where}", hint="make room and start again")
    told = f"{path}: {said}" if path else said
    return InputError(told) if path and error.errno in _WRONG_PATH else WorkError(told)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest of the words that are known; empty where none is near."""
    import difflib  # which the commands that scripts poll need not pay for

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else ""


class WorkError(TpudeckError):
    """The work was started and failed."""


class TrainingDivergedError(WorkError):
    """A loss or a weight is no longer finite."""

    def __init__(self, message: str, *, hint: str = "", step: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.step = step
        """The first step of which that is known; none in another process."""


class RetryLaterError(TpudeckError):
    """A device, a lock or a service is busy: the same command may work later."""

    exit_code = 3


class InterruptedRunError(TpudeckError):
    """Somebody asked to stop; what was done so far is kept."""

    exit_code = 130


_CLASSES: dict[str, type[TpudeckError]] = {
    cls.__name__: cls
    for cls in (
        TpudeckError,
        InputError,
        CorpusError,
        ArtefactError,
        DiskFullError,
        WorkError,
        TrainingDivergedError,
        RetryLaterError,
        InterruptedRunError,
    )
}


def from_dict(data: Mapping[str, object]) -> TpudeckError:
    """The error that :meth:`TpudeckError.to_dict` wrote down in another process."""
    hint = str(data.get("hint", ""))
    faults = data.get("faults")
    if isinstance(faults, list):
        return PresetError([Fault(**fault) for fault in faults], source=str(data.get("source", "")), hint=hint)
    cls = _CLASSES.get(str(data.get("type")), WorkError)
    return cls(str(data.get("message", "unknown error")), hint=hint)


def in_one_line(error: BaseException) -> str:
    """What an exception says, for a person: its kind and the line that tells.

    TensorFlow begins what went wrong in a traced function with "in user code:" and a traceback; the line that tells is
    the last one. Elsewhere it is the first.
    """
    if isinstance(error, TpudeckError):
        return error.message.splitlines()[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0] == "in user code:":
        return lines[-1]
    return ": ".join([type(error).__name__, *lines[:1]])
