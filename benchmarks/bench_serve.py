"""How long a service takes to answer when many ask at once, and whether it answers all of them.

    python -m benchmarks.bench_serve --weights best.onnx [--requests 1000] [--clients 32] [--image street.jpg]
        [--serve '--batch-size 8 --device cpu']

The service is started as a process of its own and asked over the loopback: by threads of this process, each with a
connection that it keeps and an image that it sends again and again. An answer counts if it is 200 and has the
detections that the first one had; the service's own metrics must have counted the same number.
"""

import argparse
import http.client
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cv2
import numpy as np
import torch

from yolofast.dataset.shapes.files import scene

Answer = tuple[int, float, dict[str, Any]]
"""Status, seconds, and what it says."""


class Service:
    """In a process of its own, ended with the block."""

    def __init__(self, words: list[str]) -> None:
        command = [sys.executable, "-m", "yolofast", "serve", "--port", "0", *words]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self._process.stdout:
            said.append(line)
            if found := re.search(r"http://\S+", line):
                self.address = urlsplit(found[0])
                return
        raise SystemExit("".join(said))

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.code = self._process.wait(60)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=120)

    def get(self, path: str) -> str:
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def ask(connection: http.client.HTTPConnection, content: bytes) -> Answer:
    start = time.perf_counter()
    connection.request("POST", "/v1/detect", content, {"Content-Type": "application/octet-stream"})
    answer = connection.getresponse()
    body = answer.read()
    return answer.status, time.perf_counter() - start, json.loads(body)


def load(service: Service, content: bytes, requests: int, clients: int) -> tuple[list[Answer], float]:
    """Answers, in the order in which they came, and the seconds it took."""
    answers: list[Answer] = []
    left, lock = iter(range(requests)), threading.Lock()

    def client() -> None:
        connection = service.connect()
        while True:
            with lock:
                if next(left, None) is None:
                    return
            try:
                one = ask(connection, content)
            except OSError as error:
                one = (0, 0.0, {"error": str(error)})
                connection = service.connect()
            with lock:
                answers.append(one)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--image", help="by default a drawn one")
    parser.add_argument("--serve", default="", help="further flags of yolofast serve")
    args = parser.parse_args()
    drawn = cv2.imencode(".jpg", scene("val", 0, 0).image)[1].tobytes()
    content = Path(args.image).read_bytes() if args.image else drawn
    with Service(["--weights", args.weights, *shlex.split(args.serve)]) as service:
        status, alone, first = ask(service.connect(), content)
        assert status == 200, first
        answers, seconds = load(service, content, args.requests, args.clients)
        counted = int(re.search(r'requests_total\{status="200"\} (\d+)', service.get("/metrics"))[1])
    lost = args.requests - sum(status == 200 for status, _, _ in answers)
    other = sum(
        [one["class"] for one in found.get("detections", ())] != [one["class"] for one in first["detections"]]
        for _, _, found in answers
    )
    times = np.array([seconds for status, seconds, _ in answers if status == 200]) * 1000
    batches = np.array([found["batch"] for status, _, found in answers if status == 200])
    print(f"{args.requests} requests of {len(content):,} bytes, {args.clients} at once, one thread per client")
    print(f"lost {lost}, with other classes {other}, counted by the service {counted - 1}, ended with {service.code}")
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    print(f"ms: median {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f}, worst {times.max():.1f}; one alone {alone * 1000:.1f}")
    print(f"{args.requests / seconds:.1f} requests a second; images detected together {batches.mean():.1f} on average")
    print(f"torch {torch.__version__}, python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
