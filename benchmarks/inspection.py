"""Inspection: statistics of shard sets against readers that only read, and the Data screen. Exits with 1 where a bound
is broken.

* statistics of a set, every number of them: at least half the speed of reading it and checking its checksums with the
  fastest tool there is, TensorFlow's reader, with one thread and with one per core; also of a published set, whose
  integers have to be decoded
* statistics of a text, near copies among them: beside reading it, for information
* the Data screen, from the key to what a known set holds: under 0.3 s

Each way runs in a process of its own, imports not counted, in turns, and its best time counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

TURNS = 3
SEQUENCES, LENGTH, VOCABULARY, FILES = 600_000, 128, 10_048, 12
REQUIRED_SPEED, ALLOWED_OPENING_S = 0.5, 0.3


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TPUDECK_HOME"] = str(folder / "home")
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")  # installed code is compiled before it runs
        kept = [compare("compact", write_compact(folder / "home" / "artifacts" / "shards" / "compact"))]
        kept.append(compare("published", write_published(folder / "published")))
        about_text(folder / "text.txt")
        kept.append(opening(folder / "home"))
    return 0 if all(kept) else 1


# Shard sets to read.


def batches(sequences: int) -> Any:
    """Random tokens, as frequent as words are."""
    import numpy as np

    rng = np.random.default_rng(0)
    for _ in range(FILES):
        yield np.minimum(rng.zipf(1.2, (sequences // FILES, LENGTH)), VOCABULARY - 1).astype(np.int64)


def write_compact(folder: Path) -> Path:
    import google_crc32c
    import numpy as np

    from tpudeck.shards.layouts import Compact
    from tpudeck.shards.manifest import Manifest, Packing, ShardFile, SplitSummary, Tally

    layout = Compact(LENGTH, VOCABULARY)
    counts = np.zeros(VOCABULARY, dtype=np.int64)
    files = []
    for split in ("train", "validation"):
        (folder / split).mkdir(parents=True)
    for index, ids_NS in enumerate(batches(SEQUENCES)):
        octets = layout.encode(ids_NS)
        path = layout.file_name("train", index, len(ids_NS))
        (folder / path).write_bytes(octets)
        counts += np.bincount(ids_NS.ravel(), minlength=VOCABULARY)
        files.append(ShardFile(path, len(ids_NS), len(octets), google_crc32c.value(octets)))
    np.save(folder / "token-counts.npy", counts)
    roles = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3, "mask_id": 4, "special_ids": [0, 1, 2, 3, 4]}
    tokenizer = {"hash": "0" * 64, "vocab_size": VOCABULARY, **roles}
    train = SplitSummary(SEQUENCES, int(counts.sum()), 0, Tally(), {}, tuple(files))
    empty = SplitSummary(0, 0, 0, Tally(), {}, ())
    packing = Packing(LENGTH, "compact", SEQUENCES // FILES, True)
    splits = {"train": train, "validation": empty}
    Manifest("key", "hash", packing, tokenizer, "", {}, splits).save(folder)
    return folder


def write_published(folder: Path) -> Path:
    from tpudeck.shards.layouts import Published

    folder.mkdir()
    layout = Published(LENGTH)
    for index, ids_NS in enumerate(batches(SEQUENCES // 4)):
        (folder / f"dataset-{index}-{len(ids_NS)}.tfrecord").write_bytes(layout.encode(ids_NS))
    return folder


# Each way in its own process.


def measure(way: str, path: Path) -> float:
    command = [sys.executable, __file__, way, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    return float(json.loads(done.stdout.splitlines()[-1]))


def timed(work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    print(time.perf_counter() - started)


def compare(layout: str, folder: Path) -> bool:
    ways = ("tensorflow", "tensorflow_parallel", "inspect")
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TURNS):
        for way in ways:
            took[way].append(measure(way, folder))
    best = {way: min(times) for way, times in took.items()}
    size_mb = sum(path.stat().st_size for path in folder.rglob("*.tfrecord")) / 1e6
    ratio = min(best["tensorflow"], best["tensorflow_parallel"]) / best["inspect"]
    rates = ", ".join(f"{way.replace('_', ' in ')} {size_mb / seconds:.0f} MB/s" for way, seconds in best.items())
    what = f"{layout}, {size_mb:.0f} MB, {os.cpu_count()} cores: {rates}"
    return holds(f"{what}; statistics at {ratio:.2f}x (at least {REQUIRED_SPEED}x)", ratio >= REQUIRED_SPEED)


def tensorflow(folder: Path, readers: int | None = None) -> None:
    import tensorflow as tf

    files = sorted(map(str, folder.rglob("*.tfrecord")))
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=readers).batch(1024)
    timed(lambda: sum(int(batch.shape[0]) for batch in dataset))


def tensorflow_parallel(folder: Path) -> None:
    tensorflow(folder, os.cpu_count())


def inspect(folder: Path) -> None:
    from tpudeck.inspection.shards import inspect_shards
    from tpudeck.inspection.task import FASTER_THAN_TEXT
    from tpudeck.parallel import workers_for
    from tpudeck.shards import open_set

    size_bytes = sum(path.stat().st_size for path in folder.rglob("*.tfrecord"))
    timed(lambda: inspect_shards(open_set(folder), workers=workers_for(size_bytes / FASTER_THAN_TEXT)))


# Text.


def about_text(path: Path) -> None:
    from tpudeck.corpus.builtin import documents

    lines = [" ".join(documents()[at : at + 4]) for at in range(0, len(documents()), 4)]
    path.write_text("\n".join(f"{line} {copy}" for copy in range(20) for line in lines), encoding="utf-8")
    size_mb = path.stat().st_size / 1e6
    read_s, inspect_s = (min(measure(way, path) for _ in range(2)) for way in ("read_text", "inspect_text"))
    print(f"  text, {size_mb:.0f} MB: read {size_mb / read_s:.0f} MB/s, statistics {size_mb / inspect_s:.0f} MB/s")


def read_text(path: Path) -> None:
    from tpudeck.corpus import open_corpus
    from tpudeck.presets.schema import Corpus

    timed(lambda: sum(map(len, open_corpus(Corpus(source=str(path)), "train"))))


def inspect_text(path: Path) -> None:
    from tpudeck.corpus import open_corpus
    from tpudeck.inspection.corpora import inspect_corpus
    from tpudeck.parallel import workers_for
    from tpudeck.presets.schema import Corpus

    sides = [open_corpus(Corpus(source=str(path)), split) for split in ("train", "validation")]  # type: ignore[arg-type]
    timed(lambda: inspect_corpus(*sides, workers=workers_for(path.stat().st_size)))


# The Data screen.


def opening(root: Path) -> bool:
    """From the key that opens the screen to what a known set holds, in a console that has shown its first frame."""
    from tpudeck import jobs
    from tpudeck.config import Home
    from tpudeck.presets import Experiment
    from tui.terminal import terminal

    home = Home(root)
    request = {"shards": str(home.shards / "compact")}
    jobs.run("inspect-shards", Experiment(), request=request, home=home)
    times = []
    for _ in range(2 * TURNS + 1):
        with terminal(TPUDECK_HOME=str(root), size=(120, 40)) as console:
            console.until("no runs yet")
            console.read(1)
            before = time.monotonic() - console.started
            console.press("3")
            times.append(console.until("sequence length") - before)
    opened_s = statistics.median(times)
    return holds(
        f"the Data screen on a known set: {opened_s * 1e3:.0f} ms (under 300), fastest {min(times) * 1e3:.0f} ms",
        opened_s < ALLOWED_OPENING_S,
    )


def holds(text: str, good: bool) -> bool:
    print(f"{'✓' if good else '✗'} {text}", flush=True)
    return good


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    ways = (tensorflow, tensorflow_parallel, inspect, read_text, inspect_text)
    {way.__name__: way for way in ways}[sys.argv[1]](Path(sys.argv[2]))
