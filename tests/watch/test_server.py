"""The server as a browser, and as somebody who means harm, meets it: over a real connection."""

import html
import http.client
import io
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import quote

import pytest

from tests.patience import PATIENCE, wait_until
from tests.watch.made_runs import append, make_run, row
from yolofast.commands.watch import address_of, make_server
from yolofast.errors import UserError
from yolofast.pages.html import page_script, source_hash
from yolofast.watch.gate import Gate, is_this_machine, token_for
from yolofast.watch.report_frame import framed_report
from yolofast.watch.run_curves import EpochRows
from yolofast.watch.server import _Handler, _Headers

TOKEN = "a-token-for-the-tests"


@contextmanager
def serving(root, host="127.0.0.1", token=None):
    with make_server(root, host, 0, token) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.fixture
def runs(tmp_path):
    make_run(tmp_path / "runs" / "exp")
    (tmp_path / "runs" / "exp" / "report.html").write_text("<p>report</p>")
    (tmp_path / "secret.png").write_bytes(b"private")
    return tmp_path / "runs"


def test_the_page_its_files_and_their_headers(runs):
    with serving(runs) as server:
        for path, kind in (
            ("/", "text/html"),
            ("/watch.js", "text/javascript"),
            ("/chart.js", "text/javascript"),
            ("/page.css", "text/css"),
        ):
            status, headers, content = ask(server, path)
            assert status == 200 and headers["Content-Type"].startswith(kind) and content
            assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert b"http:" not in ask(server, "/")[2] and b"https:" not in ask(server, "/")[2]


def test_a_report_is_shown_apart_from_the_site(runs):
    """Its script must not be able to ask the server for other runs."""
    with serving(runs) as server:
        status, headers, content = ask(server, "/file?id=exp&name=report.html")
    assert status == 200 and b'&lt;p&gt;report&lt;/p&gt;"></iframe>' in content
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts;") and "frame-src 'none'" in policy
    assert "default-src 'none'" in policy and "connect-src" not in policy and "'unsafe-inline'; img" in policy
    assert source_hash(page_script()) in policy and "script-src 'unsafe" not in policy


@pytest.mark.parametrize(
    "text",
    ["<LINK rel=preconnect href=x>", "<a\nHREF = 'x'>", "<iframe srcdoc=x>", '<META HTTP-EQUIV="refresh">',
     "<a xlink:href=x>", "<area/href=\f'x'>", '"><iframe src=x>', "<a href='\"#'>"],
)  # fmt: skip
def test_what_a_browser_connects_for_unasked_is_made_inert(text):
    page = framed_report(text.encode(), '"><script>')
    inside = html.unescape(re.search(rb'srcdoc="([^"]*)"></iframe></body>', page)[1].decode())
    _, _, given = inside.partition(">")  # after what makes links its own
    assert given and not re.search(r"<link|<iframe|\b(href|http-equiv)\s*=", given, re.IGNORECASE)
    assert page.count(b"<script") == 0 and page.count(b"<iframe") == 1


def test_fragments_stay():
    assert b"href=&quot;#s1&quot;" in framed_report(b'<a href="#s1">', "run")


def test_only_new_rows_are_sent(runs):
    with serving(runs) as server:
        first = json.loads(ask(server, "/api/run?id=exp")[2])
        assert first["since"] == 0 and len(first["rows"]) == 10 and first["batches"]["count"] == 40
        append(runs / "exp", row(10) + "\n")
        query = f"id=exp&generation={first['generation']}&since=10&batches=40"
        second = json.loads(ask(server, f"/api/run?{query}")[2])
        assert second["since"] == 10 and [one[0] for one in second["rows"]] == [10]
        assert second["batches"] == {"count": 40}
        other = json.loads(ask(server, "/api/run?id=exp&generation=of-another-server&since=10")[2])
        assert other["since"] == 0 and len(other["rows"]) == 11


