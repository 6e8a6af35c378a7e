"""The folder of a new run: everything that it depends on, written down, once nothing speaks against it."""

from __future__ import annotations

import contextlib
import getpass
import platform
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.launch.options import Options, write_options
from tpudeck.runs import locks
from tpudeck.runs.events import FORMAT_VERSION
from tpudeck.runs.meta import checked_tags
from tpudeck.runs.processes import host_name
from tpudeck.storage import is_bucket, write_atomic, write_json

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.runs.checkpoints import Checkpoint

__all__ = ["Origin", "check_name", "create"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PACKAGES = ("tpudeck", "tensorflow", "tensorflow-tpu", "tf-keras", "transformers", "tokenizers", "numpy", "libtpu")


@dataclass(frozen=True)
class Origin:
    """The run that a new one comes from, and the checkpoint it goes on from; none: it begins at the beginning."""

    run: str
    checkpoint: Checkpoint | None = None

    @property
    def step(self) -> int:
        return self.checkpoint.step if self.checkpoint else 0

    def hand_over(self, folder: Path) -> None:
        """Give the new run what it begins with."""
        from tpudeck.runs.checkpoints import copy_checkpoint

        if self.checkpoint is not None:
            copy_checkpoint(self.checkpoint, folder)


def create(
    experiment: Experiment,
    *,
    home: Home,
    name: str | None = None,
    preset: str = "",
    argv: Sequence[str] = (),
    tags: Sequence[str] = (),
    priority: int = 0,
    options: Options | None = None,
    forked_from: Origin | None = None,
) -> Path:
    """Write a new run folder, whole or not at all; nothing is started."""
    from tpudeck.alerts import check_target
    from tpudeck.doctor import refuse_what_cannot_start
    from tpudeck.presets import to_toml

    for target in options.notify if options else ():
        check_target(target, home)
    if options and options.mirror:
        _check_store(options.mirror)
    _check_sources(experiment)
    refuse_what_cannot_start(experiment)
    locks.machine_folder()
    name = check_name(experiment.name if name is None else name)
    tags = checked_tags(tags)
    now = time.time()
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{name}-{secrets.token_hex(2)}"
    about: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "id": run_id,
        "name": name,
        "preset": preset,
        "created": now,
    }
    aside = home.runs / f".new-{run_id}"
    try:
        aside.mkdir(parents=True)
        (aside / "requests").mkdir()
        if forked_from is not None:
            about["forked_from"] = {"run": forked_from.run, "step": forked_from.step}
            forked_from.hand_over(aside)
        write_json(aside / "run.json", about | _circumstances(experiment, argv))
        write_json(aside / "meta.json", {"name": name, "tags": tags, "priority": priority})
        write_options(aside, options or Options())
        write_atomic(aside / "experiment.toml", to_toml(_with_absolute_paths(experiment)).encode())
        return aside.rename(home.runs / run_id)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise InputError(
            f"a run needs a folder that can be written, and {home.runs} cannot be: {error.strerror}",
            hint="TPUDECK_HOME names another place",
        ) from error


def check_name(name: str) -> str:
    """A name that a run may have."""
    if not _NAME.fullmatch(name):
        raise InputError(f"a run's name is letters, digits, dot, dash and underscore, at most 64; got {name!r}")
    return name


def _check_store(store: str) -> None:
    """Raise for a store that is none, or that this user may not look into; one that is out of reach may come back."""
    if not is_bucket(store):
        raise InputError(f"a run is mirrored to gs://BUCKET/PREFIX, got {store!r}")
    from tpudeck.storage import bucket

    with contextlib.suppress(RetryLaterError):
        bucket.probe(store)


def _check_sources(experiment: Experiment) -> None:
    """Raise for what a run could not read: text, tokenizer, shards, weights. What is far away is left to the run."""
    from tpudeck import pretrained
    from tpudeck.corpus.hub import split_id
    from tpudeck.shards import open_set
    from tpudeck.tokenizer import existing

    tokenizer, shards = experiment.tokenizer.source, experiment.shards.source
    if tokenizer.startswith("hub:"):
        split_id(tokenizer)
    elif tokenizer and not is_bucket(tokenizer):
        existing.adopt(existing.fetch(tokenizer, ""), experiment.objective, name=tokenizer)
    if not shards:
        _check_corpus(experiment)
    elif not is_bucket(shards):
        open_set(shards).require_length(experiment.shards.sequence_length)
    if not experiment.model.weights.startswith("hub:"):
        pretrained.fitting(experiment)


def _check_corpus(experiment: Experiment) -> None:
    """Read the beginning of local text, which says why where there is none, or no such column."""
    from tpudeck.corpus import open_corpus

    documents = open_corpus(experiment.corpus, "train")
    source = experiment.corpus.source
    if source != "builtin" and not source.startswith("hub:") and not is_bucket(source):
        next(iter(documents))


def _device_key(experiment: Experiment) -> str:
    """The name of the device in lock files: two runs with the same one wait for each other."""
    from tpudeck.devices.inventory import find_chips

    kind, name = experiment.device.kind, experiment.device.name
    if kind == "auto":
        kind = "tpu" if find_chips() else "gpu" if Path("/dev/nvidia0").exists() else "cpu"
    if name in {"", "local"}:
        return kind
    return f"{kind}-{re.sub(r'[^A-Za-z0-9.-]+', '_', name)}"


def _circumstances(experiment: Experiment, argv: Sequence[str]) -> dict[str, Any]:
    """By whom, where, with what and on what a run was launched."""
    return {
        "argv": _without_secrets(argv),
        "host": host_name(),
        "user": getpass.getuser(),
        "device": experiment.device.kind,
        "device_key": _device_key(experiment),
        "versions": _versions(),
        "git": _git(),
    }


def _without_secrets(argv: Sequence[str]) -> list[str]:
    """The command line without web addresses, which may carry a key."""
    return [re.sub(r"(https?://)\S+", r"\1…", word) for word in argv]


def _with_absolute_paths(experiment: Experiment) -> Experiment:
    """The same experiment wherever it is run from."""

    def absolute(source: str) -> str:
        if source in {"", "builtin"} or source.startswith("hub:") or is_bucket(source):
            return source
        return str(Path(source).expanduser().absolute())

    sources = {"corpus": "source", "tokenizer": "source", "shards": "source", "model": "weights"}
    sections = {part: getattr(experiment, part) for part in sources}
    return experiment.model_copy(
        update={
            part: section.model_copy(update={sources[part]: absolute(getattr(section, sources[part]))})
            for part, section in sections.items()
        }
    )


def _versions() -> dict[str, str]:
    from tpudeck.doctor.surroundings import installed

    return {"python": platform.python_version()} | installed(_PACKAGES)


def _git() -> dict[str, Any] | None:
    """Commit and cleanness of the working folder's repository; none outside one."""

    def ask(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()

    try:
        return {"sha": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
