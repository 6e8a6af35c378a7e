"""``tf.train.Example``: a protobuf message, a map from names to lists of bytes, of floats or of int64.

Its wire format is small enough to read here: messages are rows of (tag, value), a tag is field number << 3 | wire type.
Integers are decoded and encoded by the array, not one by one.

Sources: ``example.proto`` and ``feature.proto`` of TensorFlow for the messages, the protobuf encoding guide for the
wire format.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Feature",
    "decode_example",
    "decode_int64s",
    "decode_varints",
    "encode_example",
    "encode_field",
    "encode_int64s",
    "encode_varint",
    "encode_varints",
]

Feature: TypeAlias = list[bytes] | npt.NDArray[np.int64] | npt.NDArray[np.float32]
"""One feature of an example: a list of bytes, of int64, or of floats."""

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3
_MOST_VARINT_BYTES = 10
_MOST_KNOWN = 1024
"""Lengths of examples whose beginning is remembered: of one kind there are few hundred."""


def encode_varints(values: npt.ArrayLike) -> bytes:
    """Integers in protobuf's variable-length encoding: seven bits a byte, the highest bit says that more follow."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.int64)).view(np.uint64).ravel()
    return _encode_varints(numbers, _varint_lengths(numbers))


def _varint_lengths(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    lengths = np.ones(numbers.shape, dtype=np.int64)
    for bytes_so_far in range(1, _MOST_VARINT_BYTES):
        longer = numbers >> np.uint64(7 * bytes_so_far) != 0
        if not longer.any():
            break
        lengths += longer
    return lengths


def _encode_varints(numbers: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64]) -> bytes:
    ends = np.cumsum(lengths)
    starts = ends - lengths
    encoded = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for index in range(int(lengths.max(initial=0))):
        there = lengths > index
        low = numbers[there] >> np.uint64(7 * index) & np.uint64(0x7F)
        encoded[starts[there] + index] = low | (lengths[there] > index + 1).astype(np.uint64) << np.uint64(7)
    return encoded.tobytes()


def decode_varints(data: bytes | memoryview) -> npt.NDArray[np.int64]:
    """The way back from :func:`encode_varints`; ``ValueError`` where the bytes end inside a number."""
    return _decode_varints(data)[0].astype(np.int64, copy=False)


def _decode_varints(data: bytes | memoryview) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The numbers, of a type just wide enough for the bytes of the longest, and where each ends.

    All bytes are treated alike, as if a number ended at every one of them: that takes a few plain passes over the
    data, and no choices. What was worked out for bytes that end no number is left behind.
    """
    octets = np.frombuffer(data, dtype=np.uint8)
    if len(octets) and octets[-1] >= 0x80:
        raise ValueError("an integer is cut off")
    runs = list(_runs(octets))
    dtype = np.uint16 if len(runs) < 2 else np.uint32 if len(runs) < 4 else np.uint64
    numbers: npt.NDArray[Any] = octets.astype(dtype)
    low = numbers & 0x7F
    for index, longer in enumerate(runs, start=1):
        np.left_shift(numbers[index:], longer * dtype(7), out=numbers[index:])
        np.bitwise_or(numbers[index:], low[:-index] * longer, out=numbers[index:])
    ends = np.flatnonzero(octets < 0x80)
    found = numbers[ends]
    return (found.view(np.int64) if dtype is np.uint64 else found), ends


def _runs(octets: npt.NDArray[np.uint8]) -> Iterator[npt.NDArray[np.uint8]]:
    """For one byte, two bytes, … before each byte: 1 where all of them say that the number goes on, as long as there
    are any."""
    goes_on = octets >> np.uint8(7)
    run = goes_on[:-1]
    for length in range(1, _MOST_VARINT_BYTES + 1):
        if not run.any():
            return
        if length == _MOST_VARINT_BYTES:
            raise ValueError("an integer is longer than ten bytes")
        yield run
        run = run[:-1] & goes_on[length:-1]


def encode_example(features: Mapping[str, Feature]) -> bytes:
    """A ``tf.train.Example``, its features in the order given, its numbers packed."""
    return encode_field(1, b"".join(encode_field(1, _entry(name, feature)) for name, feature in features.items()))


def _entry(name: str, feature: Feature) -> bytes:
    return encode_field(1, name.encode()) + encode_field(2, _encode_feature(feature))


def _encode_feature(feature: Feature) -> bytes:
    if isinstance(feature, list):
        return encode_field(_BYTES_LIST, b"".join(encode_field(1, item) for item in feature))
    if feature.dtype.kind == "f":
        return encode_field(_FLOAT_LIST, encode_field(1, feature.astype("<f4").tobytes()))
    return encode_field(_INT64_LIST, encode_field(1, encode_varints(feature)))


def encode_field(number: int, data: bytes) -> bytes:
    """A length-delimited field: bytes, text or a nested message."""
    return b"%c%b%b" % (number << 3 | _DELIMITED, encode_varint(len(data)), data)


def encode_varint(number: int) -> bytes:
    """One number that is not negative: what an array is too slow for."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode_int64s(name: str, values_NS: npt.NDArray[np.int64], beside: Mapping[str, Feature]) -> list[bytes]:
    """A batch of examples, each with one row of integers and the same features ``beside`` it."""
    numbers_NS = np.ascontiguousarray(values_NS, dtype=np.int64).view(np.uint64)
    lengths_NS = _varint_lengths(numbers_NS)
    encoded = _encode_varints(numbers_NS.ravel(), lengths_NS.ravel())
    rest = b"".join(encode_field(1, _entry(other, feature)) for other, feature in beside.items())
    key, examples, start = encode_field(1, name.encode()), [], 0
    for length in lengths_NS.sum(axis=1).tolist():
        values = encode_field(_INT64_LIST, encode_field(1, encoded[start : start + length]))
        examples.append(encode_field(1, rest + encode_field(1, key + encode_field(2, values))))
        start += length
    return examples


