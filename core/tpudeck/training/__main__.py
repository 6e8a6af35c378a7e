"""``python -m tpudeck.training TASK FOLDER``: train, export, fill-mask and generate."""

from __future__ import annotations

from tpudeck import jobs
from tpudeck.training.tasks import TASKS

if __name__ == "__main__":
    jobs.main(TASKS)
