"""Training speed on this machine's CPU against the published way, as ratios measured in one run.

The published way, written here from its description: Keras `fit` on Transformers' class, masks drawn by tf.data, every
position projected onto the vocabulary, no XLA. Ours: the loop that `tpudeck run` uses, fed the same way. Each runs in
a process of its own; they take turns, so that whatever else the machine does meets all of them, and the ratio is the
median over the rounds.

    python benchmarks/training.py [--rounds 7] [--size published|small]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TARGETS = {"float32": 1.6, "bfloat16": 2.1}


@dataclass(frozen=True)
class Size:
    """What is trained."""

    layers: int
    width: int
    heads: int
    vocab_size: int
    batch: int
    length: int
    dropout: float
    steps: int
    """In a round."""

    @property
    def tokens(self) -> int:
        return self.steps * self.batch * self.length


SIZES = {
    "published": Size(layers=4, width=256, heads=4, vocab_size=10_048, batch=32, length=128, dropout=0.1, steps=4),
    "small": Size(layers=2, width=128, heads=4, vocab_size=2_048, batch=16, length=64, dropout=0.0, steps=60),
}
SPECIALS = (0, 1, 2, 3, 4)
MASK_ID, PAD_ID = 4, 1
Round = Callable[[], None]


def sequences(size: Size) -> npt.NDArray[np.int32]:
    """Token ids with a natural language's frequencies, enclosed in specials."""
    rng = np.random.default_rng(0)
    ids = (rng.zipf(1.2, (2048, size.length)) - 1) % (size.vocab_size - len(SPECIALS)) + len(SPECIALS)
    ids[:, 0], ids[:, -1] = 0, 2
    return ids.astype(np.int32)


