"""What is sent back: content, its type, and headers that leave a browser nothing to do with it but show it."""

import json
from dataclasses import dataclass, field
from typing import Any

from yolofast.known_numbers import without_nan

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
    return Answer(json.dumps(without_nan(values), allow_nan=False).encode(), "application/json")


def file_answer(content: bytes, content_type: str) -> Answer:
    is_page = content_type.startswith("text/html")
    return Answer(content, content_type, headers={"Content-Security-Policy": _REPORT_POLICY} if is_page else {})


def refusal(status: int, words: str) -> Answer:
    return Answer(words.encode() + b"\n", status=status)
