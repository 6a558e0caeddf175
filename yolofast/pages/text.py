"""Text and numbers for pages. Text of unknown origin – class names, paths, settings – is escaped before it is used."""

import json
import math
import re
from html import escape
from typing import Any

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")
_LONGEST = 14
_JOINTS = re.compile(r"[^/\\_.,:;=+-]*[/\\_.,:;=+-]+|[^/\\_.,:;=+-]+")
UNKNOWN = "–"


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


def breakable_html(text: str) -> str:
    """Long words may be broken at their joints (`/ _ . -` and the like), or after so many letters, so that a table fits
    on paper. A browser alone would break them anywhere or nowhere."""
    return "".join(_word(part) for part in re.split(r"(\s+)", text))


def _word(word: str) -> str:
    if len(word) <= _LONGEST:
        return html_text(word)
    pieces = _JOINTS.findall(word)
    chunks = [piece[at : at + _LONGEST] for piece in pieces for at in range(0, len(piece), _LONGEST)]
    return "<wbr>".join(html_text(chunk) for chunk in chunks)


def shown(value: float | None) -> str:
    """About four significant digits; `chart.js` has the same rule."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if value == 0:
        return "0"
    if size < 0.001 or size >= 1e12:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{int(power):+d}"
    if value == int(value) or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3 if size >= 1 else 4}f}"


def known(value: float | None) -> float | None:
    """None for what is not a finite number, which JSON has no word for."""
    return value if value is not None and math.isfinite(value) else None
