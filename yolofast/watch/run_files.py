"""Which files of a run's folder a browser may have: the report and pictures, by their plain names, and nothing else."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from yolofast.runs.layout import FILES
from yolofast.watch.plain_file import read_plain

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]{0,98}", re.ASCII)
_MAX_BYTES = 64 * 2**20
_MOST_PICTURES = 60


class RunFile(NamedTuple):
    content: bytes
    content_type: str


def read_run_file(folder: Path, name: str) -> RunFile | None:
    """None for names that are not allowed, links, and files that are not there."""
    kind = content_type(name)
    content = None if kind is None else read_plain(folder / name, _MAX_BYTES)
    return None if kind is None or content is None else RunFile(content, kind)


def content_type(name: str) -> str | None:
    """None if a browser may not have a file of that name."""
    if name == FILES.report:
        return "text/html; charset=utf-8"
    return _TYPES.get(os.path.splitext(name)[1].lower()) if _NAME.fullmatch(name) else None


def pictures(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(name for name in names if name != FILES.report and content_type(name))[:_MOST_PICTURES]
