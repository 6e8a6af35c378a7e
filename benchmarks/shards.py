"""Shards: how fast they are built, and how much memory that takes.

Everything is measured in one run on the same text, from the text file to shards on disk, each way in a process of its
own, imports not counted; every way twice, taken in turns, and the better one counts. The text is shaped like WikiText:
a row is a paragraph, a heading or blank, punctuation stands alone, and there is always another rare word.

The published way is written here from its description: rows in batches of 1000 through the fast tokenizer of
Transformers inside ``datasets.map``, lists concatenated with ``sum``, cut into sequences batch by batch, one
``tf.train.Example`` of two int64 lists per sequence, written by TensorFlow; ``map`` works in four processes.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEQUENCE_LENGTH = 128
SMALL_MB, LARGE_MB = 25, 250
TURNS = 2
REQUIRED_SPEEDUP, ALLOWED_OVERHEAD, ALLOWED_GROWTH = 5.0, 1.0, 1.2


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TPUDECK_HOME"] = str(folder / "home")
        small, large = folder / "small.txt", folder / "large.txt"
        write_text(small, SMALL_MB)
        write_text(large, LARGE_MB)
        tokenizer = train_tokenizer()
        ways = ("published", "encode", "build_alone", "build")
        took: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(TURNS):
            for way in ways:
                took[way].append(measure(way, small, tokenizer, folder))
        published, encode, alone, build = (min(took[way], key=lambda result: float(result["wall_s"])) for way in ways)
        grown = measure("build", large, tokenizer, folder)
    print(f"{SMALL_MB} MB of text, sequences of {SEQUENCE_LENGTH}, {os.cpu_count()} cores")
    shown = {"published way": published, "encoder alone": encode, "tpudeck, 1 process": alone, "tpudeck": build}
    for what, result in shown.items():
        print(
            f"  {what:18} {result['wall_s']:7.1f} s, {result['cpu_s']:6.1f} s of CPU, {result['sequences']:,} sequences"
        )
    mebibytes = [result["peak_bytes"] / 2**20 for result in (build, grown)]
    print(f"  peak memory: {mebibytes[0]:.0f} MiB for {SMALL_MB} MB of text, {mebibytes[1]:.0f} MiB for {LARGE_MB} MB")
    kept = [
        holds("faster than the published way", published["wall_s"] / build["wall_s"], at_least=REQUIRED_SPEEDUP),
        holds("the time of the encoder alone", build["wall_s"] / encode["wall_s"], at_most=ALLOWED_OVERHEAD),
        holds(f"the memory, for {LARGE_MB // SMALL_MB}x the text", mebibytes[1] / mebibytes[0], at_most=ALLOWED_GROWTH),
    ]
    sys.exit(0 if all(kept) else 1)


def holds(what: str, ratio: float, *, at_least: float = 0.0, at_most: float = float("inf")) -> bool:
    """Print a ratio beside its bound."""
    bound = f"at least {at_least}" if at_least else f"at most {at_most}"
    good = at_least <= ratio <= at_most
    print(f"  {ratio:.2f}x {what} ({bound}x is promised{'' if good else ': BROKEN'})")
    return good


def write_text(path: Path, megabytes: int) -> None:
    """Text like WikiText's, until there is enough: the built-in corpus again and again, its marks parted from its
    words, and one word in fifteen a made-up one, as names are: of a million, and never all of them seen."""
    from tpudeck.corpus.builtin import documents

    rng = random.Random(0)
    syllables = [first + vowel for first in "bdfklmnr" for vowel in "aeiu"]
    tokens = [re.findall(r"\w+|[^\w\s]+", document) for document in documents()]
    paragraph: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 10**6:
            for token in itertools.chain.from_iterable(tokens):
                rare = rng.random() < 1 / 15
                paragraph.append("".join(rng.choices(syllables, k=rng.randint(1, 4))) if rare else token)
                if len(paragraph) > 40 and (token == "." or len(paragraph) > 250):
                    if rng.random() < 0.3:
                        file.write(f" \n = {' '.join(paragraph[:3])} = \n \n")
                    file.write(f" {' '.join(paragraph)} \n")
                    paragraph = []


def train_tokenizer() -> Path:
    """The published recipe's: Unigram of 10,048, here trained on the built-in corpus."""
    from tpudeck import jobs
    from tpudeck.presets import experiment_from

    experiment = experiment_from(
        {"tokenizer": {"kind": "unigram", "vocab_size": 10_048}, "train": {"steps": 1, "global_batch_size": 1}}
    )
    return Path(jobs.run("tokenizer", experiment)["folder"])


