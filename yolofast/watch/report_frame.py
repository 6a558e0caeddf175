"""A run's report as a browser gets it: inside a frame that can neither leave nor connect.

Anybody may have written a report. A page of its own could go to any address, whatever its policy allows. So it is the
text of a frame in a page of ours: the policy of that page forbids its frames every address, and holds inside them too.
Only scripts that yolofast puts into reports run, known by their hashes: a policy cannot stop others from connecting
(WebRTC). Reports of earlier versions are shown as far as they do without theirs.
"""

import re
from collections.abc import Iterator
from functools import cache

from yolofast.pages.html import page_script, source_hash
from yolofast.pages.text import html_text

_EARLIER_SCRIPTS = (
    "'sha256-IyDS6Io8+bYv05RlMs/7PU1kuMhPBnz55GcokTDDWHM='",  # 0.1.0
    "'sha256-KcuaRCciSg+NwXYr+2r2fOthsjG2EkSb7FNAQgA9DpA='",  # 0.2.0
    "'sha256-pKDNmf07RK3FNNR0lTwjoa9SFAGePHUx/4RWTawKxb0='",
)
"""Of reports that are around, whose charts are drawn too: `source_hash(page_script())` of their versions."""
# On bytes, whose number no letter multiplies: a text takes four for each character if one of them is an emoji.
_SCRIPT_TAG = re.compile(rb"<(/?)script>", re.IGNORECASE)
# Browsers connect for these before they ask the policy, or without asking. Names of elements and attributes can be
# written in one way only, except in a frame within the frame.
_ELEMENTS = re.compile(rb"<(?=/?(?:link|i?frame|object|embed|portal|fencedframe)\b)", re.IGNORECASE)
_ATTRIBUTES = re.compile(rb"""\b(?:http-equiv|href(?=\s*=(?!\s*["']?\#)))""", re.IGNORECASE)
_OWN_LINKS = b'<base href="about:srcdoc">'  # or `#section` would be an address of the page around it
_ENTITIES = {b"&": b"&amp;", b"<": b"&lt;", b">": b"&gt;", b'"': b"&quot;", b"'": b"&#x27;"}
_SANDBOX = "allow-scripts"
_STYLE = (
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column}iframe{flex:1;border:0}"
    "p{margin:0;padding:6px 12px;font:14px sans-serif;background:#fe9;color:#000}"
)
_SAID = "This report was made by another version: its charts are not drawn. yolofast report makes it anew."


@cache
def report_headers() -> dict[str, str]:
    scripts = " ".join((source_hash(page_script()), *_EARLIER_SCRIPTS))
    policy = (
        f"sandbox {_SANDBOX}; default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "frame-src 'none'; base-uri about:; form-action 'none'; frame-ancestors 'none'"
    )
    return {"Content-Security-Policy": policy, "X-DNS-Prefetch-Control": "off"}


def framed_report(content: bytes, name: str) -> bytes:
    """The page around the report of the run of that name."""
    known = report_headers()["Content-Security-Policy"]
    said = "" if all(source_hash(script) in known for script in _scripts(content)) else f"<p>{_SAID}</p>"
    inside = _OWN_LINKS + _ATTRIBUTES.sub(b"data-unused", _ELEMENTS.sub(b"&lt;", content))
    for letter, entity in _ENTITIES.items():
        inside = inside.replace(letter, entity)
    before = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html_text(name)}</title><style>{_STYLE}</style></head>
<body>{said}
<iframe sandbox="{_SANDBOX}" allow="clipboard-write *" title="report" srcdoc=\""""
    return b"".join((before.encode(), inside, b'"></iframe></body>\n</html>\n'))


def _scripts(content: bytes) -> Iterator[str]:
    """From tag to tag: to look for the end of each would go through a page of beginnings once for each of them."""
    begun = None
    for tag in _SCRIPT_TAG.finditer(content):
        if not tag[1]:
            begun = tag.end() if begun is None else begun
        elif begun is not None:
            yield content[begun : tag.start()].decode("utf-8", "replace")
            begun = None
