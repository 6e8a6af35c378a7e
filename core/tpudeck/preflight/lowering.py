"""One replica's training step, as the trainer builds it, as HLO.

The weights and the optimizer's state are arguments of the program, updated in place, as on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tpudeck.doctor import explain
from tpudeck.errors import WorkError
from tpudeck.storage import write_atomic
from tpudeck.training.configuration import Vocabulary
from tpudeck.training.step import build_step

if TYPE_CHECKING:
    from tpudeck.jobs import Job
    from tpudeck.presets import Experiment

__all__ = ["lower", "program_of"]


def lower(job: Job) -> dict[str, Any]:
    """Write ``step.hlo`` for the experiment in the job's folder."""
    experiment = job.experiment()
    path = job.folder / "step.hlo"
    write_atomic(path, program_of(*build_step(experiment, _vocabulary(experiment))))
    return {"hlo": str(path)}


def program_of(step: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> bytes:
    """A function as HLO; a :class:`WorkError` has TensorFlow's words and our explanation where XLA cannot take it."""
    try:
        lowered = tf.function(step, jit_compile=True, autograph=False).experimental_get_compiler_ir(*specs)
        return bytes(lowered(stage="hlo_serialized", platform_name="CPU"))
    except (tf.errors.OpError, ValueError) as error:  # it is a ValueError when XLA refuses
        words = str(error).removeprefix("Failed getting HLO text: ").strip("'")
        known = explain(words)
        hint = f"{known[0].cause}: {known[0].fix}" if known else ""
        raise WorkError(f"the step cannot be lowered: {words[:2000]}", hint=hint) from error


def _vocabulary(experiment: Experiment) -> Vocabulary:
    """The vocabulary that is asked for, with the special tokens where the family has them."""
    specials = [token.strip("<>[]|").lower() for token in experiment.family.specials]

    def id_of(*names: str) -> int:
        return next((specials.index(name) for name in names if name in specials), 0)

    return Vocabulary(
        size=experiment.tokenizer.vocab_size,
        pad_id=id_of("pad"),
        bos_id=id_of("s", "cls", "endoftext"),
        eos_id=id_of("/s", "sep", "endoftext"),
    )
