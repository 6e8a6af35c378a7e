"""Run folders as a launcher, a supervisor and a trainer would leave them, without any of the three."""

from __future__ import annotations

import fcntl
import math
import os
import random
import time
from typing import Any

import orjson

from tpudeck.config import Home
from tpudeck.runs.events import (
    AlertRaised,
    AttemptStarted,
    CheckpointSaved,
    Evaluated,
    Noticed,
    PhaseChanged,
    SamplesFilled,
    StageFinished,
    StageStarted,
)
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import write_json


class FakeRun:
    """A run folder that says of itself what it is told to."""

    def __init__(
        self,
        home: Home,
        name: str = "quickstart",
        *,
        created: float | None = None,
        preset: str = "quickstart",
        tags: tuple[str, ...] = (),
        note: str = "",
        total_steps: int = 5400,
        experiment: str = "",
        number: int = 0,
    ) -> None:
        self.created = time.time() if created is None else created
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.created))
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name) or "run"
        self.folder = home.runs / f"{stamp}-{safe}-{number:04x}"
        self.folder.mkdir(parents=True)
        self.total_steps = total_steps
        self._lock: int | None = None
        write_json(
            self.folder / "run.json",
            {"format_version": 1, "id": self.folder.name, "name": name, "preset": preset, "argv": ["tpudeck", "run"],
             "host": "host", "user": "user", "created": self.created, "device": "cpu", "versions": {}},
        )  # fmt: skip
        write_json(self.folder / "meta.json", {"name": name, "tags": list(tags), "note": note})
        (self.folder / "experiment.toml").write_text(experiment or _EXPERIMENT)
        (self.folder / "requests").mkdir()

    def status(self, status: str, **more: Any) -> None:
        write_json(
            self.folder / "status.json",
            {"status": status, "attempt": 0, "started": self.created + 1, "heartbeat": time.time(),
             "heartbeat_promise_s": 3600.0} | more,
        )  # fmt: skip

    def train(
        self, steps: int, *, every: int = 50, nan_at: int | None = None, seed: int = 0, floor: float = 4.6
    ) -> None:
        """What a trainer writes in so many steps, at the pace of the quickstart."""
        chance = random.Random(seed)
        writer = RunWriter(self.folder)
        writer.event(StageStarted(stage="tokenizer"))
        writer.event(StageFinished(stage="tokenizer", cached=True))
        writer.event(StageStarted(stage="train"))
        writer.event(AttemptStarted(resume_from_step=0))
        writer.event(PhaseChanged(phase="training", promise_s=60))
        writer.event(Noticed(message="15,000 documents, 1.84M characters"))
        lines = []
        for step in range(every, steps + 1, every):
            loss = floor + 3.1 * math.exp(-step / 900) + chance.gauss(0, 0.06)
            lines.append(
                {"step": step, "time": self.created + 20 + step * 0.033, "attempt": 0,
                 "loss": "NaN" if step == nan_at else loss,
                 "learning_rate": 2.5e-3 * min(1, step / 324) * max(0, 1 - step / 5400),
                 "grad_norm": 1.5 * math.exp(-step / 3000) + chance.random() * 0.4,
                 "tokens_per_s": 31_000 + chance.gauss(0, 900), "step_s": 0.033, "input_wait_s": 0.0012,
                 "device_s": 0.0314, "host_s": 0.0004,
                 "tokens": step * 1024, "epoch": step * 16 / 9000}
            )  # fmt: skip
        with (self.folder / "metrics.jsonl").open("ab") as file:
            file.writelines(orjson.dumps(line) + b"\n" for line in lines)
        fifth = max(1, self.total_steps // 5)
        for step in range(fifth, steps + 1, fifth):
            loss = floor + 0.25 + 2.6 * math.exp(-step / 1100)
            writer.event(
                Evaluated(step=step, eval_loss=loss, perplexity=math.exp(loss), accuracy=0.13 * step / self.total_steps,
                          baseline_loss=6.21, targets=7200, best=True)
            )  # fmt: skip
            writer.event(
                CheckpointSaved(step=step, path=f"checkpoints/step-{step:08d}", size_bytes=9_400_000, best=True)
            )
            writer.event(SamplesFilled(step=step, samples=(
                {"text": "The method returns a <mask> of strings.", "filled": "The method returns a list of strings.",
                 "answers": [[{"token": "list", "probability": 0.31}, {"token": "set", "probability": 0.12}]]},
            )))  # fmt: skip
        writer.close()

    def machine(self, count: int, *, tpu: bool = True) -> None:
        """What the sampler of a run writes in so many looks."""
        gib = 1024**3
        cores = [
            {"index": index, "kind": "tpu", "name": "v5e", "duty_cycle_percent": 99.0,
             "tensorcore_percent": 41.0 + index, "hbm_used_bytes": 9 * gib, "hbm_total_bytes": 16 * gib, "missing": {}}
            for index in range(4 if tpu else 0)
        ]  # fmt: skip
        with (self.folder / "system.jsonl").open("ab") as file:
            for look in range(count):
                host = {"cpu_percent": 20.0 + look % 7, "cpu_count": 24, "load_1m": 3.0, "memory_used_bytes": 8 * gib,
                        "memory_total_bytes": 48 * gib}  # fmt: skip
                line = {"time": self.created + 20 + 10 * look, "host": host, "cores": cores, "notes": []}
                file.write(orjson.dumps(line) + b"\n")

    def alert(self, message: str) -> None:
        writer = RunWriter(self.folder)
        writer.event(AlertRaised(alert="input_bound", message=message, step=100))
        writer.close()

    def finish(self, status: str = "finished", error: dict[str, str] | None = None, **more: Any) -> None:
        latest = {"stage": "train", "phase": "training", "done": self.total_steps, "total": self.total_steps,
                  "unit": "steps", "step": self.total_steps, "total_steps": self.total_steps, "loss": 4.7,
                  "eval_loss": 4.9, "best_eval_loss": 4.9, "baseline_loss": 6.21, "tokens_per_s": 31000.0,
                  "step_s": 0.033}  # fmt: skip
        self.status(status, latest=latest | more, ended=self.created + 200, exit_code=0, error=error)

    def live(self, **latest: Any) -> None:
        """As if its supervisor lived: this process holds the lock."""
        self._lock = os.open(self.folder / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.status("running", latest={"stage": "train", "phase": "training", "total_steps": self.total_steps} | latest)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


_EXPERIMENT = """
name = "quickstart"
[tokenizer]
vocab_size = 2048
[shards]
sequence_length = 64
[model]
layers = 2
width = 128
heads = 4
[train]
steps = 5400
global_batch_size = 16
learning_rate = 2.5e-3
"""


def fill(home: Home, count: int = 12) -> list[FakeRun]:
    """A home with runs of every kind."""
    words = ("finished", "stopped", "failed", "killed", "finished", "finished")
    runs = []
    for index in range(count):
        run = FakeRun(home, f"run-{index:02d}", created=time.time() - 3600 * (count - index), number=index,
                      tags=("ablation",) if index % 3 == 0 else ())  # fmt: skip
        run.train(5400, seed=index, floor=4.4 + 0.1 * (index % 5))
        run.finish(words[index % len(words)], loss=4.4 + 0.1 * index, tokens_per_s=30_000 + 100 * index)
        runs.append(run)
    return runs


if __name__ == "__main__":
    home = Home.here()
    fill(home)
    run = FakeRun(home, "live-one")
    run.train(2700)
    run.machine(9)
    run.alert("the device waits for batches 12 % of the time [input_bound]")
    run.live(step=2700, done=2700, total=5400, unit="steps", loss=4.8, tokens_per_s=31_000.0, step_s=0.033)
    (run.folder / "console.log").write_text(
        "loading [tokenizer]\n10%|#   |\r50%|##  |\r100%|####|\ntraining \x1b[31mred\x1b[0m\n"
    )
    step = 2700
    while True:
        time.sleep(1)
        writer = RunWriter(run.folder)
        step += 50
        writer.metrics(
            step,
            loss=4.6 + 3.1 * math.exp(-step / 900) + random.gauss(0, 0.06),
            learning_rate=1e-3,
            grad_norm=1.0 + random.random() / 3,
            tokens_per_s=31_000 + random.gauss(0, 900),
            step_s=0.033,
            input_wait_s=0.001,
            tokens=step * 1024,
            epoch=step * 16 / 9000,
        )
        writer.progress(
            force=True, task="train", done=step, total=5400, unit="steps", step=step, loss=4.8, tokens_per_s=31_000.0
        )
        writer.close()
