"""The training stage on a real run folder: what it writes, and what makes it stop, go on or refuse."""

from __future__ import annotations

import errno
import json
import math
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyruns import TinyRuns, events, read_lines, tiny_experiment, train
from tpudeck import jobs
from tpudeck.errors import ArtefactError, CorpusError, InputError, InterruptedRunError, TrainingDivergedError
from tpudeck.runs.checkpoints import Checkpoints

pytestmark = pytest.mark.training


def state(folder: Path) -> dict[str, np.ndarray]:
    """Weights and moments of the last checkpoint."""
    last = Checkpoints(folder / "checkpoints").find("last")
    return last.weights() | last.optimizer()


def losses(folder: Path) -> dict[int, float]:
    """Loss by step; the newest attempt counts."""
    return {line["step"]: line["loss"] for line in read_lines(folder / "metrics.jsonl")}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def stop_after(folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train a run until it is asked to stop after a step."""
    from tpudeck.training.trainer import Trainer

    stop = threading.Event()
    original = Trainer._between_calls

    def between_calls(trainer: Trainer) -> None:
        if trainer._step >= step:
            stop.set()
        original(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_between_calls", between_calls)
        with pytest.raises(InterruptedRunError, match=f"after step {step} of"):
            train(folder, stop=stop)


def test_a_run_says_what_it_does_and_ends_with_its_numbers(tiny_runs: TinyRuns) -> None:
    experiment = tiny_experiment(
        train={"steps": 6, "eval_every": 4, "log_every": 2}, samples={"texts": ["the <mask> of"]}
    )
    folder = tiny_runs.run(experiment)
    result = train(folder)
    assert [line["phase"] for line in events(folder, "phase_changed")] == [
        "starting", "compiling", "training", "evaluating", "checkpointing", "training", "evaluating", "checkpointing",
    ]  # fmt: skip
    assert [line["step"] for line in read_lines(folder / "metrics.jsonl")] == [2, 4, 6]
    assert [line["step"] for line in events(folder, "evaluated")] == [4, 6]
    assert [line["step"] for line in events(folder, "samples_filled")] == [4, 6]
    last = read_lines(folder / "metrics.jsonl")[-1]
    assert set(last) == {
        "step", "time", "attempt", "loss", "learning_rate", "grad_norm", "tokens_per_s", "step_s", "input_wait_s",
        "device_s", "host_s", "tokens", "epoch",
    }  # fmt: skip
    assert last["input_wait_s"] + last["device_s"] + last["host_s"] == pytest.approx(last["step_s"])
    assert last["device_s"] > 0
    assert last["tokens"] == 6 * 4 * 16
    assert result["steps"] == 6 and result["loss"] == last["loss"]
    evaluated = events(folder, "evaluated")[-1]
    assert result["eval_loss"] == evaluated["eval_loss"]
    assert evaluated["perplexity"] == pytest.approx(math.exp(evaluated["eval_loss"]))
    progress = json.loads((folder / "progress.json").read_text())
    assert (progress["done"], progress["total"], progress["step"]) == (6, 6, 6)


def test_a_model_learns(tiny_runs: TinyRuns) -> None:
    settings = {"steps": 400, "learning_rate": 1e-2, "log_every": 50, "global_batch_size": 16}
    folder = tiny_runs.run(tiny_experiment(model={"dropout": 0.0}, train=settings))
    result = train(folder)
    values = losses(folder)
    assert values[400] < values[50] - 0.3
    assert result["eval_loss"] < math.log(500)


@pytest.mark.parametrize(("xla", "log_every"), [(False, 4), (True, 1)])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_last_bit(
    tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch, xla: bool, log_every: int
) -> None:
    settings = {"steps": 20, "log_every": log_every, "steps_per_call": 2, "xla": xla, "clip_norm": 1.0}
    experiment = tiny_experiment(train=settings)
    whole, parts = tiny_runs.run(experiment), tiny_runs.run(experiment)
    train(whole)
    stop_after(parts, 10, monkeypatch)
    assert events(parts, "checkpoint_saved")[-1]["step"] == 10
    jobs.start("train", parts, environ={"TPUDECK_ATTEMPT": "2"}).result()
    started = events(parts, "attempt_started")[-1]
    assert (started["resume_from_step"], started["environment_changed"]) == (10, [])
    assert losses(parts) == losses(whole)
    assert_same(state(parts), state(whole))


def test_how_many_steps_a_call_does_changes_nothing(tiny_runs: TinyRuns) -> None:
    folders = []
    for steps_per_call in (1, 7):
        folders.append(tiny_runs.run(tiny_experiment(train={"steps": 12, "steps_per_call": steps_per_call})))
        train(folders[-1])
    assert losses(folders[0]) == losses(folders[1])
    assert_same(state(folders[0]), state(folders[1]))


def test_two_replicas_train_what_one_trains(tiny_runs: TinyRuns) -> None:
    samples = {"texts": ["the <mask>"]}
    model, settings = {"dropout": 0.0}, {"steps": 8, "log_every": 1, "epsilon": 1e-3}
    one = tiny_runs.run(tiny_experiment(model=model, train=settings))
    two = tiny_runs.run(tiny_experiment(model=model, train=settings, device={"replicas": 2}, samples=samples))
    train(one)
    result = jobs.start("train", two).result()
    assert result["device"] == "2 cpu"
    for step, loss in losses(one).items():
        assert losses(two)[step] == pytest.approx(loss, abs=1e-6 * loss), step
    assert result["eval_loss"] == pytest.approx(events(one, "evaluated")[-1]["eval_loss"], rel=1e-6)


def test_a_loss_that_is_no_number_stops_the_run_at_its_step_and_the_last_checkpoint_stays(tiny_runs: TinyRuns) -> None:
    settings = {"steps": 40, "learning_rate": 1e-3, "checkpoint_every": 2}
    folder = tiny_runs.run(tiny_experiment(train=settings))
    with pytest.MonkeyPatch.context() as patch:
        from tpudeck.training import trainer

        patch.setattr(trainer, "learning_rate", lambda step, **_: math.nan if step == 4 else 1e-3)
        with pytest.raises(TrainingDivergedError, match=r"is nan at step 6"):
            train(folder)
    assert Checkpoints(folder / "checkpoints").find("last").step == 4
    alert = events(folder, "alert_raised")[-1]
    assert (alert["alert"], alert["level"]) == ("nan", "error")


def test_a_request_for_a_checkpoint_is_honoured_and_removed(
    tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": 6, "steps_per_call": 1}))
    request = folder / "requests" / "checkpoint.json"
    request.write_text("{}")
    train(folder)
    assert [line["step"] for line in events(folder, "checkpoint_saved")] == [1, 6]
    assert not request.exists()


def test_the_newest_checkpoints_and_the_best_are_kept(tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from tpudeck.training import trainer
    from tpudeck.training.evaluate import Score

    scores = iter([3.0, 2.0, 4.0, 5.0, 6.0])
    folder = tiny_runs.run(
        tiny_experiment(train={"steps": 10, "eval_every": 2, "checkpoint_every": 2, "keep_checkpoints": 2})
    )
    original = trainer.set_up

    def set_up(*arguments: Any) -> Any:
        made = original(*arguments)
        monkeypatch.setattr(type(made.evaluator), "__call__", lambda *_, **__: Score(next(scores), 0.5, 6.0, 10))
        return made

    monkeypatch.setattr(trainer, "set_up", set_up)
    train(folder)
    kept = Checkpoints(folder / "checkpoints")
    assert [checkpoint.step for checkpoint in kept] == [10, 8, 4]
    assert kept.find("best").step == 4
    assert [line["best"] for line in events(folder, "evaluated")] == [True, True, False, False, False]


def test_a_damaged_checkpoint_is_rejected_and_the_one_before_is_used(tiny_runs: TinyRuns) -> None:
    settings = {"steps": 8, "checkpoint_every": 4, "log_every": 1}
    folder = tiny_runs.run(tiny_experiment(train=settings))
    train(folder)
    expected, final = losses(folder), state(folder)
    damaged = folder / "checkpoints" / "step-00000008" / "weights.safetensors"
    data = bytearray(damaged.read_bytes())
    data[-7] ^= 1
    damaged.write_bytes(data)
    train(folder, attempt=2)
    rejected = events(folder, "checkpoint_rejected")[-1]
    assert rejected["step"] == 8 and "does not match its checksum" in rejected["reason"]
    assert events(folder, "attempt_started")[-1]["resume_from_step"] == 4
    assert losses(folder) == expected
    assert_same(state(folder), final)


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from tpudeck.training import checkpoints

    original, left = checkpoints._save, [1]

    def full_once(arrays: Any, path: Path) -> None:
        if left:
            left.pop()
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        original(arrays, path)

    monkeypatch.setattr(checkpoints, "_save", full_once)
    folder = tiny_runs.run(tiny_experiment(train={"steps": 6, "checkpoint_every": 2}))
    assert train(folder)["steps"] == 6
    assert [line["step"] for line in events(folder, "checkpoint_saved")] == [4, 6]
    alert = events(folder, "alert_raised")[-1]
    assert (alert["alert"], alert["step"]) == ("disk", 2)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-00000004", "step-00000006"]


def test_a_checkpoint_that_found_no_room_gives_back_what_it_took(
    tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tpudeck.training import checkpoints

    original = checkpoints._save

    def full(arrays: Any, path: Path) -> None:
        if path.name.startswith("optimizer"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        original(arrays, path)

    monkeypatch.setattr(checkpoints, "_save", full)
    folder = tiny_runs.run(tiny_experiment(train={"steps": 2}))
    with pytest.raises(OSError, match="No space left"):
        train(folder)
    assert list((folder / "checkpoints").iterdir()) == []


def test_a_finished_run_resumed_does_no_more_steps(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment())
    first = train(folder)
    again = train(folder, attempt=2)
    assert len(events(folder, "evaluated")) == 1
    assert again["eval_loss"] == first["eval_loss"]


def test_the_plan_is_written_once_and_obeyed(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": None, "duration": "0.5 s"}))
    train(folder)
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["total_steps"] > 1
    assert plan["warmup_steps"] == max(1, round(0.05 * plan["total_steps"]))
    assert events(folder, "checkpoint_saved")[-1]["step"] == plan["total_steps"]
    train(folder, attempt=2)
    assert json.loads((folder / "plan.json").read_text()) == plan


def test_a_run_resumed_elsewhere_says_what_differs(tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from tpudeck.training import environment

    folder = tiny_runs.run(tiny_experiment())
    monkeypatch.setattr(environment, "_processor", lambda: "Another CPU")
    train(folder)
    monkeypatch.undo()
    train(folder, attempt=2)
    (changed,) = events(folder, "attempt_started")[-1]["environment_changed"]
    assert changed.startswith("processor: Another CPU → ")


def test_too_few_sequences_for_one_batch_are_refused_before_anything_is_built(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"global_batch_size": 100_000}))
    with pytest.raises(CorpusError, match=r"at least one global batch of 100,000 sequences, got \d"):
        train(folder)
    assert not (folder / "plan.json").exists() and not (folder / "checkpoints").exists()


def test_a_tokenizer_that_the_shards_were_not_made_with_is_refused(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment())
    bert = tiny_runs.tokenizer(tiny_experiment(model={"architecture": "bert"}).family.specials)
    (folder / "results" / "tokenizer.json").write_text(json.dumps({"ok": True, "result": {"folder": str(bert)}}))
    with pytest.raises(ArtefactError, match="were made with the tokenizer"):
        train(folder)


def test_shards_of_another_length_are_refused(tiny_runs: TinyRuns) -> None:
    folder, longer = tiny_runs.run(tiny_experiment()), tiny_experiment(shards={"sequence_length": 32})
    from tpudeck.presets import save_experiment

    save_experiment(longer, folder / "experiment.toml")
    with pytest.raises(ArtefactError, match=r"hold sequences of 16 tokens, and shards\.sequence_length is 32"):
        train(folder)


def test_a_gpu_that_is_not_there_is_refused(tiny_runs: TinyRuns) -> None:
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there is one")
    folder = tiny_runs.run(tiny_experiment(device={"kind": "gpu"}))
    with pytest.raises(InputError, match="needs a GPU that TensorFlow sees, got none"):
        train(folder)


def test_a_run_without_shards_says_which_stage_is_missing(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment())
    (folder / "results" / "shards.json").unlink()
    with pytest.raises(ArtefactError, match="has no shards yet"):
        train(folder)


def test_a_sample_that_cannot_be_filled_is_told_once_and_costs_neither_the_run_nor_the_other_samples(
    tiny_runs: TinyRuns,
) -> None:
    texts = ["the " * 40 + "<mask>", "the <mask> of"]
    folder = tiny_runs.run(tiny_experiment(train={"steps": 4, "eval_every": 2}, samples={"texts": texts}))
    assert train(folder)["steps"] == 4
    (notice,) = events(folder, "noticed")
    assert "is left out: this model reads at most 16 tokens" in notice["message"]
    filled = [[sample["text"] for sample in line["samples"]] for line in events(folder, "samples_filled")]
    assert filled == [["the <mask> of"], ["the <mask> of"]]


def test_samples_are_filled_when_the_checkpoint_is_safe(tiny_runs: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    from tpudeck.training import trainer

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt  # ends the process, like a crash of the device would

    monkeypatch.setattr(trainer, "fill_sample", crash)
    folder = tiny_runs.run(
        tiny_experiment(train={"steps": 6, "eval_every": 2, "checkpoint_every": 2}, samples={"texts": ["the <mask>"]})
    )
    with pytest.raises(KeyboardInterrupt):
        train(folder)
    assert Checkpoints(folder / "checkpoints").find("last").step == 2


def test_what_to_do_about_a_loss_that_is_no_number_is_a_command_that_exists(tiny_runs: TinyRuns) -> None:
    settings = {"steps": 10, "learning_rate": 1e30, "clip_norm": None, "warmup": 1}
    folder = tiny_runs.run(tiny_experiment(train=settings))
    with pytest.raises(TrainingDivergedError) as caught:
        train(folder)
    assert caught.value.hint.startswith(f"tpudeck runs fork {folder.name} --set train.learning_rate=3.3e+29")
    assert json.loads((folder / "progress.json").read_text())["step"] == caught.value.step


def test_a_checkpoint_of_another_tokenizer_is_refused(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(train={"steps": 2}))
    train(folder)
    (manifest,) = folder.glob("checkpoints/*/manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"tokenizer_hash": "another"}))
    with pytest.raises(ArtefactError, match="was trained with the tokenizer another"):
        train(folder, attempt=2)


def test_a_stop_while_the_model_is_compiled_ends_the_stage_at_once(tiny_runs: TinyRuns) -> None:
    folder = tiny_runs.run(tiny_experiment(model={"layers": 40}, train={"xla": True}))
    job = jobs.start("train", folder, stdin=subprocess.PIPE, environ={jobs.CONTROL_PIPE: "1"})
    while not (folder / "events.jsonl").exists() or len(events(folder, "phase_changed")) < 2:
        assert job.running(), (folder / "console.log").read_text()
        time.sleep(0.05)
    assert job.process.stdin is not None
    job.process.stdin.close()
    with pytest.raises(InterruptedRunError, match="train was asked to stop"):
        job.result()
    assert job.process.returncode == 130
    assert not events(folder, "attempt_started")
