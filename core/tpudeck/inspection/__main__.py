"""``python -m tpudeck.inspection TASK FOLDER``."""

from __future__ import annotations

from tpudeck import jobs
from tpudeck.inspection.task import shards_task

if __name__ == "__main__":
    jobs.main({"inspect-shards": shards_task})
