"""Text of a table's cell in which long words may be broken: a page has to fit the paper it is printed on.

Broken at their joints (`/ _ . -` and the like), and words without any after so many letters. A browser would break them
anywhere or nowhere: then every word of a wide table falls apart, or the table is cut.
"""

import re

from yolofast.pages.plain_text import html_text

_LONGEST = 14
_JOINTS = re.compile(r"[^/\\_.,:;=+-]*[/\\_.,:;=+-]+|[^/\\_.,:;=+-]+")


def breakable_html(text: str) -> str:
    return "".join(_word(part) for part in re.split(r"(\s+)", text))


def _word(word: str) -> str:
    if len(word) <= _LONGEST:
        return html_text(word)
    pieces = _JOINTS.findall(word)
    chunks = [piece[at : at + _LONGEST] for piece in pieces for at in range(0, len(piece), _LONGEST)]
    return "<wbr>".join(html_text(chunk) for chunk in chunks)