def measure(way: str, text: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """Run one way in a child, in a new folder."""
    out = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, __file__, way, str(text), str(tokenizer), str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    return dict(json.loads(done.stdout.splitlines()[-1])) | {"out": str(out)}


def timed(work: Callable[[], int], children: int = 0) -> None:
    """Do the work and print what it took, as the last line; with the memory of so many children."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    sequences = work()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    own, largest_child = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    peak_bytes = (own + children * largest_child) * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "sequences": sequences, "peak_bytes": peak_bytes}))


def cpu_seconds() -> float:
    """Of this process and those that it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def encode(text: Path, tokenizer: Path, _out: Path) -> None:
    """The Rust encoder with all its threads, on documents that are in memory already; what it finds is thrown away."""
    from tpudeck.tokenizer import load

    rust = load(tokenizer).rust
    lines = text.read_text(encoding="utf-8").splitlines()

    def work() -> int:
        for first in range(0, len(lines), 1000):
            rust.encode_batch_fast(lines[first : first + 1000], add_special_tokens=False)
        return 0

    timed(work)


def build_alone(text: Path, tokenizer: Path, out: Path) -> None:
    """The shards stage in one process."""
    build(text, tokenizer, out, processes=1)


def build(text: Path, tokenizer: Path, out: Path, processes: int | None = None) -> None:
    """The shards stage: reads, splits, encodes, packs, writes, counts."""
    from tpudeck.jobs import Job
    from tpudeck.presets import experiment_from, save_experiment
    from tpudeck.runs.writer import RunWriter
    from tpudeck.shards.task import build_shards
    from tpudeck.storage import write_json
    from tpudeck.tokenizer.encoding import most_processes

    experiment = experiment_from(
        {
            "corpus": {"source": str(text)},
            "shards": {"sequence_length": SEQUENCE_LENGTH},
            "train": {"steps": 1, "global_batch_size": 1},
        }
    )
    save_experiment(experiment, out / "experiment.toml")
    write_json(out / "request.json", {"tokenizer": str(tokenizer), "out": str(out / "set")})
    job = Job("shards", out, RunWriter(out), threading.Event())

    def work() -> int:
        result = build_shards(job, processes)
        return int(result["train"]["sequences"] + result["validation"]["sequences"])

    timed(work, children=0 if processes == 1 else most_processes())


def published(text: Path, tokenizer: Path, out: Path) -> None:
    """The way that users come from."""
    import datasets
    import tensorflow as tf
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    rust = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    ends = [(token, rust.token_to_id(token)) for token in ("<s>", "</s>")]
    rust.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    fast = PreTrainedTokenizerFast(tokenizer_object=rust)
    shard_records = 1000

    def tokenize(batch: dict[str, list[str]]) -> Any:
        return fast(batch["text"])

    def group(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined: dict[str, list[int]] = {name: sum(lists, []) for name, lists in batch.items()}  # noqa: RUF017
        total = len(joined["input_ids"]) // SEQUENCE_LENGTH * SEQUENCE_LENGTH
        starts = range(0, total, SEQUENCE_LENGTH)
        return {name: [tokens[at : at + SEQUENCE_LENGTH] for at in starts] for name, tokens in joined.items()}

    def int64(values: list[int]) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def work() -> int:
        rows = datasets.load_dataset("text", data_files=str(text), split="train", cache_dir=str(out / "cache"))
        encoded = rows.map(tokenize, batched=True, batch_size=1000, num_proc=4, remove_columns=["text"])
        grouped = encoded.map(group, batched=True, batch_size=1000, num_proc=4)
        for shard, first in enumerate(range(0, len(grouped), shard_records)):
            batch = grouped[first : first + shard_records]
            count = len(batch["input_ids"])
            with tf.io.TFRecordWriter(str(out / f"dataset-{shard}-{count}.tfrecord")) as writer:
                for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
                    features = tf.train.Features(feature={"input_ids": int64(ids), "attention_mask": int64(mask)})
                    writer.write(tf.train.Example(features=features).SerializeToString())
        return len(grouped)

    timed(work)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        way: Callable[..., None] = globals()[sys.argv[1]]
        way(*map(Path, sys.argv[2:]))