TRICKS = [
    "/../secret.png", "/..%2fsecret.png", "/%2e%2e/secret.png", "/watch.js/../../server.py", "//etc/passwd",
    "/file?id=..&name=secret.png", "/file?id=exp&name=../../secret.png", "/file?id=exp&name=..%2f..%2fsecret.png",
    "/file?id=exp%2f..%2f..&name=secret.png", "/file?id=.&name=secret.png", "/file?id=exp&name=args.yaml",
    "/file?id=exp&name=%00.png", "/file?id=exp&name=report.html%00.png", "/file", "/api/run", "/api/run?id=%ff",
    "/exp/report.html", "/server.py", "/api", "/%", "/index.html/",
]  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
def test_tricks_find_nothing(runs, path):
    with serving(runs) as server:
        status, _, content = ask(server, path)
    assert status == 404 and b"private" not in content


@pytest.mark.parametrize(
    "query", ["since=-1", "since=1e9", "since=99999999999999999999", "batches=x", "generation=%00&since=3", "&" * 50]
)
def test_odd_numbers_are_read_as_none(runs, query):
    with serving(runs) as server:
        status, _, content = ask(server, f"/api/run?id=exp&{query}")
    assert status in (200, 400)
    if status == 200:
        assert len(json.loads(content)["rows"]) == 10


def test_get_only(runs):
    with serving(runs) as server:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            status, headers, _ = ask(server, "/api/runs", method)
            assert (status, headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "request_text",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"NONSENSE / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\xff\xfe\x00\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_http_does_no_harm(runs, request_text, capfd):
    with serving(runs) as server:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as connection:
            connection.sendall(request_text)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while part := connection.recv(4096):
                    answer += part
            except ConnectionError:
                pass
        assert b"<script" not in answer
        assert ask(server, "/")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"", b"GET /", b"GET / HTTP/1.0\r\n", b"GET / HTTP/1.0\r\nX: "])
def test_a_connection_that_drips_is_ended(runs, monkeypatch, start):
    monkeypatch.setattr(_Handler, "timeout", 0.3)
    with serving(runs) as server, socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(start)
        sent = 0
        with suppress(ConnectionError):
            while sent < 200:
                connection.sendall(b"x")
                sent += 1
                time.sleep(0.02)
        assert sent < 200
        assert ask(server, "/")[0] == 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9999", "127.0.0.1:80", "[::1]:8420", "LOCALHOST", "127.8.9.1"]
)
def test_names_of_this_machine_are_answered(runs, host):
    with serving(runs) as server:
        assert ask(server, "/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8420",
        "",
        "192.168.0.1",
        "localhost:x",
        "a@localhost",
        "[::1",
        "0.0.0.0",
    ],
)
def test_other_names_are_not_for_fear_of_rebinding(runs, host):
    with serving(runs) as server:
        status, _, content = ask(server, "/api/runs", Host=host)
    assert status == 403 and b"exp" not in content


def test_a_token_in_the_address_becomes_a_cookie(runs):
    with serving(runs, "0.0.0.0", TOKEN) as server:
        assert address_of(server) == f"http://localhost:{server.server_port}/?token={TOKEN}"
        for path in (
            "/",
            "/watch.js",
            "/api/runs",
            "/api/run?id=exp",
            "/file?id=exp&name=report.html",
            f"/api/runs?token={TOKEN}",
        ):
            assert ask(server, path)[0] == 401, "nothing without it, and only the page takes it"
        assert ask(server, "/?token=" + TOKEN[:-1])[0] == 401
        status, headers, _ = ask(server, f"/?token={TOKEN}", Host="gpu-box.example:8420")
        cookie = headers["Set-Cookie"]
        assert status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
        given = cookie.split(";")[0]
        assert ask(server, "/api/runs", Cookie=given, Host="gpu-box.example:8420")[0] == 200
        for wrong in (given + "x", given[:-1], "x=1", "yolofast-watch-1=" + TOKEN, '"', "a=\x80"):
            assert ask(server, "/api/runs", Cookie=wrong.encode("latin-1"))[0] == 401


