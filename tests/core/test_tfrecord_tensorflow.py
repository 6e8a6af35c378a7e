"""TensorFlow reads our TFRecord files, and we read TensorFlow's: the same bytes, in a process that has both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tpudeck.tfrecord import Feature, decode_example, encode_example, frame, read_records

FEATURES: dict[str, Feature] = {
    "floats": np.array([1.5, -2.0, np.inf], dtype=np.float32),
    "ids": [np.arange(70, dtype="<u2").tobytes()],
    "input_ids": np.array([0, 1, 127, 128, 300, 50_264, -1, 2**62], dtype=np.int64),
}

IN_TENSORFLOW = """
import sys
import tensorflow as tf
ours, theirs = sys.argv[1:]
(record,) = list(tf.data.TFRecordDataset(ours))
spec = {"floats": tf.io.FixedLenFeature([3], tf.float32), "ids": tf.io.FixedLenFeature([], tf.string),
        "input_ids": tf.io.VarLenFeature(tf.int64)}
parsed = tf.io.parse_single_example(record, spec)
ids = tf.io.decode_raw(parsed["ids"], tf.uint16, little_endian=True)
print(parsed["floats"].numpy().tolist(), ids.numpy().tolist() == list(range(70)),
      tf.sparse.to_dense(parsed["input_ids"]).numpy().tolist())
with tf.io.TFRecordWriter(theirs) as writer:
    example = tf.train.Example(features=tf.train.Features(feature={
        "floats": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, -2.0, float("inf")])),
        "ids": tf.train.Feature(bytes_list=tf.train.BytesList(value=[ids.numpy().tobytes()])),
        "input_ids": tf.train.Feature(int64_list=tf.train.Int64List(value=[0, 1, 127, 128, 300, 50264, -1, 2**62])),
    }))
    writer.write(example.SerializeToString(deterministic=True))
"""


@pytest.mark.training
def test_tensorflow_and_tpudeck_read_each_others_files(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(frame(encode_example(FEATURES)))
    done = subprocess.run(
        [sys.executable, "-c", IN_TENSORFLOW, str(ours), str(theirs)],
        capture_output=True,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == f"[1.5, -2.0, inf] True {FEATURES['input_ids'].tolist()}"  # type: ignore[union-attr]
    assert theirs.read_bytes() == ours.read_bytes()
    (record,) = read_records(theirs)
    assert decode_example(record.data)["ids"] == FEATURES["ids"]
