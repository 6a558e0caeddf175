"""`yolofast cache`: what was kept to be faster the next time, and removing it; all of it can be made again."""

import argparse
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.tools import CacheConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import DATA_CACHE, user_cache_folder
from yolofast.terminal.console import console, table
from yolofast.words import amount, counted, own_command

_DAY = 86_400
_OWN = {
    "index": "what was read of labels",
    "stores": "packed images",
    "kernels": "compiled kernels",
    "shapes": "built-in pictures",
}


@dataclass(frozen=True)
class Entry:
    """A file, or a folder that is one thing."""

    path: Path
    kind: str
    size: int
    used: float
    """When it was last written, or used where that is noted."""


def run(args: argparse.Namespace) -> None:
    config = from_args(CacheConfig, args)
    if config.older is not None and not config.clear:
        raise UserError("--older says what --clear removes", fix="add --clear")
    found, out = sorted(entries(config.data), key=lambda one: one.used), console()
    if not config.clear:
        listing = table("what", "size", "days unused", "where")
        for one in found:
            listing.add_row(one.kind, amount(one.size), f"{_days(one):.0f}", str(one.path))
        out.print(listing)
        out.print(f"{_sum(found)}; {own_command()} cache --clear removes all, --clear --older 30 what is older")
        return
    going = [one for one in found if config.older is None or _days(one) > config.older]
    for one in going:
        _remove(one.path)
    out.print(f"removed: {_sum(going)}")


def entries(data: str | None) -> Iterator[Entry]:
    """Of the user's cache, and of the one beside `data`, a data yaml or its folder. Locks are left alone."""
    own = user_cache_folder()
    for path in sorted(own.iterdir()) if own.is_dir() else ():
        kind = path.name.split("-")[0]
        if path.is_symlink() or kind not in _OWN:
            continue
        yield from (_entry(one, kind) for one in ([path] if kind == "shapes" else _within(path)))
    if data is not None:
        place = Path(data)
        if not place.exists():
            raise UserError("there is no such file or folder", where=place, fix="give a data yaml or its folder")
        for path in _within((place if place.is_dir() else place.parent) / DATA_CACHE):
            yield _entry(path, "index" if path.name.endswith(".index.npz") else "stores")


def _within(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if path.suffix != ".lock" and not path.is_symlink()]


def _entry(path: Path, kind: str) -> Entry:
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    stats = [file.lstat() for file in files]
    return Entry(path, _OWN[kind], sum(one.st_size for one in stats), max(one.st_mtime for one in stats))


def _days(entry: Entry) -> float:
    return max(time.time() - entry.used, 0.0) / _DAY


def _sum(found: list[Entry]) -> str:
    return f"{counted(len(found), 'item')}, {amount(sum(one.size for one in found))}"


def _remove(path: Path) -> None:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot be removed: {error.strerror}", where=path, fix="check the permissions") from None
