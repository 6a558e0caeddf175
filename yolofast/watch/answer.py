"""What is sent back: content, its type, and headers that leave a browser nothing to do with it but show it."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report brings its own script and comes from a folder that anybody may have written: it runs apart from this site,
# without its cookie, and can reach nothing.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-modals; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Answer:
    content: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        given = {"Content-Type": self.content_type, "Content-Length": str(len(self.content))}
        return {"Content-Security-Policy": _PAGE_POLICY, **HEADERS, **given, **self.headers}


def json_answer(values: dict[str, Any]) -> Answer:
    return Answer(json.dumps(_finite(values), allow_nan=False).encode(), "application/json")


def _finite(value: Any) -> Any:
    """JSON has no word for what is not finite: it is not known. Files may hold any number, and sums of large ones."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_answer(content: bytes, content_type: str) -> Answer:
    is_page = content_type.startswith("text/html")
    return Answer(content, content_type, headers={"Content-Security-Policy": _REPORT_POLICY} if is_page else {})


def refusal(status: int, words: str) -> Answer:
    return Answer(words.encode() + b"\n", status=status)
