"""What is wrong with this machine, with an error text, or with what a run asks of both; and what to do about it.

===================  =============================================================================
``surroundings``     everything the checks look at, in one place that tests can make up
``environment``      checks of packages, environment variables, locale and terminal
``machine``          checks of chips, lock file, disk, memory, clock, logind, tmux
``access``           checks of credentials, and of the Hub and the bucket they are for
``examination``      all checks, in order: :func:`examine`
``explanations``     known error texts: :func:`explain`
``refusals``         what cannot work is refused before anything starts
``speed``            how fast a run is against its device, and what holds it back
===================  =============================================================================

Nothing here imports TensorFlow, touches a chip, or loads libtpu.
"""

from tpudeck.doctor.examination import examine
from tpudeck.doctor.explanations import Explanation, explain
from tpudeck.doctor.findings import Finding
from tpudeck.doctor.refusals import (
    refuse_what_cannot_start,
    refuse_what_cannot_work,
    refuse_while_held,
    tpu_holders,
)
from tpudeck.doctor.surroundings import Surroundings

__all__ = [
    "Explanation",
    "Finding",
    "Surroundings",
    "examine",
    "explain",
    "refuse_what_cannot_start",
    "refuse_what_cannot_work",
    "refuse_while_held",
    "tpu_holders",
]