def keras_fit(size: Size) -> Round:
    """The published way."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    import transformers

    config = transformers.RobertaConfig(
        vocab_size=size.vocab_size,
        num_hidden_layers=size.layers,
        hidden_size=size.width,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        max_position_embeddings=size.length + 2,
        hidden_dropout_prob=size.dropout,
        attention_probs_dropout_prob=size.dropout,
    )
    model = transformers.TFRobertaForMaskedLM(config)
    optimizer, _ = transformers.create_optimizer(1e-4, 100_000, 5_000, weight_decay_rate=1e-3)
    model.compile(optimizer=optimizer, jit_compile=False)

    def mask(ids: tf.Tensor) -> dict[str, tf.Tensor]:
        ordinary = tf.reduce_all([ids != special for special in SPECIALS], axis=0)
        chosen = (tf.random.uniform(tf.shape(ids)) < 0.15) & ordinary
        kind = tf.random.uniform(tf.shape(ids))
        other = tf.random.uniform(tf.shape(ids), maxval=size.vocab_size, dtype=tf.int32)
        shown = tf.where(kind < 0.8, MASK_ID, tf.where(kind < 0.9, other, ids))
        labels = tf.where(chosen, ids, -100)
        return {"input_ids": tf.where(chosen, shown, ids), "attention_mask": tf.ones_like(ids), "labels": labels}

    data = tf.data.Dataset.from_tensor_slices(sequences(size)).shuffle(2048).repeat()
    data = data.batch(size.batch, drop_remainder=True).map(mask, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.prefetch(tf.data.AUTOTUNE)
    return lambda: model.fit(data, epochs=1, steps_per_epoch=size.steps, verbose=0)


def our_loop(size: Size, precision: str) -> Round:
    """What `tpudeck run` does between two looks at the outside."""
    from tpudeck.presets import experiment_from
    from tpudeck.training.batches import Ahead, Batches
    from tpudeck.training.configuration import Vocabulary
    from tpudeck.training.loop import StepLoop
    from tpudeck.training.model import build_model
    from tpudeck.training.optimizer import AdamW
    from tpudeck.training.step import TrainStep, batch_specs
    from tpudeck.training.strategy import connect

    experiment = experiment_from(
        {
            "tokenizer": {"vocab_size": size.vocab_size},
            "shards": {"sequence_length": size.length},
            "model": {"layers": size.layers, "width": size.width, "heads": size.heads, "dropout": size.dropout},
            "train": {"steps": 1, "global_batch_size": size.batch, "precision": precision},
            "device": {"kind": "cpu"},
        }
    )
    machine = connect(experiment)
    model = build_model(experiment, Vocabulary(size.vocab_size, PAD_ID, 0, 2))
    step = TrainStep(experiment, model, AdamW(model.weights, experiment.train), replicas=1)
    loop = StepLoop(machine, step, batch_specs(experiment, replicas=1))
    tokenizer, data = FakeTokenizer(size.vocab_size), FakeSequences(sequences(size))
    ahead = Ahead(Batches(experiment, tokenizer, data, data, global_batch=size.batch, replicas=1))  # type: ignore[arg-type]
    rates = np.full(size.steps, 1e-4, np.float32)
    done = 0

    def run() -> None:
        nonlocal done
        batches = ahead.take(done, size.steps)
        done += size.steps
        ahead.prepare(done, size.steps)
        loop(batches, done, rates)

    return run


@dataclass(frozen=True)
class FakeTokenizer:
    """What batches want to know of a tokenizer."""

    vocab_size: int
    mask_id: int = MASK_ID
    special_ids: tuple[int, ...] = SPECIALS


class FakeSequences:
    """Sequences in memory."""

    def __init__(self, ids: npt.NDArray[np.int32]) -> None:
        self._ids = ids
        self.shard_sizes = (len(ids),)

    def __len__(self) -> int:
        return len(self._ids)

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return self._ids[rows]

    def prepare(self, shards: Iterable[int]) -> None:
        """All are there."""


def child(way: str, size: Size) -> None:
    """Warm up, then do a round for every line on standard input, and say how long it took."""
    run = keras_fit(size) if way == "keras" else our_loop(size, way)
    run()
    run()
    print("ready", flush=True)
    for _ in sys.stdin:
        start, before = time.perf_counter(), os.times()
        run()
        after = os.times()
        print(time.perf_counter() - start, after.user + after.system - before.user - before.system, flush=True)


class Child:
    """A way of training in a process of its own."""

    def __init__(self, way: str, size: str) -> None:
        command = [sys.executable, __file__, "--child", way, "--size", size]
        quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=quiet
        )
        self._answer()

    def round(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        wall_s, cpu_s = self._answer().split()
        return float(wall_s), float(cpu_s)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a benchmark process ended with {self._process.wait()}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def rounds(ways: list[str], size: str, count: int) -> Iterator[dict[str, tuple[float, float]]]:
    children = {way: Child(way, size) for way in ways}
    try:
        for _ in range(count):
            yield {way: running.round() for way, running in children.items()}
    finally:
        for running in children.values():
            running.close()


def compare(name: str, count: int) -> None:
    size, ways = SIZES[name], ["keras", *TARGETS]
    times = list(rounds(ways, name, count))
    print(
        f"{name}: {size.layers} layers x {size.width}, vocabulary {size.vocab_size:,}, "
        f"batch {size.batch} x {size.length}"
    )
    for way in ways:
        wall_s = statistics.median(turn[way][0] for turn in times)
        ratio = statistics.median(turn["keras"][0] / turn[way][0] for turn in times)
        cpu_ratio = statistics.median(turn["keras"][1] / turn[way][1] for turn in times)
        label = "Keras fit" if way == "keras" else f"tpudeck {way}"
        wanted = f"  (wanted {TARGETS[way]:.1f}x)" if name == "published" and way in TARGETS else ""
        print(
            f"  {label:18} {size.tokens / wall_s:9,.0f} tokens/s  {wall_s / size.steps * 1e3:7.1f} ms/step  "
            f"{ratio:5.2f}x  ({cpu_ratio:.2f}x by CPU time){wanted}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", choices=SIZES, action="append", help="both, if none is named")
    parser.add_argument("--child", choices=["keras", *TARGETS], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.size or list(SIZES)
    if asked.child:
        child(asked.child, SIZES[names[0]])
        return
    for name in names:
        compare(name, asked.rounds)


if __name__ == "__main__":
    main()
