"""Requests to `watch` that no browser sends. What lies outside of the runs must not be in any answer."""

import socket
import threading
from pathlib import Path
from random import Random
from urllib.parse import quote

from tests.hostile.generators.bytes_and_values import TEXTS, damaged
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.commands.watch import make_server
from yolofast.watch.server import WatchServer, _Handler

SECRET = b"what nobody may read"
_SERVERS: dict[tuple[Path, str | None], WatchServer] = {}
_PER_CASE = 12


def server_of(root: Path, token: str | None) -> WatchServer:
    """Listens, though nobody connects: requests come through a pair of sockets, one process at a time."""
    if (root, token) not in _SERVERS:
        (root.parent / "secret.png").write_bytes(SECRET)
        _SERVERS[root, token] = make_server(root, "127.0.0.1" if token is None else "0.0.0.0", 0, token)
    return _SERVERS[root, token]


def requests(random: Random, folder: Path, sound: Sound) -> Case:
    server = server_of(sound.run.parent, random.choice((None, "a-token-for-the-tests")))
    sent = [_request(random, sound.run.name) for _ in range(_PER_CASE)]
    return Case("requests", call=lambda: _answered(server, sent), about=repr(sent)[:2000])


def _request(random: Random, run: str) -> bytes:
    names = (
        "report.html",
        "../secret.png",
        "secret.png",
        "results.png",
        "weights/best.pt",
        "args.yaml",
        "%2e%2e/secret.png",
        "..\\secret.png",
    )
    name, place = (
        random.choice((*names, *TEXTS)),
        random.choice((run, "..", f"{run}/..", ".", "/", "", "%2e%2e", *TEXTS)),
    )
    if random.random() < 0.5:
        name, place = quote(name, errors="replace"), quote(place, errors="replace")
    path = random.choice((
        f"/file?id={place}&name={name}", f"/file?id={place}&name={name}", f"/file?id={run}&name={name}",
        f"/{name}", f"/api/run?id={place}&since={random.choice(TEXTS)}&batches={10**random.randrange(40)}",
        "/api/runs", "/",
        "/" + "../" * 20 + "secret.png", "//etc/passwd", "http://127.0.0.1/secret.png", "*", "/?" + "a=1&" * 500,
        "/?token=" + "x" * 1000, "/" + "a" * 60_000,
    ))  # fmt: skip
    method = random.choice(
        (
            "GET",
            "GET",
            "GET",
            "POST",
            "PUT",
            "DELETE",
            "HEAD",
            "OPTIONS",
            "TRACE",
            "CONNECT",
            "get",
            "X" * 100,
            "",
            "\x00",
        )
    )
    version = random.choice(
        ("HTTP/1.0", "HTTP/1.1", "HTTP/1.1", "HTTP/2.0", "HTTP/9.9", "http/1.1", "", "HTTP/1." + "1" * 5000)
    )
    headers = [f"Host: {random.choice(('localhost', '127.0.0.1', 'evil.example', '[::1]:80', '', 'a' * 5000, *TEXTS))}"]
    headers += [_header(random) for _ in range(random.choice((0, 1, 3, 200)))]
    text = "\r\n".join([f"{method} {path} {version}", *headers, "", ""])
    content = text.encode("utf-8", "replace")
    return damaged(random, content) if random.random() < 0.2 else content


def _header(random: Random) -> str:
    return random.choice((
        "Content-Length: " + random.choice(("-1", "10", "9" * 40, "x")), "Transfer-Encoding: chunked",
        'Cookie: yolofast-watch-0="' + "\\" * random.choice((1, 20_000)),
        "Cookie: " + "a=b; " * random.choice((1, 3000)), "Range: bytes=0-1", "Connection: keep-alive",
        "Expect: 100-continue", "X: " + random.choice(TEXTS), ": x", " folded", "Upgrade: websocket",
    ))  # fmt: skip


def _answered(server: WatchServer, sent: list[bytes]) -> int:
    for request in sent:
        ours, theirs = socket.socketpair()
        handler = threading.Thread(target=_handle, args=(server, theirs), daemon=True)
        handler.start()
        try:
            ours.sendall(request)
            ours.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while part := ours.recv(65_536):
                answer += part
        except OSError:
            pass
        handler.join()
        ours.close()
        assert SECRET not in answer, "a secret is in the answer"
        assert b" 500 " not in answer[:20], answer[:200]
    return 0


def _handle(server: WatchServer, connection: socket.socket) -> None:
    _Handler.disable_nagle_algorithm = False  # which a pair of sockets does not have
    try:
        server.finish_request(connection, ("127.0.0.1", 1))
    except Exception:  # noqa: BLE001 - as the server does
        server.handle_error(connection, ("127.0.0.1", 1))
    finally:
        connection.close()