@pytest.mark.parametrize("value", ['"' + "\\\\" * 15_000 + '"', "=" * 30_000, ";" * 30_000, "a=b; " * 6_000])
def test_cookies_of_strangers_cost_nothing(value):
    gate, began = Gate("0.0.0.0", 8420, TOKEN), time.process_time()
    assert not gate.admits(f"{gate.cookie_name}={value}") and time.process_time() - began < 0.05
    assert gate.admits(f"{value}; {gate.cookie_name}={TOKEN}") and not gate.admits(None)


@pytest.mark.parametrize("headers", [b"a: " + b"x" * 40_000, b"a: xxxxx\r\n" * 4_000, b"a: " + b"x" * 60_000 + b"\r\n"])
def test_headers_are_read_up_to_a_number_of_bytes(headers):
    """Before any token: the rest is left where it is."""
    lines = io.BytesIO(headers * 10)
    read = _Headers(lines)
    with pytest.raises(http.client.LineTooLong):
        list(iter(lambda: read.readline(2**16), b""))
    assert lines.tell() <= 2**15 + 1


def test_too_many_header_bytes_are_refused(runs):
    with serving(runs) as server:
        assert ask(server, "/", a="x" * 30_000)[0] == 200
        with suppress(ConnectionError):  # it is closed with bytes that nobody has read
            assert ask(server, "/", a="x" * 30_000, b="x" * 30_000)[0] == 431
        assert ask(server, "/")[0] == 200


def test_a_token_on_this_machine_is_asked_for_too(runs):
    with serving(runs, "127.0.0.1", TOKEN) as server:
        assert ask(server, "/api/runs")[0] == 401
        assert ask(server, f"/?token={TOKEN}", Host="evil.example")[0] == 403


def test_who_needs_a_token():
    assert (
        token_for("127.0.0.1", None) is None and token_for("::1", None) is None and token_for("localhost", None) is None
    )
    made = {token_for("0.0.0.0", None), token_for("0.0.0.0", None), token_for("gpu-box", None), token_for("", None)}
    assert len(made) == 4 and all(len(token) >= 24 for token in made)
    assert token_for("127.0.0.1", TOKEN) == TOKEN
    for bad in ("", "short", "with spaces in it", "ümlaute-in-dem-wort", "semi;colon;semi;colon", "new\nline-and-more"):
        with pytest.raises(UserError, match="--token"):
            token_for("0.0.0.0", bad)
    assert not is_this_machine("0.0.0.0") and not is_this_machine("192.168.1.1") and not is_this_machine("localhost.x")
    assert not Gate("0.0.0.0", 1, None).is_token("")


