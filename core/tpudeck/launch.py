"""Start, stop and resume runs, from any front end.

A launcher writes the run folder, takes the lock of the run, and hands it to a supervisor that it starts in a session of
its own. So of two launchers of one folder the second is told at once, and when :func:`start` returns the run has an
owner; whatever then happens to the launcher, its terminal or its connection is nothing to the run.
"""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.runs import locks
from tpudeck.runs.events import FORMAT_VERSION
from tpudeck.runs.meta import checked_tags
from tpudeck.runs.processes import ProcessIdentity, host_name
from tpudeck.runs.summary import RunFiles
from tpudeck.storage import is_bucket, read_json, write_atomic, write_json

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.runs.checkpoints import Checkpoint

__all__ = [
    "Options",
    "Origin",
    "create",
    "read_options",
    "request_checkpoint",
    "request_profile",
    "request_stop",
    "resume",
    "start",
    "stop_now_requested",
    "withdraw_profile",
    "write_options",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SUPERVISOR = (sys.executable, "-m", "tpudeck.supervisor")
"""The command that takes a run folder and looks after it."""
_PACKAGES = ("tpudeck", "tensorflow", "tensorflow-tpu", "tf-keras", "transformers", "tokenizers", "numpy", "libtpu")


@dataclass(frozen=True)
class Options:
    """How a run is looked after, as against what it computes: not part of the experiment."""

    notify: tuple[str, ...] = ()
    """Who is told about alerts and the end: names from ``config.toml``, commands, or URLs."""
    tensorboard: bool = False
    """Whether to write TensorBoard event files too."""
    queue: bool = True
    """Whether to wait until the device is free."""
    mirror: str = ""
    """A store, ``gs://…``, below which a copy is kept while the run lasts, at ``runs/ID``."""


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
    if options and options.mirror and not is_bucket(options.mirror):
        raise InputError(f"a run is mirrored to gs://BUCKET/PREFIX, got {options.mirror!r}")
    _check_sources(experiment)
    refuse_what_cannot_start(experiment)
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


def _check_sources(experiment: Experiment) -> None:
    """Raise for text that cannot be read and for a tokenizer that will not do; what is far away is left to the run."""
    from tpudeck import pretrained
    from tpudeck.corpus import open_corpus
    from tpudeck.corpus.hub import split_id
    from tpudeck.tokenizer import existing

    corpus, tokenizer = experiment.corpus.source, experiment.tokenizer.source
    documents = open_corpus(experiment.corpus, "train")
    if corpus != "builtin" and not corpus.startswith("hub:") and not is_bucket(corpus):
        next(iter(documents))  # says why where there is no text, or no such column
    if tokenizer.startswith("hub:"):
        split_id(tokenizer)
    elif tokenizer:
        existing.adopt(existing.fetch(tokenizer, ""), experiment.objective, name=tokenizer)
    if not experiment.model.weights.startswith("hub:"):
        pretrained.fitting(experiment)


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
    """What is installed, without importing any of it."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _git() -> dict[str, Any] | None:
    """Commit and cleanness of the working folder's repository; none outside one."""

    def ask(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()

    try:
        return {"sha": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def write_options(folder: Path, options: Options) -> None:
    """Only the owner may read them: an address can be a secret."""
    import orjson

    write_atomic(folder / "launch.json", orjson.dumps(asdict(options)), mode=0o600)


def read_options(folder: Path) -> Options:
    try:
        data = read_json(folder / "launch.json")
    except FileNotFoundError:
        return Options()
    return Options(
        notify=tuple(data.get("notify", ())),
        tensorboard=bool(data.get("tensorboard")),
        queue=bool(data.get("queue", True)),
        mirror=str(data.get("mirror", "")),
    )


def start(folder: Path) -> int:
    """Start a supervisor on a run folder; its process id.

    Raises :class:`RetryLaterError` where the run has an owner.
    """
    lock = _take(folder)
    try:
        return _spawn(folder, lock)
    finally:
        locks.release(lock)


def resume(folder: Path) -> int:
    """Go on with a run that ended before it was finished, as a new attempt."""
    from tpudeck.doctor import refuse_while_held
    from tpudeck.mirror import is_followed
    from tpudeck.presets import load_experiment

    if is_followed(folder):
        raise InputError(
            f"{folder.name} is only followed here: its checkpoints are in the bucket",
            hint="tpudeck runs pull brings them, once the run has ended where it was",
        )
    refuse_while_held(load_experiment(folder / "experiment.toml"))
    lock = _take(folder)
    try:
        if RunFiles.read(folder).status.get("status") == "finished":
            raise InputError(f"{folder.name} has finished: there is nothing to resume")
        for request in (folder / "requests").glob("*.json"):
            request.unlink()
        return _spawn(folder, lock)
    finally:
        locks.release(lock)


def _take(folder: Path) -> int:
    """The lock of a run that nobody looks after."""
    lock = locks.acquire(folder / "run.lock")
    if lock is None:
        raise RetryLaterError(f"{folder.name} is running", hint=f"tpudeck runs watch {folder.name}")
    if locks.held(folder / "stage.lock"):
        locks.release(lock)
        raise RetryLaterError(f"a stage of {folder.name} is still saving what it has", hint="try again in a moment")
    return lock


def _spawn(folder: Path, lock: int) -> int:
    (folder / "requests").mkdir(exist_ok=True)
    # Not from where the user stands: a file there could hide a module of the same name.
    environ = dict(os.environ) | {"PYTHONSAFEPATH": "1"}
    if folder.parent.name == "runs":
        environ["TPUDECK_HOME"] = str(folder.parent.parent)
    with (folder / "console.log").open("ab") as log:
        process = subprocess.Popen(
            [*SUPERVISOR, str(folder), "--lock", str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=folder,
            env=environ,
        )
    # Whoever lives longer than the run must not keep a zombie of its supervisor.
    threading.Thread(target=process.wait, name="supervisor-ended", daemon=True).start()
    if store := read_options(folder).mirror:
        _spawn_mirror(folder, store, environ)
    return process.pid


def _spawn_mirror(folder: Path, store: str, environ: Mapping[str, str]) -> None:
    """Beside the supervisor, not below it: whatever a bucket does, the run doesn't notice."""
    with (folder / "mirror.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tpudeck.mirror", str(folder), f"{store.rstrip('/')}/runs/{folder.name}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            start_new_session=True,
            cwd=folder,
            env=environ,
        )
    threading.Thread(target=process.wait, name="mirror-ended", daemon=True).start()


def request_stop(folder: Path, *, now: bool = False) -> None:
    """Ask a run to save a checkpoint and end; with `now`, to end at once. Asking twice is asking once."""
    now = now or stop_now_requested(folder)
    _request(folder, "stop", now=now)
    if now and not locks.held(folder / "run.lock"):
        _kill_orphan(folder)


def stop_now_requested(folder: Path) -> bool:
    """Whether somebody asked for an end without a checkpoint."""
    try:
        return bool(read_json(folder / "requests" / "stop.json").get("now"))
    except (FileNotFoundError, ValueError):
        return False


def _kill_orphan(folder: Path) -> None:
    """End a stage whose supervisor is gone; nobody else would."""
    stage = RunFiles.read(folder).status.get("stage_process")
    if stage and locks.held(folder / "stage.lock") and ProcessIdentity.from_dict(stage).alive:
        os.killpg(int(stage["pid"]), signal.SIGKILL)


def request_checkpoint(folder: Path) -> None:
    """Ask a run to save a checkpoint at its next step and go on."""
    _request(folder, "checkpoint")


def request_profile(folder: Path, *, steps: int) -> None:
    """Ask a run to profile its next steps and go on."""
    _request(folder, "profile", steps=steps)


def withdraw_profile(folder: Path) -> None:
    """Take the question back where nobody waits for the answer any more."""
    (folder / "requests" / "profile.json").unlink(missing_ok=True)


def _request(folder: Path, what: str, **more: Any) -> None:
    path = folder / "requests" / f"{what}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"time": time.time(), "process": os.getpid()} | more)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="only its owner can control a run"
        ) from error