def decode_example(data: bytes) -> dict[str, Feature]:
    """The features of a ``tf.train.Example``; ``ValueError`` where the bytes are no such message."""
    return {name: _decode_feature(feature) for name, feature in _entries(data)}


def decode_int64s(records: Sequence[bytes], name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """One int64 feature of many examples: all numbers in a row, and how many belong to each example.

    The numbers of packed lists (what everybody writes) are decoded together; small ones come in a narrow unsigned type.
    ``ValueError`` where an example is damaged or lacks the feature.
    """
    packed = list(_packed_lists(records, name))
    joined = b"".join(packed)
    numbers, number_ends = _decode_varints(joined)
    sizes = np.fromiter(map(len, packed), dtype=np.int64, count=len(packed))
    ends = np.cumsum(sizes)
    if (np.frombuffer(joined, dtype=np.uint8)[ends[sizes > 0] - 1] >= 0x80).any():
        raise ValueError("an integer is cut off")
    return numbers, np.diff(np.searchsorted(number_ends, ends), prepend=0)


def _packed_lists(records: Sequence[bytes], name: str) -> Iterator[bytes | memoryview]:
    """The encoded numbers of an int64 feature, example by example.

    Of the usual examples, all that is looked at stands before the numbers. So one that is as long as another and begins
    with the same bytes has them in the same place.
    """
    head = b"\x0a%c%b\x12" % (len(name), name.encode())
    known = _known_places(name)
    for record in records:
        begins, place = known.get(len(record), (b"", None))
        if place is not None and record.startswith(begins):
            yield record[place]
        elif (place := _usual_place(record, head)) is not None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[len(record)] = record[: place.start], place
            yield record[place]
        else:
            yield _packed_int64s(record, name)


@functools.lru_cache(maxsize=8)
def _known_places(name: str) -> dict[int, tuple[bytes, slice]]:
    """By length of an example: its bytes before the numbers of a feature, and where the numbers are."""
    return {}


def _packed_int64s(record: bytes, name: str) -> bytes | memoryview:
    """The encoded numbers of an int64 feature, whatever the example looks like."""
    for other, feature in _entries(record):
        if other == name:
            parts = [part for kind, part in _fields(feature) if kind == _INT64_LIST]
            if parts:
                items = [item for number, item in _fields(_message(parts[-1])) if number == 1]
                if len(items) == 1 and isinstance(items[0], memoryview):
                    return items[0]
                return b"".join(item if isinstance(item, memoryview) else encode_varint(item) for item in items)
    raise ValueError(f"a record has no int64 feature {name!r}")


def _usual_place(record: bytes, head: bytes) -> slice | None:
    """Where the encoded numbers are, in an example as everybody writes them: one message of features, each a name and
    one packed list, all shorter than 2^14 bytes. None where anything is otherwise."""
    end = len(record)
    try:
        if record[0] != _FEATURES_TAG:
            return None
        length, position = _short_varint(record, 1)
        if position + length != end:
            return None
        while record[position] == _ENTRY_TAG:
            length, position = _short_varint(record, position + 1)
            entry_end = position + length
            if entry_end > end:
                return None
            if record.startswith(head, position):
                position += len(head) - 1
                for tag in (_VALUE_TAG, _INT64_TAG, _PACKED_TAG):
                    if record[position] != tag:
                        return None
                    length, position = _short_varint(record, position + 1)
                    if position + length != entry_end:
                        return None
                return slice(position, entry_end)
            position = entry_end
    except IndexError:
        pass
    return None


_FEATURES_TAG = _ENTRY_TAG = _PACKED_TAG = 1 << 3 | _DELIMITED
_VALUE_TAG = 2 << 3 | _DELIMITED
_INT64_TAG = _INT64_LIST << 3 | _DELIMITED


def _short_varint(record: bytes, position: int) -> tuple[int, int]:
    """A number of one or two bytes, and the position after it; of more bytes ``IndexError``."""
    low = record[position]
    if low < 0x80:
        return low, position + 1
    high = record[position + 1]
    if high >= 0x80:
        raise IndexError
    return low & 0x7F | high << 7, position + 2


def _entries(data: bytes) -> Iterator[tuple[str, memoryview]]:
    """The features of an example by name, still encoded."""
    for number, features in _fields(memoryview(data)):
        if number == 1:
            for entry_number, entry in _fields(_message(features)):
                if entry_number == 1:
                    yield _decode_entry(_message(entry))


def _decode_entry(data: memoryview) -> tuple[str, memoryview]:
    name, feature = b"", memoryview(b"")
    for number, value in _fields(data):
        if number == 1:
            name = bytes(_message(value))
        elif number == 2:
            feature = _message(value)
    try:
        return name.decode(), feature
    except UnicodeDecodeError as error:
        raise ValueError(f"the name of a feature is not UTF-8: {name[:40]!r}") from error


def _decode_feature(data: memoryview) -> Feature:
    """The list that is set; of several the last, as protobuf has it. A feature without one is an empty list."""
    feature: Feature = []
    for kind, value in _fields(data):
        items = [item for number, item in _fields(_message(value)) if number == 1]
        if kind == _BYTES_LIST:
            feature = [bytes(_message(item)) for item in items]
        elif kind == _FLOAT_LIST:
            feature = _decode_floats(items)
        elif kind == _INT64_LIST:
            parts = [decode_varints(item) if isinstance(item, memoryview) else _signed(item) for item in items]
            feature = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return feature


def _decode_floats(items: Sequence[int | memoryview]) -> npt.NDArray[np.float32]:
    try:
        data = b"".join(item if isinstance(item, memoryview) else item.to_bytes(4, "little") for item in items)
    except OverflowError:
        raise ValueError("a float is longer than four bytes") from None
    if len(data) % 4:
        raise ValueError("a list of floats is cut off")
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def _signed(number: int) -> npt.NDArray[np.int64]:
    return np.array([number], dtype=np.uint64).view(np.int64)


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, memoryview):
        return value
    raise ValueError("a number stands where a message should")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: (number, bytes or number), whatever they mean."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if wire_type == _DELIMITED:
            length, position = _varint(data, position)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise ValueError(f"a field has the unknown wire type {wire_type}")
        if length > end - position:
            raise ValueError(f"a field of {length} bytes begins, and {end - position} are left")
        value = data[position : position + length]
        position += length
        yield tag >> 3, value if wire_type == _DELIMITED else int.from_bytes(value, "little")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number at this position, and the position after it."""
    number = 0
    for shift in range(0, 7 * _MOST_VARINT_BYTES, 7):
        if position >= len(data):
            raise ValueError("an integer is cut off")
        octet = data[position]
        position += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position
    raise ValueError("an integer is longer than ten bytes")