@pytest.mark.slow
def test_many_at_once_and_rows_that_come_meanwhile(runs):
    """Several tabs while a run writes: no answer is broken, none has half a row."""
    lengths, failures = [], []

    def look(server):
        try:
            for _ in range(10):
                found = json.loads(ask(server, "/api/run?id=exp")[2])
                assert all(len(one) == len(found["columns"]) for one in found["rows"])
                lengths.append(len(found["rows"]))
        except Exception as error:
            failures.append(error)
            raise

    with serving(runs) as server:
        threads = [threading.Thread(target=look, args=(server,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for epoch in range(10, 40):
            text = row(epoch) + "\n"
            append(runs / "exp", text[:30])
            append(runs / "exp", text[30:])
        for thread in threads:
            thread.join()
        assert not failures and max(lengths) <= 40
        assert len(json.loads(ask(server, "/api/run?id=exp")[2])["rows"]) == 40


def test_hostile_names_travel_as_data(tmp_path):
    name = "</script><img src=x onerror=alert(1)>'\"\n\u2028"
    make_run(tmp_path / name.replace("/", "／"))
    with serving(tmp_path) as server:
        _, headers, content = ask(server, "/api/runs")
        (line,) = json.loads(content)["runs"]
        assert headers["Content-Type"] == "application/json" and b"\xe2\x80\xa8" not in content
        assert ask(server, "/api/run?id=" + quote(line["id"], safe=""))[0] == 200


def test_a_port_that_is_taken(runs):
    with serving(runs) as server, pytest.raises(UserError, match="cannot listen"):
        make_server(runs, "127.0.0.1", server.server_port, None)


def test_an_address_that_is_none(runs):
    with pytest.raises(UserError, match="no address"):
        make_server(runs, "999.1.1.1", 0, None)


def test_one_run_with_impossible_numbers_hides_no_other(runs):
    """Its speed overflows; a page cannot be told what is not finite."""
    broken = make_run(runs / "broken")
    lines = [line.split(",") for line in (broken / "results.csv").read_text().splitlines()]
    for line in lines[1:]:
        line[1] = "1e308"
    (broken / "results.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    (broken / "batches.csv").write_text("epoch,batch,total\n" + "0,0,1e308\n" * 3000)
    with serving(runs) as server:
        status, _, content = ask(server, "/api/runs")
        speeds = {run["id"]: run["speed"] for run in json.loads(content)["runs"]}
        assert status == 200 and speeds["broken"] is None and speeds["exp"] == pytest.approx(900)
        status, _, content = ask(server, "/api/run?id=broken")
        assert status == 200 and None in json.loads(content)["batches"]["y"]


def test_one_run_that_cannot_be_read_hides_no_other(runs, monkeypatch, capfd):
    make_run(runs / "broken")
    read = EpochRows.refresh

    def fail(rows):
        if "broken" in str(rows._file.file):
            raise ArithmeticError("planted")
        read(rows)

    monkeypatch.setattr(EpochRows, "refresh", fail)
    with serving(runs) as server:
        lines = {run["id"]: run for run in json.loads(ask(server, "/api/runs")[2])["runs"]}
        assert lines["exp"]["epoch"] == 10 and lines["broken"].keys() == lines["exp"].keys()
        status, _, content = ask(server, "/api/run?id=broken")
        assert status == 500 and b"cannot be answered" in content
        assert ask(server, "/api/run?id=exp")[0] == 200
    said = ""

    def is_said():
        nonlocal said
        said += capfd.readouterr().err
        return "planted" in said

    wait_until(is_said)  # the thread that answered says it afterwards


def test_a_sweep_is_listed_with_its_page_and_nothing_else_of_its_folder(runs):
    folder = runs / "sweep" / "small"
    make_run(folder / "000")
    (folder / "trials.json").write_text('{"trials": [{"name": "000"}, {"name": "001"}]}')
    (folder / "secret.png").write_bytes(b"private")
    with serving(runs) as server:
        (line,) = json.loads(ask(server, "/api/runs")[2])["sweeps"]
        assert (line["id"], line["trials"], line["complete"], line["page"]) == ("sweep/small", 2, 0, False)
        assert ask(server, "/file?id=sweep/small&name=sweep.html")[0] == 404
        trials = [{"state": "complete", "best": 0.5}, {"state": "failed", "best": None}]
        (folder / "sweep.json").write_text(json.dumps({"trials": trials}))
        (folder / "sweep.html").write_text("<p>the page</p>")
        server.runs._list_until = 0
        listed = json.loads(ask(server, "/api/runs")[2])
        (line,) = listed["sweeps"]
        assert (line["complete"], line["failed"], line["best"], line["page"]) == (1, 1, 0.5, True)
        assert {run["id"] for run in listed["runs"]} == {"exp", "sweep/small/000"}
        status, _, page = ask(server, "/file?id=sweep/small&name=sweep.html")
        assert status == 200 and b"the page" in page
        for name in ("secret.png", "trials.json", "report.html"):
            assert ask(server, f"/file?id=sweep/small&name={name}")[0] == 404
        for text in ("[]", '{"trials": 3}', '{"trials": [3, {"best": "x"}]}', "{"):
            (folder / "sweep.json").write_text(text)
            server.runs._list_until = 0
            assert json.loads(ask(server, "/api/runs")[2])["sweeps"][0]["best"] is None
