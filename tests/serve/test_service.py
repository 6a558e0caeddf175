"""The addresses of the service: the detector's own answers, refusals with the status that says whose mistake it is."""

import asyncio
import base64
import hashlib
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zlib
from contextlib import suppress
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing
from tests.patience import PATIENCE, wait_until
from tests.programs import Program
from yolofast import Detector

pytest.importorskip("fastapi", reason="the extra yolofast[serve] is not installed")
pytest.importorskip("httpx", reason="FastAPI's client for tests needs it")
from fastapi.testclient import TestClient

from yolofast.detect.detector import DetectionFilter
from yolofast.interrupts import STOPS
from yolofast.serve.app import Limits, Service
from yolofast.serve.batcher import Batcher
from yolofast.serve.metrics import Metrics
from yolofast.serve.pictures import picture_of
from yolofast.structures import Detections
from yolofast.watch.gate import Gate

TOKEN = "a-token-of-some-length"
MOST_BYTES, MOST_PIXELS = 50_000, 200 * 200


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return Detector(save_seeing(tmp_path_factory.mktemp("serve") / "best.pt", img_size=64))


@pytest.fixture
def make(detector):
    """A client of a service; `detect` takes the place of the detector."""
    opened = []

    def start(token=None, detect=None, seconds=PATIENCE):
        see = detect or (lambda pictures: detector.detect(pictures, DetectionFilter()))
        batcher = Batcher(see, lambda content: picture_of(content, MOST_PIXELS), batch=4, waiting=2)
        gate = Gate("0.0.0.0" if token else "127.0.0.1", 80, token, "serve")
        about = {"model": "best.pt"}
        service = Service(batcher, detector.names, about, Limits(MOST_BYTES, seconds), Metrics(4), gate)
        client = TestClient(service.app(), base_url="http://localhost", raise_server_exceptions=False)
        opened.append(client.__enter__())
        client.batcher = batcher
        return client

    yield start
    for client in opened:
        client.__exit__(None, None, None)


def encoded(image, suffix=".png"):
    return cv2.imencode(suffix, image)[1].tobytes()


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".webp"])
def test_answers_are_the_detectors(suffix, make, detector):
    content = encoded(picture(3, 100, 80), suffix)
    answer = make().post("/v1/detect", content=content)
    assert answer.status_code == 200, answer.text
    wanted = detector.predict(cv2.imdecode(np.frombuffer(content, np.uint8), 1))[0]
    found = answer.json()
    assert found["image"] == {"width": 80, "height": 100} and found["batch"] == 1
    assert [one["class"] for one in found["detections"]] == wanted.labels.tolist() and len(wanted.labels) > 1
    np.testing.assert_allclose([one["box"] for one in found["detections"]], wanted.boxes, atol=0.006)
    np.testing.assert_allclose([one["score"] for one in found["detections"]], wanted.scores, atol=6e-6)
    assert {one["name"] for one in found["detections"]} <= set(detector.names)


