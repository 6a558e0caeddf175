"""The service's addresses, as a FastAPI application.

A request is read and answered within one time limit, and counted. Whatever is wrong with it is one JSON message with
the status that says whose mistake it is. Nothing of an upload reaches a file, a log or a page.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from yolofast._version import __version__
from yolofast.detect.results import plain_rows
from yolofast.pages.html import source_hash
from yolofast.serve.batcher import Batcher, ImageAnswer
from yolofast.serve.metrics import CONTENT_TYPE, Metrics, label_text
from yolofast.serve.pictures import RefusedError
from yolofast.watch.gate import Gate

_OPEN = ("/healthz", "/readyz")
"""What load balancers ask for, without a token."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SCHEMA = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "parameters": [{"name": "conf", "in": "query", "schema": {"type": "number", "minimum": 0, "maximum": 1}}],
}


@dataclass(frozen=True)
class Limits:
    bytes: int
    """Of an upload."""
    seconds: float
    """Of a request."""


class Service:
    def __init__(
        self, batcher: Batcher, names: tuple[str, ...], about: dict[str, Any], limits: Limits, metrics: Metrics,
        gate: Gate,
    ) -> None:  # fmt: skip
        """`about` is what `/v1/model` says besides the names of the classes."""
        self._batcher, self._names, self._about, self._limits = batcher, names, about, limits
        self._metrics, self._gate = metrics, gate
        self._labels = [label_text(name) for name in names]

    def app(self) -> Any:
        app = FastAPI(
            title="yolofast", version=__version__, description="Images in, detected objects out.", docs_url=None,
            redoc_url=None, lifespan=self._lifespan,
        )  # fmt: skip
        app.add_api_route("/v1/detect", self.detect, methods=["POST"], openapi_extra=_SCHEMA)
        app.add_api_route("/v1/model", self.model)
        app.add_api_route("/metrics", self.prometheus)
        app.add_api_route("/healthz", self.healthy)
        app.add_api_route("/readyz", self.ready)
        app.add_api_route("/", self.page, include_in_schema=False)
        app.middleware("http")(self._admit)
        app.add_exception_handler(RefusedError, lambda request, error: _refusal(error))
        app.add_exception_handler(HTTPException, self._foreign)
        return app

    @asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self._batcher.close)

    async def _admit(self, request: Request, answer: Callable[[Request], Awaitable[Any]]) -> Any:
        response = _refusal(refused) if (refused := self._not_admitted(request)) else await answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _not_admitted(self, request: Request) -> RefusedError | None:
        gate, path = self._gate, request.url.path
        if path in _OPEN:
            return None
        if not gate.knows_host(request.headers.get("host")):
            return RefusedError(403, f"use this service as http://localhost:{gate.port}/")
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        told = gate.is_token(given) and kind.lower() == "bearer"
        of_page = path == "/" and gate.is_token(request.query_params.get("token", ""))
        if told or of_page or gate.admits(request.headers.get("cookie")):
            return None
        return RefusedError(401, "send the header Authorization: Bearer TOKEN")

    async def _foreign(self, request: Request, error: Any) -> Any:
        """An address or a method that there is not."""
        words = f"{request.method} of this address is not offered; POST an image to /v1/detect, or see /openapi.json"
        return JSONResponse({"error": words}, error.status_code, headers=error.headers)

    async def detect(self, request: Request) -> Any:
        """The objects in the JPEG, PNG, BMP or WebP image that is the body; `conf` omits those with a lower score."""
        start, status = time.perf_counter(), 500
        try:
            least = _least_score(request.query_params.get("conf"))
            async with asyncio.timeout(self._limits.seconds):
                content = await _body(request, self._limits.bytes)
                seen = await asyncio.wrap_future(self._batcher.submit(content))
            status = 200
            return JSONResponse(self._answer(seen, least))
        except TimeoutError:
            status = 503
            raise RefusedError(status, f"not answered within {self._limits.seconds:g} s; come back later") from None
        except RefusedError as error:
            status = error.status
            raise
        finally:
            self._metrics.requests.add(str(status))
            self._metrics.seconds.add(time.perf_counter() - start)

    def _answer(self, seen: ImageAnswer, least: float) -> dict[str, Any]:
        found, metrics = seen.detections[seen.detections.scores >= least], self._metrics
        for label in found.labels.tolist():
            metrics.detections.add(self._labels[label])
        metrics.waited.add(seen.waited)
        metrics.batch.add(seen.batch)
        metrics.network.add(seen.network)
        return {
            "detections": plain_rows(found, self._names),
            "image": {"width": seen.width, "height": seen.height},
            "ms": {"waited": round(seen.waited * 1000, 2), "network": round(seen.network * 1000, 2)},
            "batch": seen.batch,
        }

    async def model(self) -> Any:
        """Classes, sizes and thresholds."""
        return {"names": self._names, **self._about}

    async def prometheus(self) -> Any:
        now = {"yolofast_unfinished_images": ("Images that wait or are detected now.", self._batcher.unfinished)}
        return Response(self._metrics.text(now), media_type=CONTENT_TYPE)

    async def healthy(self) -> Any:
        return {"status": "ok"}

    async def ready(self) -> Any:
        if self._batcher.closed:
            raise RefusedError(503, "the service is stopping")
        return {"status": "ok"}

    async def page(self, request: Request) -> Any:
        """An image is dropped here, and its objects are drawn."""
        content, policy = drop_page()
        headers = {"Content-Security-Policy": policy}
        if self._gate.is_token(request.query_params.get("token", "")):
            headers["Set-Cookie"] = self._gate.cookie()
        return HTMLResponse(content, headers=headers)


def _refusal(error: RefusedError) -> Any:
    headers = {503: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}, 413: {"Connection": "close"}}
    return JSONResponse({"error": error.words}, error.status, headers=headers.get(error.status))


def _least_score(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 1:
        raise RefusedError(400, "conf is a number from 0 to 1")
    return score


async def _body(request: Request, most: int) -> bytes:
    """Refused as soon as it is too large, whether it says so or not."""
    too_large = RefusedError(413, f"the body has more than the {most:,} bytes that are allowed")
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > 18:
        raise RefusedError(400, "the length of the body cannot be understood")
    if int(said) > most:
        raise too_large
    if "multipart/form-data" in request.headers.get("content-type", ""):
        raise RefusedError(415, "send the image itself as the body: curl --data-binary @street.jpg")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_large
            parts.append(part)
    except ClientDisconnect:  # nobody hears it, but it is counted, and no fault of the service
        raise RefusedError(400, "the connection was closed before the body was whole") from None
    return b"".join(parts)


@functools.cache
def drop_page() -> tuple[str, str]:
    """The page on which one drops an image, and a policy that allows no style or script but its own."""
    folder = files("yolofast.serve").joinpath("web")
    style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("drop.css", "drop.js"))
    html = folder.joinpath("drop.html").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src {source_hash(style)}; script-src {source_hash(script)}; connect-src 'self'; "
        "img-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script), policy
