"""All checks, in the order in which people should read them."""

from __future__ import annotations

from tpudeck.doctor.access import check_credentials, check_hub, check_store
from tpudeck.doctor.environment import check_packages, check_python, check_terminal, check_variables
from tpudeck.doctor.findings import Finding
from tpudeck.doctor.machine import (
    check_chips,
    check_disk,
    check_lock_file,
    check_logind,
    check_memory,
    check_metadata,
    check_tmux,
)
from tpudeck.doctor.surroundings import Surroundings

__all__ = ["examine"]

CHECKS = (
    check_python,
    check_packages,
    check_variables,
    check_chips,
    check_lock_file,
    check_metadata,
    check_disk,
    check_memory,
    check_credentials,
    check_hub,
    check_store,
    check_logind,
    check_tmux,
    check_terminal,
)


def examine(here: Surroundings | None = None) -> list[Finding]:
    """Look at this machine, or at the one described. Takes a second or two, longer where something does not answer."""
    surroundings = here or Surroundings()
    return [finding for check in CHECKS for finding in check(surroundings)]