def test_a_request_may_ask_for_surer_ones(make):
    client, content = make(), encoded(picture(3))
    scores = [one["score"] for one in client.post("/v1/detect", content=content).json()["detections"]]
    least = sorted(scores)[len(scores) // 2]
    surer = client.post("/v1/detect", params={"conf": least}, content=content).json()["detections"]
    assert 0 < len(surer) < len(scores)
    for wrong in ("2", "nan", "x"):
        assert client.post("/v1/detect", params={"conf": wrong}, content=content).status_code == 400


def png_of(width, height):
    """That says it has so many pixels."""

    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


HOSTILE = {
    "nothing": (b"", 400, "empty"),
    "text": (b"<html>" * 9, 415, "is not JPEG, PNG, BMP or WebP"),
    "a bomb": (png_of(60_000, 60_000), 413, "60000×60000 pixels, more than the 40,000"),
    "more pixels than there are": (png_of(150, 150), 415, "damaged"),
    "cut": (encoded(picture(1), ".jpg")[:200], 415, "ends before the image does"),
    "a tiff": (encoded(picture(1), ".tiff"), 415, "is not JPEG"),
    "no pixels": (png_of(0, 5), 415, "0×5 pixels"),
    "too many bytes": (bytes(MOST_BYTES + 1), 413, "more than the 50,000 bytes"),
    "a stream that does not say its length": ((bytes(10_000) for _ in range(9)), 413, "more than the 50,000 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_uploads_are_refused(name, make):
    content, status, words = HOSTILE[name]
    client = make(detect=lambda pictures: pytest.fail("no network sees it"))
    answer = client.post("/v1/detect", content=content)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert f'yolofast_requests_total{{status="{status}"}} 1' in client.get("/metrics").text


def test_a_client_that_goes_amid_its_upload_is_no_fault_of_the_service(make):
    client = make()
    parts = iter(({"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/v1/detect",
        "raw_path": b"/v1/detect", "query_string": b"", "headers": [(b"host", b"localhost")],
    }  # fmt: skip

    async def receive():
        return next(parts, {"type": "http.disconnect"})

    async def send(message):
        pass

    asyncio.run(client.app(scope, receive, send))
    assert 'yolofast_requests_total{status="400"} 1' in client.get("/metrics").text


def test_forms_and_foreign_methods_are_refused(make):
    client = make()
    answer = client.post("/v1/detect", files={"file": encoded(picture(1))})
    assert answer.status_code == 415 and "--data-binary" in answer.json()["error"]
    for path, status in (("/v1/detect", 405), ("/v1/../etc/passwd", 404)):
        answer = client.get(path)
        assert answer.status_code == status and "POST an image to /v1/detect" in answer.json()["error"]
    assert client.get("/v1/detect").headers["Allow"] == "POST"
    answer = client.post("/v1/detect", content=b"x", headers={"Content-Length": "-5"})
    assert answer.status_code == 400


def test_without_the_token_only_health_is_told(make):
    client, content = make(TOKEN), encoded(picture(1))
    for path in ("/v1/model", "/metrics", "/", "/openapi.json", "/?token=wrong"):
        assert client.get(path).status_code == 401
    assert client.post("/v1/detect", content=content, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    told = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/v1/detect", content=content, headers=told).status_code == 200
    assert client.get("/v1/model", headers=told).json() == {"names": ["cat", "dog", "cow"], "model": "best.pt"}
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    assert client.get("/metrics").status_code == 200, "the page's cookie"


def test_names_that_lead_here_from_elsewhere_are_refused(make):
    answer = make().get("/v1/model", headers={"Host": "evil.example"})
    assert answer.status_code == 403 and answer.json() == {"error": "use this service as http://localhost:80/"}


def test_the_page_runs_its_own_script_alone(make):
    answer = make().get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() in policy
    assert answer.headers["x-frame-options"] == "DENY" and "innerHTML" not in answer.text


def test_a_request_has_only_so_long_and_a_full_service_says_so(make):
    let = threading.Event()
    client = make(detect=lambda pictures: let.wait(PATIENCE) and [Detections.none() for _ in pictures], seconds=0.05)
    try:
        for _ in range(3):
            answer = client.post("/v1/detect", content=encoded(picture(1)))
            assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
    finally:
        let.set()


def test_a_network_that_fails_is_a_fault_of_the_service_and_nothing_is_shown(make):
    def fail(pictures):
        raise RuntimeError("secret")

    client = make(detect=fail)
    answer = client.post("/v1/detect", content=encoded(picture(1)))
    assert answer.status_code == 500 and "secret" not in answer.text
    assert 'status="500"} 1' in client.get("/metrics").text


def test_a_service_that_stops_is_not_ready(make):
    client = make()
    client.batcher.close()
    assert client.get("/readyz").status_code == 503 and client.get("/healthz").status_code == 200
    assert client.post("/v1/detect", content=encoded(picture(1))).status_code == 503


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPS)
def test_it_ends_when_what_was_accepted_is_answered(tmp_path, number):
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    words = ["serve", "--weights", str(weights), "--port", "0", "--batch-wait", "300", "--device", "cpu"]
    program = Program([sys.executable, "-m", "yolofast", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = next(one for one in program.stdout if b"http://" in one).decode()
    address = re.search(r"http://\S+", line)[0]
    answers = []

    def ask():
        request = urllib.request.Request(f"{address}v1/detect", encoded(picture(1)), method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            answers.append(json.load(answer))

    def unfinished():
        with urllib.request.urlopen(f"{address}metrics", timeout=PATIENCE) as answer:
            return int(re.search(r"^yolofast_unfinished_images (\d+)", answer.read().decode(), re.MULTILINE)[1])

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: unfinished() == 1 or answers, program)
    program.send_signal(number)
    asking.join(PATIENCE)
    assert program.wait(PATIENCE) == 0 and answers[0]["detections"]
    assert b"Traceback" not in program.stdout.read()
    program.stdout.close()


@pytest.mark.slow
def test_silent_connections_and_broken_bodies(tmp_path):
    """A program of its own, in which silence ends sooner: nobody is kept out, and nothing is shown in its terminal."""
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    begin = "from yolofast.serve import run; run._SILENCE_S = 1.0; from yolofast.cli import main; main({!r})"
    words = ["serve", "--weights", str(weights), "--port", "0", "--device", "cpu", "--queue", "1", "--timeout", "2"]
    command = [sys.executable, "-c", begin.format(words)]
    program = Program(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = next(one for one in program.stdout if b"http://" in one).decode()
    address = urlsplit(re.search(r"http://\S+", line)[0])
    place = address.hostname, address.port
    head = f"POST /v1/detect HTTP/1.1\r\nHost: {address.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for sent in (b"1;" + b"a" * 100_000, b"no length\r\n"):
        with socket.create_connection(place, PATIENCE) as one, suppress(OSError):
            one.sendall(head)
            one.sendall(sent)
            one.recv(100)
    silent = [socket.create_connection(place, PATIENCE) for _ in range(100)]
    for one in silent[::2]:
        one.sendall(b"GET / HTTP/1.1\r\nHost: ")

    def is_healthy():
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{address.geturl()}healthz", timeout=PATIENCE):
            return True
        return False

    assert not is_healthy()
    wait_until(is_healthy, program)
    for one in silent:
        one.close()
    program.terminate()
    assert program.wait(PATIENCE) == 0
    assert b"Traceback" not in program.stdout.read()
    program.stdout.close()
