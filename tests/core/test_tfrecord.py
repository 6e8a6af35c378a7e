"""TFRecord framing and the Example codec: round trips, known bytes, and files that are not what they should be."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpudeck.errors import ArtefactError
from tpudeck.tfrecord import (
    Feature,
    decode_example,
    decode_int64s,
    decode_varints,
    encode_example,
    encode_int64s,
    encode_varints,
    frame,
    frames,
    masked_crc32c,
    read_records,
    scan_records,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(map(frame, records)))
    return path


def contents(path: Path) -> list[bytes]:
    return [record.data for record in read_records(path)]


# ---- framing -----------------------------------------------------------------------------------------------------


def test_a_frame_has_the_documented_bytes() -> None:
    # CRC-32C of "123456789" is 0xE3069283 (RFC 3720); the mask is TensorFlow's.
    assert google_crc32c.value(b"123456789") == 0xE3069283
    masked = (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert frame(b"123456789")[:8] == struct.pack("<Q", 9)
    assert frame(b"123456789")[12:] == b"123456789" + struct.pack("<I", masked)
    assert frame(b"123456789")[8:12] == struct.pack("<I", masked_crc32c(struct.pack("<Q", 9)))


@FUZZ
@given(records=st.lists(st.binary(max_size=300), max_size=20), block=st.integers(12, 700))
def test_what_is_written_is_read_back_whatever_the_block_size(tmp_path: Path, records: list[bytes], block: int) -> None:
    path = write(tmp_path / "a", *records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_BLOCK_BYTES", block)
        read = list(read_records(path))
        scanned = scan_records(path)
    assert [record.data for record in read] == records
    assert scanned.tolist() == [[record.offset + 12, len(record.data)] for record in read]


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    assert contents(write(tmp_path / "a")) == []
    assert scan_records(tmp_path / "a").shape == (0, 2)


@FUZZ
@given(data=st.data())
def test_every_truncation_is_found_and_every_record_before_it_is_read(tmp_path: Path, data: st.DataObject) -> None:
    records = [b"one" * 9, b"", b"three" * 30]
    whole = write(tmp_path / "whole", *records).read_bytes()
    ends = np.cumsum([0, *(len(frame(record)) for record in records)])
    cut = data.draw(st.integers(1, len(whole) - 1).filter(lambda at: at not in ends))
    path = tmp_path / "cut"
    path.write_bytes(whole[:cut])
    read: list[bytes] = []
    with pytest.raises(ArtefactError) as caught:
        read.extend(record.data for record in read_records(path))
    begins = int(ends[ends <= cut][-1])
    assert str(path) in caught.value.message
    assert f"offset {begins}" in caught.value.message
    assert ("truncated" if begins or cut >= 12 else "not a TFRecord file") in caught.value.message
    with pytest.raises(ArtefactError):
        scan_records(path)


@pytest.mark.parametrize("left", [1, 11, 12, 20, 38])
def test_a_cut_record_is_found_behind_whole_ones_of_its_length(tmp_path: Path, left: int) -> None:
    path = tmp_path / "cut"
    path.write_bytes((frame(b"x" * 23) * 3)[: 2 * 39 + left])
    with pytest.raises(ArtefactError, match="cut is truncated: at offset 78 "):
        scan_records(path)


@FUZZ
@given(data=st.data())
def test_every_flipped_bit_is_found_in_the_record_it_hit(tmp_path: Path, data: st.DataObject) -> None:
    records = [b"one" * 9, b"two", b"three" * 30]
    whole = bytearray(write(tmp_path / "whole", *records).read_bytes())
    ends = np.cumsum([0, *(len(frame(record)) for record in records)])
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "flipped"
    path.write_bytes(whole)
    with pytest.raises(ArtefactError) as caught:
        contents(path)
    hit = int(ends[ends <= at][-1])
    assert str(path) in caught.value.message
    assert f"offset {hit}" in caught.value.message
    assert ("not a TFRecord file" if at < 12 else "corrupted") in caught.value.message


@FUZZ
@given(junk=st.binary(min_size=1, max_size=400))
def test_foreign_bytes_are_an_error_and_nothing_else(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk)
    for read in (contents, scan_records):
        with pytest.raises(ArtefactError, match="junk"):
            read(path)


@pytest.mark.parametrize("length", [2**63 + 5, 2**40, 2**31, 500])
def test_a_huge_length_with_a_good_checksum_allocates_nothing(tmp_path: Path, length: int) -> None:
    head = struct.pack("<Q", length)
    path = tmp_path / "huge"
    path.write_bytes(frame(b"first") + head + struct.pack("<I", masked_crc32c(head)) + b"x" * 64)
    tracemalloc.start()
    with pytest.raises(ArtefactError, match=r"huge is truncated: at offset 21 a record of \d+ bytes begins"):
        contents(path)
    with pytest.raises(ArtefactError, match="truncated"):
        scan_records(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


def test_a_compressed_file_is_called_compressed(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frame(b"record") * 10))
    with pytest.raises(ArtefactError, match=r"compressed \(gzip\)"):
        contents(path)


def test_a_missing_file_is_an_artefact_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="No such file"):
        contents(tmp_path / "absent")


# ---- integers ----------------------------------------------------------------------------------------------------


@given(st.lists(INT64, max_size=50))
def test_integers_come_back(numbers: list[int]) -> None:
    assert decode_varints(encode_varints(numbers)).tolist() == numbers


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (-1, "ff" * 9 + "01"),
        (2**63 - 1, "ff" * 8 + "7f"),
    ],
)
def test_integers_have_protobufs_bytes(number: int, encoded: str) -> None:
    assert encode_varints([number]).hex() == encoded
    assert decode_varints(bytes.fromhex(encoded)).tolist() == [number]


def one_by_one(data: bytes) -> list[int]:
    """What bytes mean, as plainly as it can be said."""
    numbers, number, shift = [], 0, 0
    for octet in data:
        number |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            unsigned = number % 2**64
            numbers.append(unsigned - 2**64 if unsigned >= 2**63 else unsigned)
            number, shift = 0, 0
    return numbers


@given(
    numbers=st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 0x7F)), max_size=40),
    most_bytes=st.integers(1, 10),
)
def test_integers_of_any_length_are_decoded_as_one_by_one(numbers: list[tuple[bytes, int]], most_bytes: int) -> None:
    data = b"".join(bytes(octet | 0x80 for octet in head[: most_bytes - 1]) + bytes([end]) for head, end in numbers)
    assert decode_varints(data).tolist() == one_by_one(data)


@pytest.mark.parametrize("damaged", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01"])
def test_cut_and_endless_integers_are_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="integer"):
        decode_varints(damaged)


# ---- examples ----------------------------------------------------------------------------------------------------

FEATURE = st.one_of(
    st.lists(st.binary(max_size=40), max_size=5),
    st.lists(INT64, max_size=20).map(lambda numbers: np.array(numbers, dtype=np.int64)),
    st.lists(st.floats(width=32), max_size=20).map(lambda numbers: np.array(numbers, dtype=np.float32)),
)


def assert_same(left: dict[str, Feature], right: dict[str, Feature]) -> None:
    assert list(left) == list(right)
    for name, feature in left.items():
        if isinstance(feature, list):
            assert right[name] == feature
        else:
            assert feature.dtype == np.asarray(right[name]).dtype
            np.testing.assert_array_equal(feature, right[name])


@given(st.dictionaries(st.text(max_size=12), FEATURE, max_size=4))
def test_examples_come_back(features: dict[str, Feature]) -> None:
    assert_same(features, decode_example(encode_example(features)))


def test_unpacked_integers_and_floats_are_read_too() -> None:
    # feature { int64_list { value: 5 value: 300 } }, each value a field of its own; and one unpacked float.
    int64_list = bytes.fromhex("08 05 08 ac02")
    floats = bytes.fromhex("0d") + struct.pack("<f", 1.5)
    entries = [
        b"\x0a\x01i" + b"\x12" + bytes([len(int64_list) + 2]) + b"\x1a" + bytes([len(int64_list)]) + int64_list,
        b"\x0a\x01f" + b"\x12" + bytes([len(floats) + 2]) + b"\x12" + bytes([len(floats)]) + floats,
    ]
    features = b"".join(b"\x0a" + bytes([len(entry)]) + entry for entry in entries)
    expected: dict[str, Feature] = {"i": np.array([5, 300]), "f": np.array([1.5], dtype=np.float32)}
    assert_same(expected, decode_example(b"\x0a" + bytes([len(features)]) + features))


@given(rows=st.integers(0, 5), length=st.integers(0, 9), data=st.data())
def test_a_batch_of_integers_is_written_and_read_as_single_examples_are(
    rows: int, length: int, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(INT64, min_size=rows * length, max_size=rows * length))
    values = np.array(numbers, dtype=np.int64).reshape(rows, length)
    beside: dict[str, Feature] = {"mask": np.ones(3, dtype=np.int64)}
    records = encode_int64s("ids", values, beside)
    assert records == [encode_example(beside | {"ids": row}) for row in values]
    decoded, lengths = decode_int64s(records, "ids")
    assert decoded.tolist() == numbers
    assert lengths.tolist() == [length] * rows


def test_integers_of_many_examples_keep_their_own_lengths_and_need_not_be_packed() -> None:
    int64_list = bytes.fromhex("08 05 08 ac02")  # value: 5 value: 300
    entry = b"\x0a\x03ids" + b"\x12" + bytes([len(int64_list) + 2]) + b"\x1a" + bytes([len(int64_list)]) + int64_list
    features = b"\x0a" + bytes([len(entry)]) + entry
    unpacked = b"\x0a" + bytes([len(features)]) + features
    packed = encode_example({"ids": np.array([-1, 2, 3])})
    decoded, lengths = decode_int64s([packed, unpacked, packed], "ids")
    assert decoded.tolist() == [-1, 2, 3, 5, 300, -1, 2, 3]
    assert lengths.tolist() == [3, 2, 3]


@given(
    rows=st.lists(st.lists(st.integers(0, 2**34), max_size=90), min_size=1, max_size=12),
    mask=st.lists(st.integers(0, 1), max_size=200),
    first=st.booleans(),
)
def test_a_feature_is_found_wherever_it_stands_and_however_long_it_is(
    rows: list[list[int]], mask: list[int], first: bool
) -> None:
    def record(numbers: list[int]) -> bytes:
        features = {"ids": np.array(numbers, dtype=np.int64), "mask": np.array(mask, dtype=np.int64)}
        return encode_example(features if first else dict(reversed(features.items())))

    decoded, lengths = decode_int64s([record(row) for row in rows], "ids")
    assert decoded.tolist() == [number for row in rows for number in row]
    assert lengths.tolist() == [len(row) for row in rows]
    again, _ = decode_int64s([record(row) for row in rows], "mask")
    assert again.tolist() == mask * len(rows)


@given(example=st.lists(st.integers(0, 300), min_size=1, max_size=40), data=st.data())
def test_a_damaged_example_is_read_as_the_whole_decoder_reads_it_or_refused(
    example: list[int], data: st.DataObject
) -> None:
    good = encode_example({"mask": np.array([1, 0]), "ids": np.array(example)})
    damaged = bytearray(good)
    damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded, lengths = decode_int64s([good, bytes(damaged), good], "ids")
    except ValueError:
        return
    middle = decoded[len(example) : len(decoded) - len(example)]
    assert lengths[1] == len(middle)
    try:
        told = decode_example(bytes(damaged))["ids"]
    except ValueError:  # the rest of the example is damaged, its numbers are not
        return
    assert list(told) == middle.tolist()


def test_examples_of_many_lengths_in_any_order_of_their_features_are_told_apart() -> None:
    records, expected = [], []
    for length in [*range(1, 1200), *range(1, 1200)]:
        features: dict[str, Feature] = {"ids": np.arange(length), "mask": np.ones(7, dtype=np.int64)}
        records.append(encode_example(features if length % 2 else dict(reversed(features.items()))))
        records.append(encode_example(dict(reversed(features.items())) if length % 2 else features))
        expected += [length, length]
    numbers, lengths = decode_int64s(records, "ids")
    assert lengths.tolist() == expected
    assert numbers.tolist() == [number for length in expected for number in range(length)]
    assert decode_int64s(records, "mask")[1].tolist() == [7] * len(records)


def test_an_example_without_the_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="no int64 feature 'ids'"):
        decode_int64s([encode_example({"other": np.array([1])})], "ids")
    with pytest.raises(ValueError, match="no int64 feature 'ids'"):
        decode_int64s([encode_example({"ids": [b"bytes"]})], "ids")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_example_or_a_value_error(junk: bytes) -> None:
    try:
        decode_example(junk)
    except ValueError:
        return


@given(
    example=st.dictionaries(st.text(max_size=5), FEATURE, min_size=1, max_size=3).map(encode_example), data=st.data()
)
def test_a_damaged_example_is_an_example_or_a_value_error(example: bytes, data: st.DataObject) -> None:
    damaged = bytearray(example)
    damaged[data.draw(st.integers(0, len(example) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_example(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    except ValueError:
        return
