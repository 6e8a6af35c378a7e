"""The same with real training: killed in every phase, a run must end with the weights it would have had, bit by bit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes import runs
from faults.report import Report
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.presets import resolve
from tpudeck.runs.reader import RunReader, RunSnapshot
from tpudeck.runs.status import is_live
from tpudeck.storage import read_json

__all__ = ["PHASES", "run_real"]

SETTINGS = [
    "tokenizer.kind=byte_bpe", "tokenizer.vocab_size=512", "tokenizer.sample_mb=0.2", "corpus.max_documents=3000",
    "shards.sequence_length=16", "model.layers=1", "model.width=16", "model.heads=2", "model.dropout=0.1",
    "train.steps=40", "train.global_batch_size=8", "train.steps_per_call=2", "train.log_every=2",
    "train.eval_every=20", "train.checkpoint_every=10", "device.kind=cpu", "device.threads=1", "samples.texts=[]",
]  # fmt: skip

PHASES: dict[str, Callable[[RunSnapshot], bool]] = {
    "tokenizer": lambda now: now.summary.stage == "tokenizer" and now.summary.trainer_pid is not None,
    "shards": lambda now: now.summary.stage == "shards" and now.summary.trainer_pid is not None,
    "starting": lambda now: now.summary.stage == "train" and now.summary.status == "starting",
    "compiling": lambda now: now.summary.phase == "compiling",
    "between steps": lambda now: now.summary.phase == "training" and (now.summary.step or 0) >= 14,
    "evaluating": lambda now: now.summary.phase == "evaluating",
    "writing a checkpoint": lambda now: now.summary.phase == "checkpointing",
}
_PATIENCE_S = 600.0


def run_real(root: Path, report: Report, *, seed: int, count: int, say: Callable[[str], None]) -> None:
    """Kill `count` real runs, each in another phase, and compare them with one that was left alone."""
    reference = Home(root / "real-reference")
    expected = _outcome(_finished(_started(reference)))
    phases = list(PHASES)
    for number in range(count):
        draw = random.Random(f"{seed}/real/{number}")
        phase, whom = phases[number % len(phases)], draw.choice(["trainer", "supervisor"])
        say(f"seed {seed}/real/{number}: SIGKILL to the {whom}, {phase}")
        label = f"seed {seed}/real/{number}"
        # What the reference has made is found ready, except where its making is what is killed.
        folder = _started(Home(root / f"real-{number}") if phase in {"tokenizer", "shards"} else reference)
        snapshot = _wait(folder, PHASES[phase])
        pid = snapshot.summary.trainer_pid if whom == "trainer" else snapshot.summary.supervisor_pid
        if pid is not None:  # else it was over before it could be seen, and nothing is injected
            os.kill(pid, signal.SIGKILL)
            report.injected[f"real training: SIGKILL to the {whom}, {phase}"] += 1
        _wait(folder, lambda now: not now.summary.live)
        while is_live(folder):
            time.sleep(0.01)
        if RunReader(folder).refresh().summary.status != "finished":
            launch.resume(folder)
        got = _outcome(_finished(folder))
        if got["loss"] != expected["loss"]:
            report.lost_records.append(f"{label}: the losses of {phase}")
        if got["weights"] != expected["weights"]:
            report.differing_bits.append(f"{label}: the weights after {phase}")


def _started(home: Home) -> Path:
    os.environ["TPUDECK_HOME"] = str(home.root)
    folder = launch.create(resolve("quickstart", home=home, overrides=SETTINGS).experiment, home=home, name="real")
    launch.start(folder)
    return folder


def _wait(folder: Path, until: Callable[[RunSnapshot], bool]) -> RunSnapshot:
    """Look until something is so, or the run has ended before it could be seen."""
    reader = RunReader(folder)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        snapshot = reader.refresh()
        if until(snapshot) or not snapshot.summary.live:
            return snapshot
        time.sleep(0.005)
    raise TimeoutError(f"{folder}: {snapshot.summary}")


def _finished(folder: Path) -> Path:
    summary = _wait(folder, lambda now: not now.summary.live).summary
    if summary.status != "finished":
        raise RuntimeError(f"{summary}\n{(folder / 'console.log').read_text(errors='replace')[-3000:]}")
    runs.wait_until(lambda: not is_live(folder))
    return folder


def _outcome(folder: Path) -> dict[str, Any]:
    """The losses of all steps, and the checksums of the newest checkpoint's files."""
    loss = RunReader(folder).refresh().metrics["loss"]
    newest = max((folder / "checkpoints").glob("*/manifest.json"))
    return {
        "loss": list(zip(loss.step.tolist(), loss.value.tolist(), strict=True)),
        "weights": read_json(newest)["files"],
    }
