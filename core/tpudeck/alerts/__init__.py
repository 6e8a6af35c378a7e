"""Trouble: found while a run goes on (:mod:`~tpudeck.alerts.rules`), and told to whoever wants to know
(:mod:`~tpudeck.alerts.notify`). Neither can hurt the run: rules only read what the run wrote, and telling is done by a
process of its own (``python -m tpudeck.alerts``)."""

from tpudeck.alerts.notify import Notifier, check_target
from tpudeck.alerts.rules import Watchdog

__all__ = ["Notifier", "Watchdog", "check_target"]
