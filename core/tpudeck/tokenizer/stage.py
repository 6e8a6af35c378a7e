"""The tokenizer stage: find it ready, or train it, or bring an existing one in."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck import pretrained
from tpudeck.config import Home
from tpudeck.corpus import fingerprint, open_corpus
from tpudeck.errors import InputError
from tpudeck.jobs import Job
from tpudeck.presets.schema import Experiment
from tpudeck.runs.events import Noticed, PhaseChanged
from tpudeck.storage import read_json, write_atomic, write_json
from tpudeck.tokenizer import artefacts, existing
from tpudeck.tokenizer.loaded import load
from tpudeck.tokenizer.roles import roles_of
from tpudeck.tokenizer.survey import Survey
from tpudeck.tokenizer.training import Phase, Trained, train
from tpudeck.units import counted, format_bytes

if TYPE_CHECKING:
    from tpudeck.corpus import Documents

__all__ = ["prepare", "ready", "save_trained"]

_PROMISE_S = 120.0
"""Progress is written several times a second; only telling what a large corpus is may keep silent for longer."""


def prepare(job: Job) -> dict[str, Any]:
    """The task: a tokenizer folder for the job's experiment, and what is known about it.

    With ``{"out": DIR}`` in the request the tokenizer is also copied there.
    """
    experiment = job.experiment()
    out = job.request().get("out")
    folder_out = _checked_out(Path(out)) if out else None
    job.writer.event(PhaseChanged(phase="tokenizer", promise_s=_PROMISE_S))
    stage = _Stage(job, experiment)
    if planned := _planned(job):
        return {**planned, "folder": str(job.home.tokenizers / planned["key"]), "cached": True}
    weights = pretrained.fitting(experiment)
    if experiment.tokenizer_source[0]:
        manifest, cached = stage.existing()
    else:
        manifest, cached = stage.trained()
    for warning in manifest["warnings"]:
        job.writer.event(Noticed(message=warning, level="warning"))
    folder = job.home.tokenizers / manifest["key"]
    if weights is not None and experiment.tokenizer.source:
        for notice in existing.require_same_tokens(load(folder), weights):
            job.writer.event(Noticed(message=notice, level="warning"))
    if folder_out is not None:
        folder_out.mkdir(parents=True, exist_ok=True)
        load(folder).save(folder_out, model_max_length=experiment.max_positions)
    return {**manifest, "folder": str(folder), "cached": cached, **({"out": str(folder_out)} if folder_out else {})}


def _planned(job: Job) -> dict[str, Any] | None:
    """The tokenizer that this run has trained with already, where it is here: nobody is asked for its source again."""
    try:
        hash_ = read_json(job.folder / "plan.json")["tokenizer_hash"]
    except FileNotFoundError:
        return None
    return artefacts.find_by_hash(job.home, str(hash_))


def _checked_out(out: Path) -> Path:
    """A folder that can be written to, found out before minutes of training."""
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"{nearest} is a file; a tokenizer is written to a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{nearest} cannot be written to", hint="give another folder")
    return out


@dataclass
class _Stage:
    """One tokenizer in the making."""

    job: Job
    experiment: Experiment
    warnings: list[str] = field(default_factory=list)

    def existing(self) -> tuple[dict[str, Any], bool]:
        """One that exists: copied, so that a run does not change with its source."""
        named, revision = self.experiment.tokenizer_source
        source = existing.fetch(named, revision)
        key = _existing_key(self.experiment, source)
        if found := artefacts.find(self.job.home, key):
            return found, True
        brought = existing.adopt(source, self.experiment.objective, name=named)
        about = {
            "kind": brought.kind,
            "source": named,
            "requested_vocab_size": None,
            "vocab_size": brought.vocab_size,
            "warnings": brought.warnings,
        }
        return artefacts.keep(self.job.home, key, brought.write, about), False

    def trained(self) -> tuple[dict[str, Any], bool]:
        """One trained on the corpus, now or before."""
        settings, specials = self.experiment.tokenizer, self.experiment.family.specials
        inputs = _training_inputs(self.experiment)
        key = artefacts.input_key(inputs)
        if found := artefacts.find(self.job.home, key):
            return found, True
        documents = open_corpus(self.experiment.corpus, "train")
        started = time.monotonic()
        made = train(settings, specials, documents, watch=self._watch, surveyed=self._surveyed)
        self._judge(made, documents)
        about = {
            "kind": settings.kind,
            "requested_vocab_size": settings.vocab_size,
            "vocab_size": made.vocab_size,
            "minimum_vocab_size": made.minimum,
            "source": self.experiment.corpus.source,
            **inputs,
            "trained_on": _text_of(made.survey),
            "round_trips": made.round_trips,
            "round_trip_failures": made.round_trip_failures,
            "training_s": round(time.monotonic() - started, 1),
            "warnings": self.warnings,
        }
        return artefacts.keep(self.job.home, key, lambda folder: save_trained(made, specials, folder), about), False

    def _watch(self, phase: Phase, done: int) -> None:
        self.job.check_stop()
        self.job.progress(done, None, "characters", phase=phase)

    def _surveyed(self, survey: Survey, minimum: int) -> None:
        """Say what will be trained on, and the smallest vocabulary, before any time is spent."""
        asked = self.experiment.tokenizer.vocab_size
        message = (
            f"training on {counted(survey.documents, 'document')}, {format_bytes(survey.bytes)}, "
            f"{len(survey.alphabet):,} different characters: needs {minimum:,} tokens or more, {asked:,} asked for"
        )
        self.job.writer.event(Noticed(message=message))
        if survey.literals:
            found = ", ".join(f"{token} {count:,} times" for token, count in survey.literals.most_common())
            self.warnings.append(f"the text spells special tokens ({found}); it is encoded as text")

    def _judge(self, made: Trained, documents: Documents) -> None:
        """What a person should hear about the result."""
        asked = self.experiment.tokenizer.vocab_size
        self.warnings += [f"{what}: {count:,}" for what, count in documents.counts.oddities().items()]
        if made.vocab_size < asked:
            self.warnings.append(
                f"the text gives a vocabulary of {made.vocab_size:,} only, of {asked:,} asked for; "
                "more text or a smaller vocab_size would match"
            )
        if made.round_trip_failures:
            self.warnings.append(
                f"{made.round_trip_failures:,} of {made.round_trips:,} documents do not decode to what they were"
            )


def _training_inputs(experiment: Experiment) -> dict[str, Any]:
    """Everything that a trained tokenizer follows from."""
    return {
        "corpus": fingerprint(experiment.corpus),
        "recipe": experiment.tokenizer.model_dump(include={"kind", "vocab_size", "sample_mb", "lowercase"}),
        "specials": experiment.family.specials,
    }


def _existing_key(experiment: Experiment, source: Path) -> str:
    return artefacts.input_key({"existing": existing.identity(source), "objective": experiment.objective})


def ready(experiment: Experiment, home: Home) -> Path | None:
    """The folder of the experiment's tokenizer where it is finished; nothing is trained."""
    if experiment.tokenizer_source[0]:
        key = _existing_key(experiment, existing.fetch(*experiment.tokenizer_source))
    else:
        key = artefacts.input_key(_training_inputs(experiment))
    return home.tokenizers / key if artefacts.find(home, key) else None


