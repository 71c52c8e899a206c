"""A server whose answers a test writes, for what no honest hub would say to the real client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Answer = tuple[int, dict[str, str], bytes]


class Liar:
    """A server whose answers a test writes: address without query → answer, or a function of the request."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[dict[str, str]], Answer]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        liar = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                liar.seen.append((self.path, headers))
                answer = liar.answers.get(self.path.partition("?")[0], (404, {}, b""))
                status, told, body = answer(headers) if callable(answer) else answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **told}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def json(self, path: str, value: object, **headers: str) -> None:
        self.answers[path] = (200, headers, json.dumps(value).encode())


@pytest.fixture
def liar(client_at, impatient) -> Iterator[Liar]:
    made = Liar()
    client_at(made.endpoint)
    yield made
    made.server.shutdown()
    made.server.server_close()
