"""A hook of mkdocs for what it does not do itself.

Links that leave docs/ become links into the repository, and have to lead to something there. The script that lets
search work from a folder is our copy instead of one that pages would fetch.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(#[^)\s]*)?(?=\))")
_FETCHED, _OURS = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    return output.replace(_FETCHED, get_relative_url(_OURS, page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    return output_content.replace(_FETCHED, f"/{_OURS}")  # 404.html is shown by servers only


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    here = Path(page.file.abs_src_path)
    docs = Path(config.docs_dir)

    def outside(link: "re.Match[str]") -> str:
        target = Path(os.path.normpath(here.parent / link[1]))
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            raise PluginError(f"{here}: there is no {link[1]}")
        return f"{config.extra['repository']}/{target.relative_to(ROOT)}{link[2] or ''}"

    return _LINK.sub(outside, markdown)
