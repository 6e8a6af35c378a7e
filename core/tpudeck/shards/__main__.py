"""``python -m tpudeck.shards shards FOLDER``."""

from __future__ import annotations

if __name__ == "__main__":  # the processes that help import this module too, and need none of the rest
    from tpudeck import jobs
    from tpudeck.shards.task import build_shards

    jobs.main({"shards": build_shards})
