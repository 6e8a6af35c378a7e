"""``python -m tpudeck.shards shards FOLDER``."""

from __future__ import annotations

from tpudeck import jobs
from tpudeck.shards.task import build_shards

if __name__ == "__main__":
    jobs.main({"shards": build_shards})
