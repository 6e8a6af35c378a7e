"""A notice that the machine will be taken away leads to a checkpoint and a resumable end."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from fakes import runs
from fakes.stages import state_after
from tpudeck.config import Home

pytestmark = pytest.mark.faults


class _Metadata(http.server.BaseHTTPRequestHandler):
    """The two questions of a metadata server, with an answer for each."""

    answers: dict[str, str]

    def do_GET(self) -> None:
        assert self.headers["Metadata-Flavor"] == "Google"
        question = self.path.partition("?")[0].rpartition("/")[2]
        body = type(self).answers[question].encode()
        self.send_response(200)
        self.send_header("ETag", str(hash(body)))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    answers = {"preempted": "FALSE", "maintenance-event": "NONE"}
    handler = type("Metadata", (_Metadata,), {"answers": answers})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.server_port}")
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("question", "answer"), [("preempted", "TRUE"), ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")]
)
def test_a_notice_saves_a_checkpoint_and_the_run_resumes(
    home: Home, metadata: dict[str, str], question: str, answer: str
) -> None:
    folder = runs.begin(home, steps=2000, step_s=0.005, checkpoint_every=10_000)
    runs.at_step(folder, 5)
    metadata[question] = answer
    stopped = runs.ended(folder).summary
    assert stopped.status == "stopped"
    assert "machine" in stopped.evidence
    assert any((folder / "checkpoints").glob("*/manifest.json"))
    metadata[question] = "FALSE"
    runs.behave(folder)
    runs.resume(folder)
    assert runs.ended(folder).summary.status == "finished"
    assert runs.result(folder)["state"] == state_after(2000)


def test_a_live_migration_is_no_reason_to_stop(home: Home, metadata: dict[str, str]) -> None:
    metadata["maintenance-event"] = "MIGRATE_ON_HOST_MAINTENANCE"
    folder = runs.begin(home, steps=100)
    assert runs.ended(folder).summary.status == "finished"
