"""From settings to a service that runs until it is told to stop, and then answers what it has accepted."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import numpy as np
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from yolofast._version import __version__
from yolofast.config.predict import ServeConfig
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.errors import UserError
from yolofast.export.runtimes.network import ExportedNetwork
from yolofast.interrupts import STOPS, stops_raise
from yolofast.serve.app import Limits, Service
from yolofast.serve.batcher import Batcher
from yolofast.serve.metrics import Metrics
from yolofast.serve.pictures import picture_of
from yolofast.watch.gate import Gate, is_this_machine, token_for

Say = Callable[[str], None]
_BACKLOG = 2048
_ASKING_ALONGSIDE = 64
"""Connections that may ask for health, metrics or the page while the queue is full."""
_SILENCE_S = 20.0
"""Seconds until a request must have begun, with all its headers. Connections count, and whoever opens some hundreds and
says nothing would keep all others out."""


class _Connection(H11Protocol):
    """One that ends if nothing is asked, and quietly when what is sent is no HTTP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_another_than(None)

    def send_400_response(self, msg: str) -> None:
        """In the middle of a body, whoever answers its request is told that nobody hears it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _wait_for_another_than(self, before: object) -> None:
        self.loop.call_later(_SILENCE_S, self._end_if_silent, before)

    def _end_if_silent(self, before: object) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is before and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
        else:
            self._wait_for_another_than(self.cycle)


def serve(config: ServeConfig, weights: str, token: str | None, say: Say) -> None:
    token = token_for(config.host, config.token or token)
    detector = ImageDetector(weights, cfg=config.cfg or None, size=config.img_size, device=config.device)
    exported = detector.model if isinstance(detector.model, ExportedNetwork) else None
    own = exported.facts if exported is not None else None
    if own is not None and own.batch == 1 and config.batch_size > 1:
        say("the file takes one image per call: exported with --dynamic batch, it would take those of several requests")
    chosen = DetectionFilter(conf=config.conf_thres, iou=config.iou_thres, most=config.max_det)
    listening = _listening(config.host, config.port)
    port = int(listening.getsockname()[1])
    gate = Gate(config.host, port, token, "serve")
    detector.detect([np.full((480, 640, 3), 114, np.uint8)], chosen)  # whatever is loaded late is loaded now
    batcher = Batcher(
        lambda pictures: detector.detect(pictures, chosen),
        lambda content: picture_of(content, int(config.max_megapixels * 1e6)),
        batch=config.batch_size, waiting=config.queue, wait_s=config.batch_wait / 1000,
    )  # fmt: skip
    about: dict[str, Any] = {
        "model": Path(weights).name, "size": list(detector.shape), "conf": chosen.conf, "iou": chosen.iou,
        "max_det": chosen.most, "yolofast": __version__, "weights_sha256": None if own is None else own.weights_sha256,
    }  # fmt: skip
    limits = Limits(int(config.max_mb * 1e6), config.timeout)
    service = Service(batcher, detector.names, about, limits, Metrics(config.batch_size), gate)
    server = uvicorn.Server(
        uvicorn.Config(
            service.app(),
            http=_Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            h11_max_incomplete_event_size=2**15,
            limit_concurrency=config.queue + _ASKING_ALONGSIDE,
            timeout_graceful_shutdown=int(config.timeout) + 1,
        )
    )
    listening.listen(_BACKLOG)  # from here on a request waits instead of being refused
    host = f"[{config.host}]" if ":" in config.host else config.host
    say(f"{Path(weights).name} is served: http://{host}:{port}/{'' if token is None else f'?token={token}'}")
    if not is_this_machine(config.host):
        say("whoever knows the token may send images, and nothing is encrypted: put a proxy with TLS before it")
    say("Ctrl+C or SIGTERM ends it; requests that were accepted are answered")
    try:
        with stops_raise(), _told_by_all(server):
            server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn stops as asked, and then raises the signal again
        pass
    finally:
        batcher.close()


@contextmanager
def _told_by_all(server: uvicorn.Server) -> Iterator[None]:
    """Uvicorn hears SIGINT and SIGTERM; the others end it as they do, and a second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        server.force_exit, server.should_exit = server.should_exit, True

    in_main_thread = threading.current_thread() is threading.main_thread()
    others = [number for number in STOPS if in_main_thread and number != signal.SIGTERM]
    usual = {number: found for number in others if (found := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in usual:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _listening(host: str, port: int) -> socket.socket:
    """Bound before anything is loaded; port 0 takes any free one."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, UnicodeError, OverflowError) as error:
        what = f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"
        raise UserError(what, fix="give another --port, or --host 127.0.0.1") from None
    return found
