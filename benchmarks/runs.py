"""What supervision and the run store cost. Ratios of one run; exits with 1 where one is beyond its limit.

* the supervisor, its heartbeat and the writing of metrics: under 1 % of step time
* the supervisor, while its stage is busy: under 0.1 % of a CPU, under 40 MB
* a run of a million logged points: read in 1.5x of orjson alone over the file; its tail in half a second; again in
  a tenth
* 10,000 runs: about a second of CPU at first, under half of that again
* ``tpudeck --help`` and ``tpudeck runs list``: under 1.5x the CPU of importing Typer
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import runs
from tpudeck.config import Home
from tpudeck.runs.index import RunIndex
from tpudeck.runs.reader import RunReader
from tpudeck.runs.writer import RunWriter

POINTS = 1_000_000
RUNS = 10_000
TRIES = 3
STEP_S = 0.033
"""Of the quickstart on two cores: a short step, so the share is the worst."""
METRICS = {
    "loss": 5.4321, "learning_rate": 1.2345e-4, "grad_norm": 1.23456, "tokens_per_s": 5830.12, "step_s": 0.033123,
    "input_wait_s": 0.000123, "tokens": 1.0e9, "epoch": 3.25,
}  # fmt: skip

failures: list[str] = []


def told(name: str, value: float, limit: float, unit: str) -> None:
    print(f"{name:58} {value:9.3f} {unit:6} (limit {limit:g})", flush=True)
    if value > limit:
        failures.append(name)


def cpu_s(work: Callable[[], Any], *, prepare: Callable[[], Any] = lambda: None) -> float:
    """The least CPU time of a few tries."""
    times = []
    for _ in range(TRIES):
        prepare()
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


def wall_s(work: Callable[[], Any]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def overhead(root: Path) -> None:
    """CPU of the supervisor and of writing, per step, as a share of a step."""
    home = Home(root / "overhead")
    os.environ |= {"TPUDECK_HOME": str(home.root), "TPUDECK_LOCKS": str(root / "locks")}
    folder = runs.begin(home, steps=10**9, step_s=STEP_S, prepare_s=0.001, checkpoint_every=10**9, eval_every=10**9)
    supervisor = psutil.Process(runs.at_step(folder, 5).summary.supervisor_pid)
    time.sleep(5)
    began, before_s = time.monotonic(), running_s(supervisor.pid)
    time.sleep(20)
    share = (running_s(supervisor.pid) - before_s) / (time.monotonic() - began)
    told("supervisor: CPU", 100 * share, 0.1, "%")
    told("supervisor: memory", supervisor.memory_info().rss / 1e6, 40, "MB")
    runs.end_everything(home)
    writing_s = cost_of_writing(root)
    told("supervisor and writing a line every step: share of it", 100 * (share + writing_s / STEP_S), 1, "%")


def running_s(pid: int) -> float:
    """CPU time of a process to the nanosecond; the usual counters tick in hundredths of a second."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def cost_of_writing(root: Path) -> float:
    """Seconds of CPU for one line of metrics and one look at the progress file."""
    writer = RunWriter(root, attempt=1)
    count = 20_000

    def write() -> None:
        for step in range(count):
            writer.metrics(step, **METRICS)
            writer.progress(task="train", done=step, total=count, unit="steps", step=step, loss=1.0)

    return cpu_s(write) / count


def reading(root: Path) -> None:
    folder = root / "million"
    folder.mkdir()
    (folder / "run.json").write_text('{"name": "million", "created": 1}')
    path = folder / "metrics.jsonl"
    with path.open("wb") as file:
        for step in range(1, POINTS + 1):
            line = {"step": step, "time": 1.7e9 + step / 10, "attempt": 1} | METRICS | {"loss": 1 / step}
            file.write(orjson.dumps(line) + b"\n")

    def parse() -> None:
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)

    def wait_for_copy() -> None:
        for thread in threading.enumerate():
            if thread.name == "metrics-copy":
                thread.join()

    def forget() -> None:
        """The parsed copy that the read before has made."""
        wait_for_copy()
        shutil.rmtree(folder / ".cache", ignore_errors=True)

    tail = RunReader(folder)
    told("a million points: their tail", wall_s(lambda: tail.refresh(budget_s=0.3)), 0.5, "s")
    ratio = cpu_s(lambda: RunReader(folder).refresh(), prepare=forget) / cpu_s(parse)
    told("a million points: all of them, against orjson alone", ratio, 1.5, "x")
    wait_for_copy()
    told("a million points: again", statistics.median(wall_s(RunReader(folder).refresh) for _ in range(5)), 0.1, "s")


def listing(root: Path) -> None:
    home = Home(root / "many")
    for number in range(RUNS):
        folder = home.runs / f"20260101-{number:06d}-run-{number % 65536:04x}"
        folder.mkdir(parents=True)
        about = {
            "name": f"run-{number}",
            "created": 1.7e9 + number,
            "argv": ["tpudeck", "run", "quickstart"],
            "git": None,
        }
        latest = {"step": 5400, "total_steps": 5400, "loss": 5.0, "eval_loss": 5.1, "tokens_per_s": 3000.0}
        (folder / "run.json").write_bytes(orjson.dumps(about))
        (folder / "meta.json").write_bytes(b'{"tags": ["a"]}')
        (folder / "status.json").write_bytes(
            orjson.dumps({"status": "finished", "attempt": 1, "started": 1.7e9, "ended": 1.8e9, "latest": latest})
        )

    def first() -> None:
        (home.cache / "runs.json").unlink(missing_ok=True)
        RunIndex(home).refresh()

    at_first = cpu_s(first)
    told("10,000 runs: CPU at first", at_first, 1.0, "s")
    told("10,000 runs: CPU again, against the first time", cpu_s(lambda: RunIndex(home).refresh()) / at_first, 0.5, "x")


def starting(root: Path) -> None:
    """CPU of whole commands. With bytecode: what an installed program has."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"TPUDECK_HOME": str(root / "empty")}

    def command(*words: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, *words], env=environ, check=True, capture_output=True)

    def child_cpu_s(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(10):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            work()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times[1:])

    typer = child_cpu_s(command("-c", "import typer"))
    for words in (["--help"], ["runs", "list"]):
        run = child_cpu_s(command("-c", "from tpudeck.cli import main; main()", *words))
        told(f"tpudeck {' '.join(words)}: CPU against importing Typer", run / typer, 1.5, "x")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tpudeck-bench-") as root:
        for part in (starting, listing, reading, overhead):
            part(Path(root))
    for name in failures:
        print(f"beyond its limit: {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
