"""A Hub on loopback, for the real huggingface_hub client to talk to: the endpoints and headers that it reads."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


def blob(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


@dataclass
class Repo:
    """Files by commit, and the branches and tags that name a commit."""

    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    gated: bool = False
    renamed_to: str | None = None


@dataclass
class Trouble:
    """An answer that replaces the proper one."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0
    methods: tuple[str, ...] = ("HEAD", "GET")
    only: str = ""
    """The one file that it strikes; all of them by default."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]


class FakeHub:
    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.trouble: dict[str, Trouble] = {}
        self.requests: list[Request] = []
        self.left_behind: set[str] = set()
        self.ranges = True
        self.served = 0
        """Bytes sent in answer to ranged requests."""
        self._closing = threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                hub._answer(self)

            def do_GET(self) -> None:
                hub._answer(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, repo_id: str, files: dict[str, Any], *, ref: str = "main", gated: bool = False) -> str:
        """A new commit of a repository on a branch or tag; returns its hash."""
        content = {name: blob(text) for name, text in files.items()}
        seed = repr((repo_id, ref, sorted(content.items())))
        commit = hashlib.sha1(seed.encode()).hexdigest()
        repo = self.repos.setdefault(repo_id, Repo({}, {}))
        repo.commits[commit] = content
        repo.refs[ref] = commit
        repo.gated = gated
        return commit

    def next_test(self) -> None:
        """No trouble and an empty log; a client that still retries after an earlier trouble is not heard any more."""
        self.left_behind |= self.trouble.keys()
        self.trouble.clear()
        self.requests.clear()

    def paths(self) -> list[str]:
        """What was asked for, as `METHOD path` without the query, and then forgotten."""
        seen = [f"{request.method} {urlsplit(request.path).path}" for request in self.requests]
        self.requests.clear()
        return seen

    # The protocol

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = urlsplit(handler.path).path
        if path.startswith("/api/models/"):
            return self._list(handler, path.removeprefix("/api/models/").strip("/").split("/"))
        cached = path.startswith("/api/resolve-cache/models/")
        parts = path.removeprefix("/api/resolve-cache/models").strip("/").split("/")
        if cached:
            repo_id, revision, name = "/".join(parts[:2]), parts[2], "/".join(parts[3:])
        elif "resolve" in parts:
            at = parts.index("resolve")
            repo_id, revision, name = "/".join(parts[:at]), unquote(parts[at + 1]), "/".join(parts[at + 2 :])
        else:
            self.requests.append(Request(handler.command, handler.path, dict(handler.headers.items())))
            return self._send(handler, 404, {"X-Error-Message": "no such endpoint"})
        if repo_id not in self.left_behind:
            self.requests.append(Request(handler.command, handler.path, dict(handler.headers.items())))
        trouble = self.trouble.get(repo_id)
        if trouble and handler.command in trouble.methods and trouble.only in ("", name):
            self._closing.wait(trouble.delay_s)
            if trouble.status != 200 or trouble.headers or trouble.body:
                return self._send(handler, trouble.status, trouble.headers, trouble.body)
        authorised = "Authorization" in handler.headers or "authorization" in handler.headers
        repo = self.repos.get(repo_id)
        if repo is None:
            if authorised:
                headers = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
                return self._send(handler, 404, headers)
            headers = {
                "WWW-Authenticate": 'Bearer realm="Authentication required", charset="UTF-8"',
                "X-Error-Message": "Invalid username or password.",
            }
            return self._send(handler, 401, headers)
        if repo.renamed_to:
            return self._send(handler, 307, {"Location": path.replace(repo_id, repo.renamed_to, 1)})
        if repo.gated:
            message = f"Access to model {repo_id} is restricted."
            headers = {"X-Error-Code": "GatedRepo", "X-Error-Message": message}
            return self._send(handler, 403 if authorised else 401, headers)
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            headers = {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"}
            return self._send(handler, 404, headers)
        content = repo.commits[commit].get(name)
        if content is None:
            headers = {
                "X-Repo-Commit": commit,
                "X-Error-Code": "EntryNotFound",
                "X-Error-Message": "Entry not found",
            }
            return self._send(handler, 404, headers)
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        headers = {"X-Repo-Commit": commit, "X-Linked-Size": str(len(content)), "X-Linked-Etag": etag, "ETag": etag}
        if not cached and "/" in repo_id:
            # The Hub serves a small file from a cache of its own, on the same host.
            headers["Location"] = f"/api/resolve-cache/models/{repo_id}/{commit}/{name}?etag=x"
            return self._send(handler, 307, headers)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", "")) if self.ranges else None
        if wanted:
            piece = content[int(wanted[1]) : int(wanted[2]) + 1]
            self.served += len(piece)
            end = int(wanted[1]) + len(piece) - 1
            headers["Content-Range"] = f"bytes {wanted[1]}-{end}/{len(content)}"
            return self._send(handler, 206, headers, piece)
        return self._send(handler, 200, headers, content)

    def _list(self, handler: BaseHTTPRequestHandler, parts: list[str]) -> None:
        """What a repository holds, with sizes: /api/models/org/name[/revision/REV]"""
        self.requests.append(Request(handler.command, handler.path, dict(handler.headers.items())))
        at = parts.index("revision") if "revision" in parts else len(parts)
        repo_id, revision = "/".join(parts[:at]), unquote(parts[at + 1]) if at < len(parts) else "main"
        repo, trouble = self.repos.get(repo_id), self.trouble.get(repo_id)
        if trouble and trouble.only == "/api/models":
            return self._send(handler, trouble.status, trouble.headers, trouble.body)
        if repo is None:
            return self._send(handler, 401, {"X-Error-Message": "Invalid username or password."})
        if repo.gated:
            return self._send(handler, 401, {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model {repo_id} is restricted."})
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            return self._send(handler, 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
        files = [{"rfilename": name, "size": len(content)} for name, content in repo.commits[commit].items()]
        self._send(handler, 200, {"Content-Type": "application/json"}, blob({"id": repo_id, "sha": commit, "siblings": files}))

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client was tired of waiting


def closed_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
