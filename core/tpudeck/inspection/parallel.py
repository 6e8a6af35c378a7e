"""The same function on many things, in as many processes as there are cores.

Threads would wait for each other: most of the work is in Python and in numpy calls that hold the interpreter. Things
and results travel in order, and only a few of them at a time, so memory doesn't grow with their number.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import connection
from typing import TypeVar

__all__ = ["in_order", "workers_for"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORTH_BYTES = 32 << 20
"""Less than that is done before other processes have started."""
_MOST_WORKERS = 16


def workers_for(size_bytes: float) -> int:
    """How many processes so much data is worth."""
    return min(os.cpu_count() or 1, _MOST_WORKERS) if size_bytes >= _WORTH_BYTES else 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results, in order; with one worker in this process."""
    if workers <= 1:
        yield from map(function, items)
        return
    # Spawned, not forked: the parent has threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    try:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker waits at a pipe whose other end it holds too: it would never learn that its parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
