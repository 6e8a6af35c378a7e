"""System: the machine, its accelerators and who holds them, and what the doctor says."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.timer import Timer
from textual.widget import Widget

from tpudeck import queue
from tpudeck.devices import Sample, SamplerProcess
from tpudeck.doctor import Finding, Surroundings, examine
from tpudeck.errors import TpudeckError
from tpudeck_tui.charts import FullScreen
from tpudeck_tui.panels.machine import device_lines, finding_lines, queue_lines
from tpudeck_tui.screens.base import shown
from tpudeck_tui.widgets.pages import Pages

__all__ = ["SystemScreen"]

_INTERVAL_S = 2.0


class SystemScreen(FullScreen):
    """Looks at the machine while it is seen, and not when it isn't."""

    DEFAULT_CSS = """
    SystemScreen {
        #machine { height: 1fr; padding: 0 1; }
        #doctor { height: 1fr; padding: 0 1; }
        &.-tall #doctor { height: 2fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("r", "examine", "Examine again", "system.examine"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._resources = ExitStack()
        self._sampler: SamplerProcess | None = None
        self._timer: Timer | None = None
        self._seen: tuple[Sample | None, str] = (None, "")
        self._queues: list[tuple[str, str, list[queue.Entry]]] | None = None
        self._findings: list[Finding] | None = None

    def body(self) -> Iterable[Widget]:
        yield Pages(("Machine", "Queue"), id="machine")
        yield Pages(("Doctor",), id="doctor")

    def on_mount(self) -> None:
        self.query_one("#doctor", Pages).focus()
        self.action_examine()

    # The machine, while it is seen.

    def on_screen_resume(self) -> None:
        if self._sampler is None:
            self._sampler = self._resources.enter_context(SamplerProcess(interval_s=_INTERVAL_S))
            self._timer = self.set_interval(_INTERVAL_S / 2, self._look)
            self._look()

    def on_screen_suspend(self) -> None:
        self._rest()

    def on_unmount(self) -> None:
        self._rest()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._resources.close()
        self._timer = self._sampler = None

    def _look(self) -> None:
        if self._sampler is None:
            return
        seen, queues = self._sampler.newest(), _queues()
        if (seen, queues) != (self._seen, self._queues):
            self._seen, self._queues = seen, queues
            self.query_one("#machine", Pages).fill(
                {"Machine": partial(device_lines, *seen), "Queue": partial(queue_lines, queues)}
            )

    # The doctor.

    def action_examine(self) -> None:
        """Have the doctor look again."""
        self._findings = None
        self._show_findings()
        self._examine()

    @work(thread=True, exclusive=True, group="doctor")
    def _examine(self) -> None:
        findings = examine(Surroundings(home=self.app.home))
        self.app.call_from_thread(self._take, findings)

    def _take(self, findings: list[Finding]) -> None:
        self._findings = findings
        self._show_findings()

    def _show_findings(self) -> None:
        self.query_one("#doctor", Pages).fill({"Doctor": partial(finding_lines, self._findings)})


def _queues() -> list[tuple[str, str, list[queue.Entry]]]:
    """Devices that runs have asked for, who has each, and who waits for it; none where their locks have no place."""
    with suppress(TpudeckError, OSError):
        return [(device, queue.holder(device), queue.entries(device)) for device in queue.devices()]
    return []
