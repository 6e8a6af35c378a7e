"""One replica's training step, as the trainer builds it, as HLO.

The weights and the optimizer's state are arguments of the program, updated in place, as on the device.
"""

from __future__ import annotations

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

__all__ = ["lower"]


def lower(job: Job) -> dict[str, Any]:
    """Write ``step.hlo`` for the experiment in the job's folder."""
    experiment = job.experiment()
    step, specs = build_step(experiment, _vocabulary(experiment))
    program = tf.function(step, jit_compile=True)
    try:
        hlo = program.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="CPU")
    except tf.errors.OpError as error:
        known = explain(str(error))
        hint = f"{known[0].cause}: {known[0].fix}" if known else ""
        raise WorkError(f"the step cannot be lowered: {error.message}", hint=hint) from error
    path = job.folder / "step.hlo"
    write_atomic(path, hlo)
    return {"hlo": str(path)}


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
