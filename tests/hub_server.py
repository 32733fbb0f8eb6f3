"""A small server that speaks as much of the Hugging Face hub's API as uploads and downloads of a model need."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_secret"


class Hub(ThreadingHTTPServer):
    """Repositories in memory.

    ``repositories`` has the files of each, ``requests`` the paths that were asked for, and ``broken`` says whether
    commits fail.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories, self.requests, self.broken = {}, [], False

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def sha(self, name):
        return hashlib.sha1(repr(sorted(self.repositories[name].items())).encode()).hexdigest()


@contextmanager
def serving():
    """Serves a hub while the block runs."""
    with Hub() as hub:
        threading.Thread(target=hub.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield hub
        finally:
            hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        hub, path = self.server, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub.requests.append(path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}" if "organization" in given else given["name"]
            hub.repositories.setdefault(name, {})
            self.answer(200, {"url": f"{hub.address}/{name}", "id": name, "name": name})
        elif path.startswith("/api/models/") and "/preupload/" in path:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            self.answer(200, {"files": files})
        elif path.startswith("/api/models/") and "/commit/" in path:
            if hub.broken:
                self.answer(400, {"error": "the disk is full"})
                return
            name = "/".join(path.split("/")[3:5])
            for line in body.splitlines():
                part = json.loads(line)
                if part["key"] == "file":
                    hub.repositories[name][part["value"]["path"]] = base64.b64decode(part["value"]["content"])
            sha = hub.sha(name)
            self.answer(200, {"commitUrl": f"{hub.address}/{name}/commit/{sha}", "commitOid": sha, "success": True})
        else:
            self.answer(200, {"warnings": [], "errors": []})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server, self.path.partition("?")[0].replace("%2F", "/")
        hub.requests.append(path)
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4] if parts[:2] == ["api", "models"] else parts[:2])
        if name not in hub.repositories:
            self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return
        files, sha = hub.repositories[name], hub.sha(name)
        if "resolve" in parts:
            content = files[path.partition(f"/resolve/{sha}/")[2]]
            self.answer(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=sha)
        elif "tree" in parts:
            self.answer(200, [
                {"type": "file", "path": one, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for one, content in files.items()
            ])  # fmt: skip
        else:
            self.answer(200, {"id": name, "modelId": name, "sha": sha, "private": False, "tags": [], "siblings": []})
