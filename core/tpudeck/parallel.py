"""The same function on many things, in as many processes as there are cores.

Threads would wait for each other: most of the work is in Python and in numpy calls that hold the interpreter. Things
and results travel in order, and only a few of them at a time, so memory doesn't grow with their number.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TypeVar

from tpudeck.errors import WorkError

__all__ = ["cores", "in_order", "workers_for"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORTH_BYTES = 32 << 20
"""Less than that is done before other processes have started."""
_MOST_WORKERS = 16


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(size_bytes: float) -> int:
    """How many processes so much data is worth."""
    return min(cores(), _MOST_WORKERS) if size_bytes >= _WORTH_BYTES else 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results, in order; with one worker in this process."""
    if workers <= 1:
        yield from map(function, items)
        return
    # Spawned, not forked: the parent has threads.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent)
    try:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise WorkError(
            "a process that shared the work was killed, perhaps because memory ran out",
            hint="give the same command again; what is finished is kept",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end with it.

    A worker waits at a pipe whose other end it holds too: it would never learn that its parent was killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
