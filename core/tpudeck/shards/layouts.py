"""How token sequences stand in TFRecord files: the two layouts, written and read by the array.

``compact``: one feature ``ids``, bytes: the tokens as little-endian 16-bit numbers (32-bit where the vocabulary has
more than 65,536 entries). Every record of a set has the same size, so the place of any sequence is arithmetic.

``published``: int64 features ``input_ids`` and ``attention_mask`` in files ``<split>/dataset-<i>-<records>.tfrecord``.
That is what readers written for the published example take. Integers have variable length there, so the place of a
sequence is found by scanning the frames.

Shapes: N sequences, S tokens per sequence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tpudeck.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    decode_int64s,
    encode_example,
    encode_int64s,
    encode_varints,
    frame,
    masked_crc32cs,
    scan_records,
)

__all__ = ["Compact", "Ids", "Layout", "Published", "layout_named"]

Ids: TypeAlias = npt.NDArray[np.int32]
Spans: TypeAlias = npt.NDArray[np.int64]
"""Where records are: rows of (offset of the record's bytes, length)."""
_MOST_IDS = 1 << 24
"""Published sets don't say how large their vocabulary is; a damaged id is not believed when ids are counted."""


class Layout(Protocol):
    """What the rest of the package needs to know of a layout."""

    name: str
    sequence_length: int

    def file_name(self, split: str, index: int, sequences: int) -> str:
        """Name of a shard, relative to the set's folder."""

    def encode(self, ids_NS: npt.NDArray[Any]) -> bytes:
        """Sequences as frames, ready to be written."""

    def spans(self, path: Path, size_bytes: int) -> Spans:
        """Where the records of a file are."""

    def decode(self, records: Sequence[bytes]) -> Ids:
        """Records as sequences; ``ValueError`` where they are not of this layout."""

    def padding(self, records: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """How many tokens the attention mask of each record leaves out."""


def layout_named(name: str, *, sequence_length: int, vocab_size: int) -> Layout:
    return Compact(sequence_length, vocab_size) if name == "compact" else Published(sequence_length)


class Compact:
    """Fixed-size records of 16- or 32-bit tokens."""

    name = "compact"

    def __init__(self, sequence_length: int, vocab_size: int) -> None:
        self.sequence_length = sequence_length
        self.dtype = np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")
        ids_bytes = sequence_length * self.dtype.itemsize
        self._before = encode_example({"ids": [bytes(ids_bytes)]})[:-ids_bytes]
        self.record_bytes = len(self._before) + ids_bytes
        self._header = frame(bytes(self.record_bytes))[:HEADER_BYTES]
        self.frame_bytes = HEADER_BYTES + self.record_bytes + FOOTER_BYTES

    def file_name(self, split: str, index: int, sequences: int) -> str:
        return f"{split}/shard-{index:05d}.tfrecord"

    def encode(self, ids_NS: npt.NDArray[Any]) -> bytes:
        fixed = np.frombuffer(self._header + self._before, dtype=np.uint8)
        frames = np.empty((len(ids_NS), self.frame_bytes), dtype=np.uint8)
        frames[:, : len(fixed)] = fixed
        frames[:, len(fixed) : -FOOTER_BYTES] = np.ascontiguousarray(ids_NS, dtype=self.dtype).view(np.uint8)
        checksums = masked_crc32cs(frames[:, HEADER_BYTES:-FOOTER_BYTES])
        frames[:, -FOOTER_BYTES:] = checksums.astype("<u4")[:, None].view(np.uint8)
        return frames.tobytes()

    def spans(self, path: Path, size_bytes: int) -> Spans:
        if size_bytes % self.frame_bytes:
            return scan_records(path)  # of some other length: reading says which
        starts = np.arange(HEADER_BYTES, size_bytes, self.frame_bytes, dtype=np.int64)
        return np.stack([starts, np.full_like(starts, self.record_bytes)], axis=1)

    def decode(self, records: Sequence[bytes]) -> Ids:
        if any(len(record) != self.record_bytes for record in records):
            raise ValueError(f"a record does not have the {self.record_bytes} bytes of this set")
        raw = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(-1, self.record_bytes)
        before = len(self._before)
        if (raw[:, :before] != np.frombuffer(self._before, dtype=np.uint8)).any():
            raise ValueError(f"a record does not hold {self.sequence_length} ids in one feature `ids`")
        return np.ascontiguousarray(raw[:, before:]).view(self.dtype).astype(np.int32)

    def padding(self, records: Sequence[bytes]) -> npt.NDArray[np.int64]:
        return np.zeros(len(records), dtype=np.int64)


class Published:
    """Records of int64 ``input_ids`` and ``attention_mask``."""

    name = "published"

    def __init__(self, sequence_length: int) -> None:
        self.sequence_length = sequence_length
        example = encode_example({"attention_mask": np.ones(sequence_length, dtype=np.int64)})
        begins = next(at for at in (2, 3, 4) if len(encode_varints(len(example) - at)) == at - 1)
        self._mask_of_ones = example[begins:]
        """As it stands in a record, behind the bytes that begin it."""

    def file_name(self, split: str, index: int, sequences: int) -> str:
        return f"{split}/dataset-{index}-{sequences}.tfrecord"

    def encode(self, ids_NS: npt.NDArray[Any]) -> bytes:
        mask = np.ones(self.sequence_length, dtype=np.int64)
        return b"".join(map(frame, encode_int64s("input_ids", ids_NS, {"attention_mask": mask})))

    def spans(self, path: Path, size_bytes: int) -> Spans:
        return scan_records(path)

    def decode(self, records: Sequence[bytes]) -> Ids:
        ids, lengths = decode_int64s(records, "input_ids")
        if (lengths != self.sequence_length).any():
            wrong = int(lengths[lengths != self.sequence_length][0])
            raise ValueError(f"a record holds {wrong} input_ids, and the others {self.sequence_length}")
        if len(ids) and not 0 <= ids.min() <= ids.max() < _MOST_IDS:
            raise ValueError(f"an id is negative or not below {_MOST_IDS:,}, which no vocabulary reaches")
        return ids.astype(np.int32).reshape(-1, self.sequence_length)

    def padding(self, records: Sequence[bytes]) -> npt.NDArray[np.int64]:
        padding_N = np.zeros(len(records), dtype=np.int64)
        # Most records have a mask of ones; one that begins or ends with that need not be decoded.
        ones = self._mask_of_ones
        places = [
            place
            for place, record in enumerate(records)
            if not (record.startswith(ones, 3) or record.startswith(ones, 2) or record.endswith(ones))
        ]
        with contextlib.suppress(ValueError):  # without a mask there is no padding
            mask, lengths = decode_int64s([records[place] for place in places], "attention_mask")
            left_out = np.concatenate([[0], np.cumsum(mask == 0)])
            ends = np.cumsum(lengths)
            padding_N[places] = left_out[ends] - left_out[ends - lengths]
        return padding_N
