"""TFRecord files and the ``tf.train.Example`` records in them, without TensorFlow."""

from tpudeck.tfrecord.example import (
    Feature,
    decode_example,
    decode_int64s,
    decode_varints,
    encode_example,
    encode_field,
    encode_int64s,
    encode_varint,
    encode_varints,
)
from tpudeck.tfrecord.frames import (
    FOOTER_BYTES,
    HEADER_BYTES,
    Record,
    frame,
    masked_crc32c,
    masked_crc32cs,
    read_records,
    scan_records,
)

__all__ = [
    "FOOTER_BYTES",
    "HEADER_BYTES",
    "Feature",
    "Record",
    "decode_example",
    "decode_int64s",
    "decode_varints",
    "encode_example",
    "encode_field",
    "encode_int64s",
    "encode_varint",
    "encode_varints",
    "frame",
    "masked_crc32c",
    "masked_crc32cs",
    "read_records",
    "scan_records",
]
