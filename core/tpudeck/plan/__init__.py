"""What follows from an experiment, without building anything: steps (:mod:`~tpudeck.plan.schedule`), parameters,
arithmetic and memory (:mod:`~tpudeck.plan.size`), all of it as one numbered chain (:mod:`~tpudeck.plan.chain`);
and the other way round, an experiment from a single number (:mod:`~tpudeck.plan.dial`)."""

from tpudeck.plan.chain import ASSUMED_UTILISATION, Plan, Quantity, derive
from tpudeck.plan.dial import dial_compute, dial_tokens
from tpudeck.plan.schedule import (
    Schedule,
    check_sequences,
    global_batch_size,
    interval_steps,
    needs_step_time,
    schedule,
    total_steps,
)
from tpudeck.plan.size import Memory, flops_per_token, memory_per_replica, padded_vocab_size, parameter_count

__all__ = [
    "ASSUMED_UTILISATION",
    "Memory",
    "Plan",
    "Quantity",
    "Schedule",
    "check_sequences",
    "derive",
    "dial_compute",
    "dial_tokens",
    "flops_per_token",
    "global_batch_size",
    "interval_steps",
    "memory_per_replica",
    "needs_step_time",
    "padded_vocab_size",
    "parameter_count",
    "schedule",
    "total_steps",
]
