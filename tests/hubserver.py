"""A Hugging Face Hub on loopback, for tests: what the client libraries ask for when they read and write, on disk.

``HubServer`` serves every folder below its root as a repository: ``datasets/ORG/NAME`` and ``models/ORG/NAME``. A
repository whose folder holds ``.gated`` refuses its files. Clients find it by :meth:`HubServer.environ`, which has to
be set before ``huggingface_hub`` is imported: use a child process.

Only who knows ``HubServer.token`` may write. A write is a commit: small files come inside it, large ones before, each
under its hash, and what arrived once is not asked for again. ``HubServer.plan`` names a status (or ``"hang"``) that a
request gets instead of its answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

__all__ = ["HubServer"]

_KINDS = ("datasets", "models")


class Repository:
    """One folder, as it is now; its commit is a hash of its content."""

    def __init__(self, kind: str, name: str, folder: Path) -> None:
        self.kind = kind
        self.name = name
        self.folder = folder

    @property
    def gated(self) -> bool:
        return (self.folder / ".gated").exists()

    def files(self) -> dict[str, Path]:
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
        return {path.relative_to(self.folder).as_posix(): path for path in paths}

    def commit(self) -> str:
        digest = hashlib.sha1()
        for name, path in self.files().items():
            digest.update(name.encode() + path.read_bytes())
        return digest.hexdigest()

    def has(self, revision: str) -> bool:
        return revision in {"main", self.commit()}

    def info(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "sha": self.commit(),
            "private": (self.folder / ".private").exists(),
            "gated": "auto" if self.gated else False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": name} for name in self.files()],
        }

    def tree(self, below: str, recursive: bool) -> list[dict[str, Any]] | None:
        """Entries below a folder; none where there is no such folder."""
        prefix = f"{below}/" if below else ""
        inside = {name: path for name, path in self.files().items() if name.startswith(prefix)}
        if below and not inside:
            return None
        folders = {"/".join(name.split("/")[:depth]) for name in inside for depth in range(1, name.count("/") + 1)} - {
            below
        }
        entries = [{"type": "directory", "path": name, "oid": "0" * 40, "size": 0} for name in sorted(folders)]
        entries += [self.entry(name) for name in inside]
        return [
            e for e in entries if e["path"].startswith(prefix) and (recursive or "/" not in e["path"][len(prefix) :])
        ]

    def entry(self, name: str) -> dict[str, Any]:
        data = self.files()[name].read_bytes()
        return {"type": "file", "path": name, "oid": hashlib.sha1(data).hexdigest(), "size": len(data)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        body = self._body()
        hub = self.server.hub
        hub.requests.append(f"{self.command} {url.path}")
        parts = [unquote(part) for part in url.path.split("/") if part]
        planned = hub.plan(hub.requests[-1])
        if planned == "hang":
            hub.closing.wait()
        elif planned is not None:
            self._error(int(planned), "Injected")
        elif self._writes(parts):
            if self.headers.get("Authorization") != f"Bearer {hub.token}" and parts[0] != "lfs":
                self._error(401, "Unauthorized")
            else:
                self._write(parts, body)
        elif parts[:1] == ["api"] and parts[1:2] and parts[1] in _KINDS:
            self._api(parts[1], parts[2:], "recursive=true" in url.query.lower(), body)
        elif "resolve" in parts:
            kind = "datasets" if parts[0] == "datasets" else "models"
            self._resolve(kind, parts[1:] if kind == "datasets" else parts)
        else:
            self._error(404, "EntryNotFound")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _writes(self, parts: list[str]) -> bool:
        return (
            parts[:2] in (["api", "whoami-v2"], ["api", "repos"], ["api", "validate-yaml"])
            or parts[:1] == ["lfs"]
            or parts[-3:] == ["lfs", "objects", "batch"]
            or (parts[:1] == ["api"] and parts[4:5] in (["preupload"], ["commit"], ["branch"]))
        )

    def _write(self, parts: list[str], body: bytes) -> None:
        hub = self.server.hub
        if parts[:2] == ["api", "whoami-v2"]:
            self._json({"type": "user", "name": "org", "orgs": []})
        elif parts[:2] == ["api", "validate-yaml"]:
            self._json({"errors": [], "warnings": []})
        elif parts[:2] == ["api", "repos"]:
            self._create(json.loads(body))
        elif parts[0] == "lfs":
            if hashlib.sha256(body).hexdigest() == parts[1]:
                hub.large[parts[1]] = body
            self._json({})
        elif parts[-1] == "batch":
            self._json({"transfer": "basic", "objects": [self._large(item) for item in json.loads(body)["objects"]]})
        elif parts[4] == "preupload":
            files = json.loads(body)["files"]
            modes = [{"path": file["path"], "uploadMode": _mode(file), "shouldIgnore": False} for file in files]
            self._json({"files": modes})
        else:
            self._commit(parts[1], "/".join(parts[2:4]), body)

    def _create(self, wanted: Mapping[str, Any]) -> None:
        kind = f"{wanted.get('type') or 'model'}s"
        name = f"{wanted['organization']}/{wanted['name']}" if wanted.get("organization") else wanted["name"]
        url = f"{self.server.hub.url}/{'datasets/' if kind == 'datasets' else ''}{name}"
        if self.server.hub.repository(kind, name):
            self._send(409, json.dumps({"url": url}).encode(), {"Content-Type": "application/json"})
            return
        folder = self.server.hub.add(kind, name, {})
        folder.mkdir(parents=True)
        if wanted.get("private"):
            (folder / ".private").touch()
        self._json({"url": url, "name": name})

    def _large(self, item: Mapping[str, Any]) -> dict[str, Any]:
        known = {"oid": item["oid"], "size": item["size"]}
        if item["oid"] in self.server.hub.large:
            return known
        return known | {"actions": {"upload": {"href": f"{self.server.hub.url}/lfs/{item['oid']}", "header": {}}}}

    def _commit(self, kind: str, name: str, body: bytes) -> None:
        hub = self.server.hub
        files = {}
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "lfsFile":
                files[line["value"]["path"]] = hub.large[line["value"]["oid"]]
        hub.add(kind, name, files)
        repository = hub.repository(kind, name)
        assert repository is not None
        url = f"{hub.url}/{'datasets/' if kind == 'datasets' else ''}{name}/commit/{repository.commit()}"
        self._json({"success": True, "commitOid": repository.commit(), "commitUrl": url, "hookOutput": ""})

    def _api(self, kind: str, parts: list[str], recursive: bool, body: bytes) -> None:
        repository = self._find(kind, parts)
        if repository is None:
            return
        verb, revision, *rest = [*parts[2:], "revision", "main"][:2] + parts[4:]
        if not repository.has(revision):
            self._error(404, "RevisionNotFound")
        elif verb == "revision":
            self._json(repository.info())
        elif verb == "tree":
            tree = repository.tree("/".join(rest), recursive)
            if tree is None:
                self._error(404, "EntryNotFound")
            else:
                self._json(tree)
        elif verb == "paths-info":
            wanted = json.loads(body).get("paths", [])
            known = {entry["path"]: entry for entry in repository.tree("", True) or []}
            self._json([known[path] for path in wanted if path in known])
        else:
            self._error(404, "EntryNotFound")

    def _resolve(self, kind: str, parts: list[str]) -> None:
        repository = self._find(kind, parts)
        if repository is None:
            return
        revision, name = parts[3], "/".join(parts[4:])
        if repository.gated:
            self._error(401, "GatedRepo")
        elif not repository.has(revision):
            self._error(404, "RevisionNotFound")
        elif name not in repository.files():
            self._error(404, "EntryNotFound", {"X-Repo-Commit": repository.commit()})
        else:
            self._file(repository, name)

    def _find(self, kind: str, parts: list[str]) -> Repository | None:
        repository = self.server.hub.repository(kind, "/".join(parts[:2]))
        if repository is None:
            self._error(401, "RepoNotFound")
        return repository

    def _file(self, repository: Repository, name: str) -> None:
        data = repository.files()[name].read_bytes()
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": repository.commit(),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        status = 200
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(data) - int(last)
            end = min(int(last) if first and last else len(data) - 1, len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self._send(status, data, headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _mode(file: Mapping[str, Any]) -> str:
    """As the real one decides: by the name, and by the size."""
    return "lfs" if file["path"].endswith(".safetensors") or file["size"] > 1 << 20 else "regular"


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer


class HubServer:
    """``with HubServer(root) as hub:`` serves until the end of the block."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[str] = []
        """What was asked, in order: ``GET /api/…``."""
        self.token = "hf_loopbackTokenForTests"
        self.large: dict[str, bytes] = {}
        """Large files that arrived, by their SHA-256."""
        self.plan: Callable[[str], int | Literal["hang"] | None] = lambda request: None
        self.closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.hub = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def environ(self, cache: Path) -> dict[str, str]:
        """What points the client libraries here, with a cache of their own."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(cache),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "0",
        }

    def add(self, kind: str, name: str, files: Mapping[str, bytes], *, gated: bool = False) -> Path:
        """Make a repository; its folder."""
        folder = self.root / kind / name
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        if gated:
            (folder / ".gated").touch()
        return folder

    def repository(self, kind: str, name: str) -> Repository | None:
        folder = self.root / kind / name
        return Repository(kind, name, folder) if folder.is_dir() else None

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
