"""``python -m tpudeck.preflight preflight|lower|compile FOLDER``"""

from __future__ import annotations

from typing import Any

from tpudeck import jobs


def _preflight(job: jobs.Job) -> dict[str, Any]:
    from tpudeck.preflight.trials import preflight

    return preflight(job)


def _lower(job: jobs.Job) -> dict[str, Any]:
    from tpudeck.preflight.lowering import lower

    return lower(job)


def _compile(job: jobs.Job) -> dict[str, Any]:
    from tpudeck.preflight.compiler import compile_step

    return compile_step(job)


if __name__ == "__main__":
    jobs.main({"preflight": _preflight, "lower": _lower, "compile": _compile})
