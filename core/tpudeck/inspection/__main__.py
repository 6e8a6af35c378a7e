"""``python -m tpudeck.inspection TASK FOLDER``."""

from __future__ import annotations

from tpudeck import jobs
from tpudeck.inspection.task import corpus_task, shards_task, tokenizer_task

if __name__ == "__main__":
    jobs.main({"inspect-corpus": corpus_task, "inspect-tokenizer": tokenizer_task, "inspect-shards": shards_task})