def _text_of(survey: Survey) -> dict[str, Any]:
    return {
        "documents": survey.documents,
        "characters": survey.characters,
        "bytes": survey.bytes,
        "alphabet": len(survey.alphabet),
        "literal_specials": dict(survey.literals),
    }


def save_trained(made: Trained, specials: tuple[str, ...], folder: Path) -> None:
    """``tokenizer.json``, and what ``AutoTokenizer`` needs beside it."""
    roles = roles_of(specials)
    names: dict[str, Any] = {f"{role}_token": roles[role] for role in ("bos", "eos", "unk", "pad")}
    if mask := roles.get("mask"):
        names |= {"cls_token": roles["bos"], "sep_token": roles["eos"], "mask_token": mask}
    config = {
        **names,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": _added_tokens(made.rust),
    }
    write_atomic(folder / "tokenizer.json", made.rust.to_str(pretty=True).encode())
    write_json(folder / "tokenizer_config.json", config)
    # A bare name here would undo the mask's lstrip.
    described = {token["content"]: token for token in _added_tokens(made.rust).values()}
    write_json(folder / "special_tokens_map.json", {key: described[name] for key, name in names.items()})


def _added_tokens(rust: Any) -> dict[str, Any]:
    keys = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {
        str(id_): {key: getattr(token, key) for key in keys}
        for id_, token in sorted(rust.get_added_tokens_decoder().items())
    }
