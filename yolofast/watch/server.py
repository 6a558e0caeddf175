"""The server of `yolofast watch`: the standard library's, a thread per connection, GET only.

Nothing here takes a path from an address: files of the page are a fixed set, runs are those that were found. The
headers of an answer allow a browser nothing but to show it.
"""

import io
import json
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from yolofast.errors import UserError
from yolofast.files.known_numbers import without_nan
from yolofast.runs import layout
from yolofast.watch.gate import Gate
from yolofast.watch.report_frame import framed_report, report_headers
from yolofast.watch.runs import Runs

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WEB = Path(__file__).parent / "web"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LARGEST_COUNT = 10**9
_MOST_HEADER_BYTES = 2**15
"""Browsers send two thousand; the standard library would keep six million of everyone who connects."""
_BETTER = {"higher": 1, "lower": -1, "": 0}


@dataclass(frozen=True)
class HttpAnswer:
    content: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def json_answer(values: dict[str, Any]) -> HttpAnswer:
    return HttpAnswer(json.dumps(without_nan(values), allow_nan=False).encode(), "application/json")


def refusal(status: int, words: str) -> HttpAnswer:
    return HttpAnswer(words.encode() + b"\n", status=status)


class WatchServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, runs: Path, host: str, port: int, token: str | None, assets: Mapping[str, bytes]) -> None:
        """`assets` are files of the page by name, in addition to those in `web/`. Port 0 takes any free one."""
        self.runs = Runs(runs)
        own = {path.name: path.read_bytes() for path in WEB.iterdir() if path.suffix in _TYPES}
        self.assets = {**own, "layout.js": layout_script(), **assets}
        self.address_family, address = _address(host, port)
        try:
            super().__init__(address, _Handler)
        except (OSError, OverflowError) as error:
            what = f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"
            raise UserError(what, fix="give another --port, or --host 127.0.0.1") from None
        self.gate = Gate(host, self.server_port, token)

    def server_bind(self) -> None:
        """Without the name lookup of the standard library."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def layout_script() -> bytes:
    """`layout.js`: what the page has to know of a run's folder, as data."""
    shown = {
        "epoch": layout.EPOCH, "time": layout.TIME, "rate": layout.RATES[0], "speed": layout.SPEED,
        "wait": layout.WAIT, "memory": layout.MEMORY,
    }  # fmt: skip
    content: dict[str, Any] = {
        "FILES": {"report": layout.FILES.report, "sweep": layout.SWEEP_PAGE},
        "COLUMNS": {key: column.name for key, column in shown.items()},
        "METRICS": [
            {"name": one.name, "title": one.title, "chart": one.chart or one.title, "better": _BETTER[one.better]}
            for one in (*layout.metrics(), *layout.MOTION_METRICS)
        ],
        "FITNESS": layout.FITNESS,
        "LOSSES": [
            {"title": one.title, "parts": one.name.split(layout.TERM)} for one in (layout.TRAIN_LOSS, layout.VAL_LOSS)
        ],
        "TERMS": layout.TERMS,
    }
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in content.items()).encode()


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError):
        raise UserError(f"--host is {host!r}, which is no address", fix="give 127.0.0.1 or 0.0.0.0") from None
    return family, address


class _Headers:
    """The lines of a request up to a number of bytes."""

    def __init__(self, lines: BufferedIOBase) -> None:
        self._lines, self._left = lines, _MOST_HEADER_BYTES

    def readline(self, most: int) -> bytes:
        line = self._lines.readline(min(most, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("headers")  # which the standard library answers
        return line


class _InTime(io.RawIOBase):
    """What a connection says within some seconds: one that drips a byte now and then keeps no thread."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._end = connection, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(self._end - time.monotonic(), 0.001))
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    protocol_version = "HTTP/1.0"  # a connection per request: no thread waits for a tab that may never ask again
    timeout = 20  # seconds for all of a request, and again for its answer
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_InTime(self.connection, self.timeout))

    def parse_request(self) -> bool:
        lines = self.rfile
        self.rfile = cast(BufferedIOBase, _Headers(lines))
        try:
            return super().parse_request()
        finally:
            self.rfile = lines

    def do_GET(self) -> None:
        try:
            answer = self._answer()
        except Exception:
            self._send(refusal(500, "this cannot be answered; the terminal of yolofast watch says why"))
            raise
        self._send(answer)

    def _refuse_method(self) -> None:
        self._send(HttpAnswer(b"only GET\n", status=405, headers={"Allow": "GET"}))

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _answer(self) -> HttpAnswer:
        gate = self.server.gate
        if not gate.knows_host(self.headers.get("Host")):
            return refusal(403, f"open this page as http://localhost:{gate.port}/")
        try:
            address = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(address.query, max_num_fields=20).items()}
        except ValueError:
            return refusal(400, "the address cannot be understood")
        if address.path == "/" and gate.is_token(query.get("token", "")):
            return self._asset("index.html", {"Set-Cookie": gate.cookie()})
        if not gate.admits(self.headers.get("Cookie")):
            return refusal(401, "open the address that yolofast watch has printed: it has a token")
        return self._route(address.path, query)

    def _route(self, path: str, query: Mapping[str, str]) -> HttpAnswer:
        runs = self.server.runs
        if path == "/api/runs":
            return json_answer(runs.list())
        if path == "/api/run":
            since, batches = _count(query.get("since")), _count(query.get("batches"))
            found = runs.detail(query.get("id", ""), query.get("generation", ""), since, batches)
            return refusal(404, "no such run") if found is None else json_answer(found)
        if path == "/file":
            file = runs.file(query.get("id", ""), query.get("name", ""))
            if file is None:
                return refusal(404, "no such file")
            if not file.content_type.startswith("text/html"):
                return HttpAnswer(*file)
            return HttpAnswer(framed_report(file.content, query["id"]), file.content_type, headers=report_headers())
        return self._asset("index.html" if path == "/" else path.removeprefix("/"), {})

    def _asset(self, name: str, headers: dict[str, str]) -> HttpAnswer:
        content = self.server.assets.get(name)
        if content is None:
            return refusal(404, "there is nothing here")
        return HttpAnswer(content, _TYPES[Path(name).suffix], headers=headers)

    def _send(self, answer: HttpAnswer) -> None:
        self.connection.settimeout(self.timeout)
        self.send_response(answer.status)
        given = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.content))}
        for name, value in {"Content-Security-Policy": _PAGE_POLICY, **HEADERS, **given, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For what the standard library refuses itself: requests that are not HTTP, or too long."""
        self._send(refusal(code, "this is not a request that is answered here"))

    def version_string(self) -> str:
        return "yolofast"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the page sends a request every two seconds."""


def _count(text: str | None) -> int:
    return min(int(text), _LARGEST_COUNT) if text and text.isdecimal() and len(text) < 20 else 0
