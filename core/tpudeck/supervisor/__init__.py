"""The small process that owns a run: no TensorFlow, no pydantic, no numpy.

::

    launcher ── run.lock ──► supervisor ── control pipe, stop file ──► stage: tokenizer, shards, train
                                 │  ◄── exit code or signal, events, metrics, progress ──┘
                                 ▼
                     status.json, supervisor.jsonl

It runs the stages in order, follows what they write, says every few seconds that it lives and when it will say so
again, passes on requests to stop, and writes down how the run ended. If it dies, its stage sees the end of its control
pipe, saves what it has and ends; if a stage dies, the supervisor says how. ``python -m tpudeck.supervisor RUN_DIR``.
"""

from tpudeck.supervisor.process import STAGES, Supervisor

__all__ = ["STAGES", "Supervisor"]
