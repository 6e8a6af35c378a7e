"""What the Data screen lists and opens: texts, tokenizers and shard sets, found and read without a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tpudeck.config import Home
from tpudeck.corpus.files import find_files
from tpudeck.errors import InputError, TpudeckError
from tpudeck.inspection.pieces import Reader
from tpudeck.inspection.records import find_tokenizer
from tpudeck.inspection.task import known_corpus, known_shards, known_tokenizer
from tpudeck.presets import Experiment, experiment_from, load_experiment, preset_files, resolve
from tpudeck.runs.index import find_run
from tpudeck.shards import ShardSet, open_set
from tpudeck.shards import task as shards_task
from tpudeck.shards.manifest import Manifest
from tpudeck.storage import read_json
from tpudeck.tokenizer import LoadedTokenizer, load, stage
from tpudeck.tokenizer.loaded import TOKENIZER_FILES, has_tokenizer, manifest_of

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["Artefact", "Opened", "around", "find", "known_statistics", "made", "merged", "open_artefact", "texts"]

Kind = Literal["text", "tokenizer", "shards"]


@dataclass(frozen=True)
class Artefact:
    """One line of the list."""

    kind: Kind
    name: str
    """The folder, or the source of a text."""
    about: str
    made: float = 0.0
    experiment: Experiment | None = field(default=None, compare=False)
    """Of a text: how it is read."""

    @property
    def key(self) -> str:
        """What tells two of the same kind and size apart: the name of the folder."""
        return "" if self.kind == "text" else Path(self.name).name

    @property
    def identity(self) -> str:
        return f"{self.kind} {self.name} {self.about}"


@dataclass
class Opened:
    """An artefact, read."""

    artefact: Artefact
    tokenizer: LoadedTokenizer | None = None
    """Itself, or that of a shard set where it is here."""
    reader: Reader | None = None
    shards: ShardSet | None = None
    experiment: Experiment | None = None
    """Whose text this is, or whose text a tokenizer is tried on, or that was trained on a set."""
    run: str = ""
    """The run whose experiment that is."""
    statistics: dict[str, Any] | None = None

    @property
    def task(self) -> str:
        """What computes its statistics."""
        return {"text": "inspect-corpus", "tokenizer": "inspect-tokenizer", "shards": "inspect-shards"}[
            self.artefact.kind
        ]

    @property
    def request(self) -> dict[str, str]:
        return {} if self.artefact.kind == "text" else {self.artefact.kind: self.artefact.name}


# What there is.


def made(home: Home) -> list[Artefact]:
    """The kept tokenizers and shard sets, the newest first."""
    found = [*_folders(home.tokenizers, "tokenizer"), *_folders(home.shards, "shards")]
    return sorted(found, key=lambda artefact: (artefact.kind != "tokenizer", -artefact.made))


def _folders(parent: Path, kind: Kind) -> Iterator[Artefact]:
    with contextlib.suppress(OSError):
        for folder in sorted(parent.iterdir()):
            manifest = folder / "manifest.json"
            if manifest.is_file() and not folder.name.startswith("."):
                yield _of_folder(kind, folder, manifest.stat().st_mtime)


def _of_folder(kind: Kind, folder: Path, made: float = 0.0) -> Artefact:
    return Artefact(kind, str(folder), _about_shards(folder) if kind == "shards" else _about_tokenizer(folder), made)


def _about_tokenizer(folder: Path) -> str:
    manifest = manifest_of(folder)
    size = manifest.get("vocab_size")
    return f"{manifest.get('kind', '')} {size:,}".strip() if isinstance(size, int) else folder.name


def _about_shards(folder: Path) -> str:
    try:
        manifest = Manifest.load(folder)
    except TpudeckError:
        return "damaged"
    if manifest is None:
        return folder.name
    sequences = sum(split.sequences for split in manifest.splits.values())
    return f"{sequences:,} x {manifest.packing.sequence_length}"


def texts(home: Home) -> list[Artefact]:
    """The texts of all presets, each once."""
    found: dict[str, Artefact] = {}
    for name in preset_files(home):
        with contextlib.suppress(TpudeckError):
            experiment = resolve(name, home=home).experiment
            found.setdefault(experiment.corpus.model_dump_json(), _text(experiment))
    return list(found.values())


def _text(experiment: Experiment) -> Artefact:
    corpus = experiment.corpus
    last = corpus.source.rstrip("/").rpartition("/")[2]
    short = last if corpus.source.startswith(("/", "gs://")) else corpus.source.removeprefix("hub:")
    return Artefact("text", corpus.source, f"{short} {corpus.config}".strip(), experiment=experiment)


def find(text: str, home: Home) -> list[Artefact]:
    """What is meant by a folder, file, preset, run or source of text; raises :class:`TpudeckError` where nothing is."""
    text = text.strip()
    path = Path(text).expanduser()
    if not text:
        raise InputError("nothing was named", hint="a folder, a file, preset:NAME, a run, or a source of text")
    if path.name == TOKENIZER_FILES[0] and path.is_file():
        path = path.parent
    if path.is_dir() and has_tokenizer(path):
        return [_of_folder("tokenizer", path.absolute())]
    if path.is_dir() and ((path / "manifest.json").exists() or any(path.rglob("*.tfrecord"))):
        return [_of_folder("shards", path.absolute())]
    if path.exists():
        return [_text(around(str(path.absolute())))]
    if text == "builtin" or text.startswith(("hub:", "gs://")):
        return [_text(around(text))]
    if set("*?[") & set(text):
        find_files(text)
        return [_text(around(text))]
    return _parts(_experiment_named(text, home), home)


def around(source: str) -> Experiment:
    """Text alone says nothing about training, but an experiment is complete."""
    return experiment_from({"corpus": {"source": source}, "train": {"epochs": 1, "global_batch_size": 32}})


def _experiment_named(text: str, home: Home) -> Experiment:
    name = text.removeprefix("preset:")
    if text.startswith("preset:") or name in preset_files(home):
        return resolve(name, home=home).experiment
    try:
        return load_experiment(find_run(home, text) / "experiment.toml")
    except InputError as error:
        raise InputError(
            f"{text} is no folder, file, preset or run", hint="also builtin, hub:ORG/NAME, gs://… or a glob"
        ) from error


def _parts(experiment: Experiment, home: Home) -> list[Artefact]:
    """The text of an experiment, and its tokenizer and shards where they are made; the last is the most told."""
    found = [_text(experiment)]
    with contextlib.suppress(TpudeckError, OSError):
        if (tokenizer := stage.ready(experiment, home)) is not None:
            found.append(_of_folder("tokenizer", tokenizer))
        if (shards := shards_task.ready(experiment, home)) is not None:
            found.append(_of_folder("shards", shards))
    return found


# Reading one.


def open_artefact(artefact: Artefact, home: Home, runs: Sequence[RunSummary]) -> Opened:
    """Read an artefact; raises :class:`TpudeckError` or ``OSError`` where it is damaged."""
    opened = Opened(artefact)
    if artefact.kind == "text":
        opened.experiment = artefact.experiment
    elif artefact.kind == "tokenizer":
        opened.tokenizer = load(artefact.name)
        opened.run, opened.experiment = _trained_with(runs, "tokenizer", Path(artefact.name))
        opened.experiment = opened.experiment or _made_from(Path(artefact.name))
    else:
        opened.shards = open_set(artefact.name)
        tokenizer = find_tokenizer(home, opened.shards.tokenizer_hash)
        opened.tokenizer = load(tokenizer) if tokenizer is not None else None
        opened.run, opened.experiment = _trained_with(runs, "shards", Path(artefact.name))
    opened.reader = Reader(opened.tokenizer) if opened.tokenizer is not None else None
    return opened


def known_statistics(opened: Opened, home: Home) -> dict[str, Any] | None:
    """What was computed before.

    To know a text, also that of a tokenizer, is to read its files, so this may take a moment; the Hub is not asked.
    """
    artefact, experiment = opened.artefact, opened.experiment
    if artefact.kind == "shards":
        return known_shards(home, Path(artefact.name))
    if experiment is None or experiment.corpus.source.startswith(("hub:", "gs://")):
        return None
    if artefact.kind == "text":
        return known_corpus(home, experiment.corpus)
    return known_tokenizer(home, opened.tokenizer, experiment.corpus) if opened.tokenizer is not None else None


def _trained_with(runs: Sequence[RunSummary], stage: str, folder: Path) -> tuple[str, Experiment | None]:
    """The newest run that has this tokenizer or set."""
    for run in runs:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, TpudeckError):
            result: Mapping[str, Any] = read_json(Path(run.path) / "results" / f"{stage}.json")["result"]
            if (Path(run.path) / str(result["folder"])).resolve() == folder.resolve():
                return run.name, load_experiment(Path(run.path) / "experiment.toml")
    return "", None


def _made_from(folder: Path) -> Experiment:
    """Something to try a tokenizer on: the text it was trained on, where that can be read; else the built-in one."""
    manifest = manifest_of(folder)
    source = manifest.get("source") if "trained_on" in manifest else None
    with contextlib.suppress(TpudeckError):
        if isinstance(source, str) and Path(source).expanduser().exists():
            return around(source)
    return around("builtin")


def merged(*lists: Iterable[Artefact]) -> list[Artefact]:
    """Lists one after another, each artefact once."""
    found: dict[str, Artefact] = {}
    for artefacts in lists:
        for artefact in artefacts:
            found.setdefault(artefact.identity, artefact)
    return list(found.values())
