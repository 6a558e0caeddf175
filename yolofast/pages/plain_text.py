"""Text of unknown origin – class names, paths, settings – made harmless before it is put anywhere."""

import json
import re
from html import escape
from typing import Any

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")


def printable(text: str) -> str:
    """Without control characters, halves of characters (names that are not UTF-8) and marks that turn text around."""
    return _UNPRINTABLE.sub("\ufffd", text)


def html_text(text: str) -> str:
    """For the inside of an element or of a quoted attribute."""
    return escape(printable(text), quote=True)


def markdown_text(text: str) -> str:
    """On one line, meaning nothing to Markdown nor to the HTML it may become."""
    line = " ".join(printable(text).split())
    return _MARKDOWN.sub(r"\\\1", escape(line, quote=False))


def markdown_paragraph(text: str) -> str:
    """The same where a block begins: a dash or a number there would make a list of it."""
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", markdown_text(text))


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in; `ensure_ascii` takes care of U+2028."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
