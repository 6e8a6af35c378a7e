"""Start, stop and resume runs, from any front end.

A launcher writes the run folder, takes the lock of the run, and hands it to a supervisor that it starts in a session of
its own. So of two launchers of one folder the second is told at once, and when :func:`start` returns the run has an
owner; whatever then happens to the launcher, its terminal or its connection is nothing to the run.

==============  ==========================================================================
``creation``    the folder of a new run, whole or not at all; what cannot work is refused
``options``     how a run is looked after, as against what it computes
``control``     start, resume, and requests to a run that goes on
==============  ==========================================================================
"""

from tpudeck.launch.control import (
    request_checkpoint,
    request_profile,
    request_stop,
    require_own,
    resume,
    start,
    stop_now_requested,
    withdraw_profile,
)
from tpudeck.launch.creation import Origin, check_name, create
from tpudeck.launch.options import Options, read_options, write_options

__all__ = [
    "Options",
    "Origin",
    "check_name",
    "create",
    "read_options",
    "request_checkpoint",
    "request_profile",
    "request_stop",
    "require_own",
    "resume",
    "start",
    "stop_now_requested",
    "withdraw_profile",
    "write_options",
]
