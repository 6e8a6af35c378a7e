"""A run in a bucket while it runs: another machine follows it, and goes on with it where this one is lost.

Objects cannot grow, so what a run appends goes up in segments of whole lines, ``live/FILE/EPOCH-START-END``, each
beginning where the last one ended; a file that was rotated begins a new epoch. Many small segments are joined into one
before they are deleted, so for a moment two may cover the same bytes, which are the same. Small files that are replaced
are objects of the same name. Finished checkpoints and the artefacts of the run are sets of their own
(``storage.sets``), so a half-uploaded checkpoint is never taken for one.

The mirror is a process beside the run and only reads it: a bucket that refuses, is slow or is gone cannot touch
training. What could not be sent goes with the next pass.
"""

from tpudeck.mirror.reading import Follower, is_followed, is_mirror, keep_followed, pull_mirrored
from tpudeck.mirror.stores import StoreView, follow_store, has_runs
from tpudeck.mirror.writing import Mirror, keep_mirrored

__all__ = [
    "Follower",
    "Mirror",
    "StoreView",
    "follow_store",
    "has_runs",
    "is_followed",
    "is_mirror",
    "keep_followed",
    "keep_mirrored",
    "pull_mirrored",
]
