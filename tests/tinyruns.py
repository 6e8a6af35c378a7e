"""A tiny tokenizer and tiny shards, made once; run folders that use them; and their training in this process.

Importing TensorFlow takes seconds, so most tests call the task here instead of starting it in a child.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tpudeck.jobs import Job
from tpudeck.presets import Experiment, experiment_from, save_experiment
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import write_json

Settings = dict[str, Any]


def tiny_experiment(**changes: Settings) -> Experiment:
    """One layer of width 32, sequences of 16, four sequences a step."""
    data: dict[str, Settings] = {
        "corpus": {"max_documents": 400},
        "tokenizer": {"kind": "wordpiece", "vocab_size": 500},
        "shards": {"sequence_length": 16},
        "model": {"layers": 1, "width": 32, "heads": 2, "dropout": 0.1, "initializer_range": 0.1},
        "train": {
            "steps": 6,
            "global_batch_size": 4,
            "learning_rate": 1e-3,
            "log_every": 2,
            "eval_every": 0,
            "checkpoint_every": 0,
        },
        "device": {"kind": "cpu"},
    }
    for section, values in changes.items():
        data[section] = data.get(section, {}) | values
    return experiment_from(data)


class TinyRuns:
    """Makes run folders whose tokenizer and shards are ready."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0

    def tokenizer(self, specials: tuple[str, ...]) -> Path:
        """A WordPiece tokenizer of 500 tokens, so that the embedding table is padded to 512."""
        folder = self._folder / f"tokenizer-{specials[0].strip('<>[]|')}"
        if not folder.exists():
            _train_tokenizer(folder, specials)
        return folder

    def run(self, experiment: Experiment) -> Path:
        self._made += 1
        folder = self._folder / f"run-{self._made}"
        (folder / "results").mkdir(parents=True)
        (folder / "requests").mkdir()
        save_experiment(experiment, folder / "experiment.toml")
        tokenizer = self.tokenizer(experiment.family.specials)
        _write_result(folder, "tokenizer", {"folder": str(tokenizer)})
        _write_result(folder, "shards", {"folder": str(self.shards(experiment, tokenizer))})
        return folder

    def shards(self, experiment: Experiment, tokenizer: Path) -> Path:
        from tpudeck.shards.task import build_shards

        folder = self._folder / f"shards-{experiment.objective}-{tokenizer.name}-{experiment.shards.sequence_length}"
        if not folder.exists():
            place = self._folder / f"job-{folder.name}"
            place.mkdir()
            save_experiment(experiment, place / "experiment.toml")
            write_json(place / "request.json", {"out": str(folder), "tokenizer": str(tokenizer)})
            build_shards(job("shards", place))
        return folder


def _train_tokenizer(folder: Path, specials: tuple[str, ...]) -> None:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers

    from tpudeck.corpus import open_corpus

    unknown = next(name for name in specials if "unk" in name.lower())
    tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=list(specials), show_progress=False)
    tokenizer.train_from_iterator(open_corpus(tiny_experiment().corpus, "train"), trainer)
    masks = [name for name in specials if "mask" in name.lower()]
    tokenizer.add_special_tokens([AddedToken(name, special=True, lstrip=True) for name in masks])
    if masks:
        first, last = [(name, specials.index(name)) for name in specials if name in {"<s>", "</s>", "[CLS]", "[SEP]"}]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first[0]} $A {last[0]}", special_tokens=[first, last]
        )
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))


def _write_result(folder: Path, task: str, result: dict[str, Any]) -> None:
    write_json(folder / "results" / f"{task}.json", {"ok": True, "result": result})


def job(task: str, folder: Path, *, attempt: int = 1, stop: threading.Event | None = None) -> Job:
    return Job(task, folder, RunWriter(folder, attempt=attempt), stop or threading.Event())


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train(folder: Path, *, attempt: int = 1, stop: threading.Event | None = None) -> dict[str, Any]:
    """The training stage, in this process."""
    from tpudeck.training.tasks import TASKS

    return dict(TASKS["train"](job("train", folder, attempt=attempt, stop=stop)))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_lines(folder / "events.jsonl") if line["event"] == kind]
