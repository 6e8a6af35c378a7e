"""The stages of a run, faked: ``python -m fakes.stages TASK FOLDER``.

Training is a number that is multiplied and hashed once per step, so its whole history follows from the seed and the
step, like a real run's: a resumed run must end with the same number as one that was never interrupted. How it behaves
is in ``fake.json`` of the run folder: ``step_s``, ``checkpoint_every``, and what goes wrong.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpudeck import jobs
from tpudeck.config import read_toml
from tpudeck.errors import CorpusError
from tpudeck.runs.events import AttemptStarted, CheckpointRejected, CheckpointSaved, Evaluated, PhaseChanged
from tpudeck.storage import read_json, write_json


def behaviour(folder: Path) -> dict[str, Any]:
    path = folder / "fake.json"
    return dict(read_json(path)) if path.exists() else {}


def loss_after(step: int) -> float:
    """The loss of a step: falling, with noise that depends on the step alone."""
    noise = int.from_bytes(hashlib.sha256(str(step).encode()).digest()[:4], "big") / 2**32
    return 5 / (1 + step / 50) + 0.01 * noise


def next_state(state: int, step: int) -> int:
    """The "weights" after one more step; any step left out or done twice shows in them."""
    return int.from_bytes(hashlib.sha256(f"{state}:{step}".encode()).digest()[:6], "big")


def state_after(steps: int) -> int:
    state = 0
    for step in range(1, steps + 1):
        state = next_state(state, step)
    return state


def prepare(job: jobs.Job) -> Mapping[str, Any]:
    """Tokenizer or shards: ten units of work, found ready when they were done before."""
    how = behaviour(job.folder)
    if message := how.get(f"{job.task}_error"):
        raise CorpusError(message, hint="say which one")
    ready = job.folder / f"{job.task}.ready"
    if ready.exists():
        return {"folder": str(ready), "hash": "0" * 64, "cached": True}
    for done in range(10):
        job.check_stop()
        job.progress(done, 10, "units", force=True)
        time.sleep(how.get("prepare_s", how.get("step_s", 0.01)))
    ready.touch()
    return {"folder": str(ready), "hash": "0" * 64, "cached": False, "vocab_size": 2048}


def newest_checkpoint(job: jobs.Job) -> dict[str, int]:
    """The newest checkpoint that is whole; a damaged one is said to be so, and the one before is taken."""
    for path in sorted((job.folder / "checkpoints").glob("step-*/manifest.json"), reverse=True):
        try:
            found = read_json(path)
            if found["digest"] == hashlib.sha256(f"{found['step']}:{found['state']}".encode()).hexdigest():
                return dict(found)
        except (ValueError, KeyError):
            pass
        job.writer.event(CheckpointRejected(step=int(path.parent.name[5:]), reason="its digest does not match"))
    return {"step": 0, "state": 0}


def save_checkpoint(job: jobs.Job, step: int, state: int) -> None:
    folder = job.folder / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(f"{step}:{state}".encode()).hexdigest()
    write_json(folder / "manifest.json", {"step": step, "state": state, "digest": digest})
    job.writer.event(CheckpointSaved(step=step, path=f"checkpoints/{folder.name}", size_bytes=1))


def train(job: jobs.Job) -> Mapping[str, Any]:
    how = behaviour(job.folder)
    steps = int(read_toml(job.folder / "experiment.toml")["train"]["steps"])
    say_phase(job, "compiling", how.get("compile_promise_s", 60.0))
    time.sleep(how.get("compile_s", 0.0))
    found = newest_checkpoint(job)
    state, first = found["state"], found["step"]
    job.writer.event(AttemptStarted(resume_from_step=first))
    say_phase(job, "training", how.get("promise_s", 60.0))
    for step in range(first + 1, steps + 1):
        state = next_state(state, step)
        one_step(job, how, step, steps)
        asked = job.folder / "requests" / "checkpoint.json"
        if job.stopping or step % how.get("checkpoint_every", 10) == 0 or step == steps or asked.exists():
            asked.unlink(missing_ok=True)
            save_checkpoint(job, step, state)
        if step < steps:
            job.check_stop()
    return {"steps": steps, "state": state}


def say_phase(job: jobs.Job, phase: str, promise_s: float) -> None:
    job.writer.event(PhaseChanged(phase=phase, promise_s=promise_s))


def one_step(job: jobs.Job, how: Mapping[str, Any], step: int, steps: int) -> None:
    time.sleep(how.get("step_s", 0.001))
    if step == how.get("exit_at"):
        os._exit(how["exit_code"])
    loss = float("nan") if step == how.get("nan_at") else loss_after(step)
    slow = how.get("slow_from", steps + 1) <= step
    job.writer.metrics(
        step,
        loss=loss,
        tokens_per_s=100.0 if slow else 1000.0,
        step_s=how.get("step_s", 0.001),
        input_wait_s=how.get("input_wait_s", 0.0),
    )
    job.progress(step, steps, "steps", force=step == steps, step=step, loss=loss, tokens_per_s=1000.0)
    if step % how.get("eval_every", 20) == 0:
        job.writer.event(
            Evaluated(
                step=step, eval_loss=loss + 0.1, perplexity=1.0, accuracy=0.5, baseline_loss=6.0, targets=10, best=True
            )
        )


if __name__ == "__main__":
    print(f"{sys.argv[1]} says [1.2] hello")
    jobs.main({"tokenizer": prepare, "shards": prepare, "train": train})
