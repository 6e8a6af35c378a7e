"""Trouble is found by rules, and told by a process that cannot hurt the run."""

from __future__ import annotations

import http.server
import json
import math
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import runs
from tpudeck import launch
from tpudeck.alerts import Watchdog, check_target
from tpudeck.alerts.notify import send
from tpudeck.config import Home
from tpudeck.errors import InputError, WorkError
from tpudeck.presets import resolve
from tpudeck.runs.events import AlertRaised, CheckpointSaved
from tpudeck.storage import write_json


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test(home: Home) -> Iterator[None]:
    with runs.faked_supervisor():
        yield
        runs.end_everything(home)


def raised(rows: list[dict[str, Any]], watchdog: Watchdog | None = None) -> list[tuple[str, int | None]]:
    watchdog = watchdog or Watchdog()
    return [(alert.alert, alert.step) for row in rows for alert in watchdog.see_metrics(row)]


def logged(losses: list[float], **more: float) -> list[dict[str, Any]]:
    return [{"step": step, "loss": loss, **more} for step, loss in enumerate(losses, start=1)]


def test_a_healthy_run_raises_nothing() -> None:
    losses = [10 / (1 + step / 20) + 0.3 * math.sin(step) for step in range(500)]
    assert raised(logged(losses, tokens_per_s=1000.0, step_s=0.1, input_wait_s=0.001)) == []


@pytest.mark.parametrize("loss", [math.nan, math.inf, "NaN", "Infinity"])
def test_a_loss_that_is_not_finite_is_raised_once(loss: Any) -> None:
    assert raised(logged([5.0, loss, loss])) == [("nan", 2)]


def test_a_loss_that_climbs_and_stays_up_is_divergence_and_one_spike_is_not() -> None:
    falling = [5.0 - step * 0.02 for step in range(100)]
    assert raised(logged([*falling, 30.0, *([3.0] * 50)])) == []
    assert [alert for alert, _ in raised(logged([*falling, *([9.0] * 50)]))] == ["divergence"]


def test_a_lasting_fall_of_throughput_is_raised_and_one_slow_line_is_not() -> None:
    rows = logged([1.0] * 40)
    rates = [1000.0] * 30 + [100.0] + [1000.0] * 9
    assert raised([row | {"tokens_per_s": rate} for row, rate in zip(rows, rates, strict=True)]) == []
    rates = [1000.0] * 30 + [500.0] * 10
    assert raised([row | {"tokens_per_s": rate} for row, rate in zip(rows, rates, strict=True)]) == [
        ("throughput_drop", 35)
    ]


def test_steps_that_wait_for_batches_are_input_bound() -> None:
    assert raised(logged([1.0] * 20, step_s=0.1, input_wait_s=0.05)) == [("input_bound", 10)]


def test_an_alert_is_raised_again_only_after_its_condition_has_ended() -> None:
    watchdog = Watchdog()
    said = [[alert.alert for alert in watchdog.see_silence(silent, "")] for silent in (True, True, False, True, True)]
    assert said == [["stall"], [], [], ["stall"], []]


def test_the_disk_is_nearly_full_under_two_checkpoints() -> None:
    watchdog = Watchdog()
    assert list(watchdog.see_disk(5 << 30)) == []
    watchdog.see_event(CheckpointSaved(step=1, path="x", size_bytes=3 << 30))
    assert [alert.alert for alert in watchdog.see_disk(5 << 30)] == ["disk"]


def test_trouble_that_the_stage_reports_itself_is_not_raised_twice() -> None:
    watchdog = Watchdog()
    watchdog.see_event(AlertRaised(alert="nan", message="the loss of step 2 is nan", level="error", step=2))
    assert raised([{"step": 2, "loss": "NaN"}], watchdog) == []


def started(home: Home, *notify: str, steps: int = 60, **behaviour: Any) -> Path:
    experiment = resolve("quickstart", home=home, overrides=[f"train.steps={steps}", "device.kind=cpu"]).experiment
    folder = launch.create(experiment, home=home, options=launch.Options(notify=notify))
    write_json(folder / "fake.json", behaviour)
    launch.start(folder)
    return folder


def recorder(path: Path) -> str:
    """A command that appends what it is told to a file."""
    code = f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read() + chr(10))"
    return shlex.join([sys.executable, "-c", code])


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_command_is_told_of_alerts_and_of_the_end_as_json(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "told"
    folder = started(home, recorder(out), nan_at=30)
    snapshot = runs.ended(folder)
    assert snapshot.summary.alerts == ("nan",)
    assert [line.event.alert for line in snapshot.events if isinstance(line.event, AlertRaised)] == ["nan", "finished"]
    runs.wait_until(lambda: len(told(out)) == 2)
    messages = {message["alert"]: message for message in told(out)}
    assert messages["nan"]["step"] == 30
    assert messages["finished"]["run"]["id"] == folder.name


class _Receiver(http.server.BaseHTTPRequestHandler):
    received: list[dict[str, Any]]
    refusals: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cls = type(self)
        cls.refusals -= 1
        self.send_response(503 if cls.refusals >= 0 else 200)
        self.end_headers()
        if cls.refusals < 0:
            cls.received.append(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[_Receiver]]]:
    handler = type("Receiver", (_Receiver,), {"received": [], "refusals": 0})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/secret-path", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_web_address_gets_the_alert_posted_and_is_kept_out_of_the_run(
    home: Home, receiver: tuple[str, type[_Receiver]]
) -> None:
    url, handler = receiver
    folder = started(home, url)
    runs.ended(folder)
    runs.wait_until(lambda: bool(handler.received))
    assert handler.received[0]["alert"] == "finished"
    assert (folder / "launch.json").stat().st_mode & 0o077 == 0
    assert "secret-path" not in (folder / "run.json").read_text() + (folder / "console.log").read_text()


def test_a_target_can_be_a_name_in_the_settings(home: Home, receiver: tuple[str, type[_Receiver]]) -> None:
    url, handler = receiver
    home.settings_file.write_text(f'[notify.team]\nurl = "{url}"\n')
    check_target("team", home)
    send("team", {"alert": "x"}, home=home)
    assert handler.received == [{"alert": "x"}]


def test_telling_is_tried_again(home: Home, receiver: tuple[str, type[_Receiver]]) -> None:
    url, handler = receiver
    handler.refusals = 2
    pauses: list[float] = []
    send(url, {"alert": "x"}, home=home, sleep=pauses.append)
    assert handler.received == [{"alert": "x"}]
    assert len(pauses) == 2


def test_telling_in_vain_does_not_give_the_address_away(home: Home) -> None:
    with pytest.raises(WorkError) as caught:
        send("http://127.0.0.1:9/secret", {"alert": "x"}, home=home, sleep=lambda seconds: None)
    assert "secret" not in caught.value.show()


def test_a_target_that_fails_hurts_nothing(home: Home) -> None:
    folder = started(home, "false")
    assert runs.ended(folder).summary.status == "finished"


def test_a_target_that_nobody_could_be_told_by_is_refused_before_anything_is_written(home: Home) -> None:
    experiment = resolve("quickstart", home=home).experiment
    with pytest.raises(InputError, match="who to notify"):
        launch.create(experiment, home=home, options=launch.Options(notify=("no-such-command-anywhere",)))
    assert not home.runs.exists()


def test_a_stall_is_told(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "told"
    started(home, recorder(out), steps=100_000, prepare_s=0.001, step_s=5.0, promise_s=0.5)
    runs.wait_until(lambda: any(message["alert"] == "stall" for message in told(out)))
