"""From a TensorFlow function to a program, or to the reason why there is none."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tpudeck.errors import WorkError
from tpudeck.preflight.lowering import program_of

pytestmark = pytest.mark.training

SPECS = [tf.TensorSpec([8], tf.float32)]


def test_a_function_of_static_shapes_is_a_program() -> None:
    assert len(program_of(lambda x: x * 2, SPECS)) > 100


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda x: tf.strings.to_number(tf.strings.as_string(x)), "Detected unsupported operations"),
        (lambda x: tf.reshape(x, tf.cast(x[:1], tf.int32)), "must be a compile-time constant"),
    ],
    ids=["text", "a size that is computed"],
)
def test_what_xla_cannot_take_is_told_in_its_words_with_our_explanation(step: object, words: str) -> None:
    with pytest.raises(WorkError, match=words) as caught:
        program_of(step, SPECS)  # type: ignore[arg-type]
    assert caught.value.message.startswith("the step cannot be lowered: ")
    assert "shapes static" in caught.value.hint
