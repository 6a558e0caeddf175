"""Looks for what a page of the built site would fetch from elsewhere: `python .ci/site.py site`.

Links to other places are fine, they wait for a click. Scripts, styles, pictures and fonts have to be in the folder.
"""

import re
import sys
from pathlib import Path

_TAG = re.compile(r"<(?:script|link|img|iframe|source|video)\b[^>]*>", re.IGNORECASE)
_FROM_ELSEWHERE = re.compile(r"\b(?:src|href)=[\"']?(?:https?:)?//", re.IGNORECASE)
_HARMLESS = re.compile(r"\brel=[\"']?(?:canonical|alternate|edit|prev|next)\b", re.IGNORECASE)
_STYLE = re.compile(r"(?:@import\s+(?:url\()?|url\()[\"']?(?:https?:)?//[^\"')]+", re.IGNORECASE)


def fetched(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".css":
        return _STYLE.findall(text)
    return [tag for tag in _TAG.findall(text) if _FROM_ELSEWHERE.search(tag) and not _HARMLESS.search(tag)]


def main(folder: str) -> None:
    pages = [path for path in Path(folder).rglob("*") if path.suffix in (".html", ".css")]
    found = [f"{page}: {what}" for page in pages for what in fetched(page)]
    if found or not pages:
        sys.exit("\n".join(found) or f"{folder} holds no page")
    print(f"{folder}: {sum(page.suffix == '.html' for page in pages)} pages, nothing is fetched from elsewhere")


if __name__ == "__main__":
    main(*sys.argv[1:])
