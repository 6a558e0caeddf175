"""A run's report as a browser gets it: inside a frame that can neither leave nor connect.

Anybody may have written a report. A page of its own could go to any address, whatever its policy allows. So it is the
text of a frame in a page of ours: the policy of that page forbids its frames every address, and holds inside them too.
Only scripts that yolofast puts into reports run, known by their hashes: a policy cannot stop others from connecting
(WebRTC). Reports of earlier versions are shown as far as they do without theirs.
"""

import re
from functools import cache
from html import escape

from yolofast.pages.html import page_script, source_hash
from yolofast.pages.text import html_text

_EARLIER_SCRIPTS = (
    "'sha256-IyDS6Io8+bYv05RlMs/7PU1kuMhPBnz55GcokTDDWHM='",  # 0.1.0
    "'sha256-KcuaRCciSg+NwXYr+2r2fOthsjG2EkSb7FNAQgA9DpA='",  # 0.2.0
    "'sha256-pKDNmf07RK3FNNR0lTwjoa9SFAGePHUx/4RWTawKxb0='",
)
"""Of reports that are around, whose charts are drawn too: `source_hash(page_script())` of their versions."""
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL | re.IGNORECASE)
# Browsers connect for these before they ask the policy, or without asking. Names of elements and attributes can be
# written in one way only, except in a frame within the frame.
_ELEMENTS = re.compile(r"<(?=/?(?:link|i?frame|object|embed|portal|fencedframe)\b)", re.IGNORECASE)
_ATTRIBUTES = re.compile(r"""\b(?:http-equiv|href(?=\s*=(?!\s*["']?\#)))""", re.IGNORECASE)
_OWN_LINKS = '<base href="about:srcdoc">'  # or `#section` would be an address of the page around it
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
    text = content.decode("utf-8", "replace")
    known = report_headers()["Content-Security-Policy"]
    said = "" if all(source_hash(script) in known for script in _SCRIPT.findall(text)) else f"<p>{_SAID}</p>"
    inside = _OWN_LINKS + _ATTRIBUTES.sub("data-unused", _ELEMENTS.sub("&lt;", text))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html_text(name)}</title><style>{_STYLE}</style></head>
<body>{said}
<iframe sandbox="{_SANDBOX}" allow="clipboard-write *" title="report" srcdoc="{escape(inside)}"></iframe></body>
</html>
""".encode()
