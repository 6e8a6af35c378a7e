"""Exported folders in PyTorch and Transformers 5: every key in its place, the same logits, the same answers.

Run by ``make torch``: PyTorch lives in an environment of its own, which ``TPUDECK_TORCH_PYTHON`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tinyruns import job, tiny_experiment, train
from tpudeck.presets import Experiment, save_experiment
from tpudeck.storage import write_json
from tpudeck.tokenizer import LoadedTokenizer, load

pytestmark = [pytest.mark.training, pytest.mark.torch, pytest.mark.slow]

TOKENIZERS = {
    "roberta": "unigram",
    "bert": "wordpiece",
    "distilbert": "wordpiece",
    "electra": "wordpiece",
    "gpt2": "byte_bpe",
}
TEXT = "the name of a <mask> is"
PROMPT = "the name of"
NEW_TOKENS = 6
LOGITS_TOLERANCE = 2e-5


@dataclass(frozen=True)
class Exported:
    """One family: what we say about its model, and what Transformers says about the folder."""

    experiment: Experiment
    folder: Path
    tokenizer: LoadedTokenizer
    text: str
    """With the tokenizer's own mask token, as people give it to Transformers."""
    logits_BSV: npt.NDArray[np.float32]
    sample: dict[str, Any]
    theirs: dict[str, Any]


def trained(folder: Path, experiment: Experiment) -> Path:
    """A run through all its stages, in this process."""
    from tpudeck.shards.task import build_shards
    from tpudeck.tokenizer.stage import prepare

    (folder / "results").mkdir(parents=True)
    (folder / "requests").mkdir()
    save_experiment(experiment, folder / "experiment.toml")
    for task, work in (("tokenizer", prepare), ("shards", build_shards)):
        write_json(folder / "results" / f"{task}.json", {"ok": True, "result": dict(work(job(task, folder)))})
    train(folder)
    return folder


def ask(task: str, run: Path, **request: Any) -> dict[str, Any]:
    """One of the tasks that use a run's model, in this process."""
    from tpudeck.training.tasks import TASKS

    place = run / f"job-{task}"
    place.mkdir()
    save_experiment(tiny_experiment(), place / "experiment.toml")
    write_json(place / "request.json", {"run": str(run), "checkpoint": "last"} | request)
    return dict(TASKS[task](job(task, place)))


def our_logits(run: Path, ids_BS: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    import tensorflow as tf

    from tpudeck.presets import load_experiment
    from tpudeck.runs.checkpoints import Checkpoints
    from tpudeck.training.checkpoints import assign
    from tpudeck.training.configuration import vocabulary_of
    from tpudeck.training.inputs import read_tokenizer
    from tpudeck.training.model import build_model

    vocabulary = vocabulary_of(read_tokenizer(run))
    model = build_model(load_experiment(run / "experiment.toml"), vocabulary)
    checkpoint = Checkpoints(run / "checkpoints").find("last")
    assign(model.weights, checkpoint.weights(), source=checkpoint.folder)
    everywhere = np.tile(np.arange(ids_BS.shape[1]), (len(ids_BS), 1))
    logits_BSV: npt.NDArray[np.float32] = model.logits(tf.constant(ids_BS), tf.constant(everywhere)).numpy()
    return logits_BSV[:, :, : vocabulary.size]


@pytest.fixture(scope="module", params=TOKENIZERS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    family, place = request.param, tmp_path_factory.mktemp(request.param)
    causal = family == "gpt2"
    experiment = tiny_experiment(
        model={"architecture": family}, tokenizer={"kind": TOKENIZERS[family]}, train={"steps": 20}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPUDECK_HOME", str(place / "home"))
        run = trained(place / "run", experiment)
        folder = Path(ask("export", run, out=str(place / "model"))["folder"])
        if causal:
            asked = {"texts": [PROMPT], "tokens": NEW_TOKENS, "temperature": 0.0, "seed": 0}
            sample = ask("generate", run, **asked)["samples"][0]
        else:
            sample = ask("fill-mask", run, texts=[TEXT], most=5)["samples"][0]
    tokenizer = load(folder)
    ids_BS = np.random.default_rng(0).integers(5, tokenizer.vocab_size, (3, 16), dtype=np.int32)
    mask = "" if tokenizer.mask_id is None else tokenizer.rust.id_to_token(tokenizer.mask_id)
    text = PROMPT if causal else TEXT.replace("<mask>", mask)
    prompt_ids = tokenizer.rust.encode(PROMPT).ids
    asked_of_them = {
        "causal": causal, "ids": ids_BS.tolist(), "text": text, "prompt_ids": prompt_ids,
        "new_tokens": NEW_TOKENS, "pad_id": tokenizer.pad_id,
    }  # fmt: skip
    (place / "request.json").write_text(json.dumps(asked_of_them))
    reference = Path(__file__).with_name("reference.py")
    subprocess.run(
        [os.environ["TPUDECK_TORCH_PYTHON"], reference, folder, place / "request.json", place / "answer.json"],
        env=dict(os.environ) | {"HF_HUB_OFFLINE": "1"}, check=True,
    )  # fmt: skip
    theirs = json.loads((place / "answer.json").read_text())
    return Exported(experiment, folder, tokenizer, text, our_logits(run, ids_BS), sample, theirs)


def test_every_key_is_in_its_place(exported: Exported) -> None:
    told = exported.theirs
    assert (told["missing"], told["unexpected"], told["mismatched"]) == ([], [], [])
    assert told["versions"]["transformers"].startswith("5.")


def test_logits_are_equal(exported: Exported) -> None:
    theirs = np.array(exported.theirs["logits"], dtype=np.float32)
    assert theirs.shape == exported.logits_BSV.shape
    np.testing.assert_allclose(theirs, exported.logits_BSV, rtol=0, atol=LOGITS_TOLERANCE)


def test_the_tokenizer_reads_text_as_ours_does(exported: Exported) -> None:
    exported.tokenizer.rust.encode_special_tokens = False  # what Transformers does: a mask in the text is a mask
    try:
        ids = exported.tokenizer.rust.encode(exported.text).ids
    finally:
        exported.tokenizer.rust.encode_special_tokens = True
    assert exported.theirs["token_ids"] == ids
    assert ids.count(exported.tokenizer.mask_id) == (exported.tokenizer.mask_id is not None)


def test_answers_are_the_same(exported: Exported) -> None:
    rust = exported.tokenizer.rust
    if "generated_ids" in exported.theirs:
        assert rust.decode(exported.theirs["generated_ids"]).strip() == exported.sample["generated"]
        assert exported.theirs["generated"]["generated_text"].strip() == exported.sample["generated"]
        return
    ours = exported.sample["answers"][0]
    theirs = exported.theirs["filled"]
    np.testing.assert_allclose([one["probability"] for one in theirs], [one["probability"] for one in ours], rtol=1e-4)
    assert [rust.decode([one["id"]]).strip() for one in theirs] == [one["token"] for one in ours]
