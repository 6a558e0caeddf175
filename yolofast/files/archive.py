"""A zip file that anybody may have made, unpacked safely: nothing leads out of its folder, nothing swells without end.

Looked at before a byte is written: names, sizes, links, passwords, parts that lie over one another, and the room on the
disk. A part that holds more than it promises is cut off by `zipfile`, and its checksum is compared.
"""

import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from yolofast.errors import UserError, shorten
from yolofast.files.budget import LARGEST_IMAGE
from yolofast.words import amount

_MOST_FILES = 4_000_000
_LARGEST_RATIO = 200
"""Of all files together: annotations shrink to a twentieth, images not at all."""
_SMALL = 2**24
"""Bytes that may be unpacked whatever the ratio."""
_LONGEST_NAME = 1000
_BAD_LETTERS = re.compile(r"[\0-\x1f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_PIECE = 2**20
try:
    from lzma import LZMAError as _LzmaError
except ImportError:  # of Pythons that are built without it, which do not unpack it either
    _LzmaError = zipfile.BadZipFile  # type: ignore[misc, assignment]
_FIX = "make it again, or unpack it yourself and name the folder"
# What zipfile and the libraries that unpack raise on hostile bytes; LZMA's error has no class in common with others.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError),
    *(OverflowError, LookupError, MemoryError, _LzmaError),
)  # fmt: skip


def is_archive(path: str | Path) -> bool:
    return os.path.isfile(path) and str(path).lower().endswith(".zip")


class Archive:
    """To be used in a `with`; raises `UserError` for what is no zip, or one that is not to be trusted."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._zip = zipfile.ZipFile(self.path)
        except _BROKEN as error:
            raise self._refusal(f"cannot be read as a zip file: {error}") from None
        self._parts: dict[str, zipfile.ZipInfo] = {}
        try:
            self._look()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Of the files, with `/` between folders."""
        return list(self._parts)

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a file; none if they cannot be read."""
        try:
            with self._zip.open(self._parts[name]) as file:
                return file.read(size)
        except _BROKEN:
            return b""

    def read(self, name: str) -> bytes:
        """A whole file, compared with its checksum."""
        if (size := self._parts[name].file_size) > LARGEST_IMAGE:
            raise self._refusal(f"{shorten(name)} has {amount(size)}, more than {amount(LARGEST_IMAGE)}")
        try:
            return self._zip.read(self._parts[name])
        except _BROKEN as error:
            raise self._refusal(f"{shorten(name)} cannot be unpacked: {error}") from None

    def unpack(self, folder: Path, wanted: Callable[[str], bool]) -> int:
        """The files whose names are wanted; how many there are."""
        chosen = {name: part for name, part in self._parts.items() if wanted(name)}
        size = sum(part.file_size for part in chosen.values())
        free = shutil.disk_usage(folder).free
        if size > free:
            raise self._refusal(f"needs {amount(size)} of room, and {folder} has {amount(free)}", "make room")
        for name, part in chosen.items():
            target = folder / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._zip.open(part) as source, target.open("xb") as file:
                    shutil.copyfileobj(source, file, _PIECE)
            except FileExistsError:  # where capital letters are the same as small ones
                raise self._refusal(f"holds {shorten(name)} twice") from None
            except _BROKEN as error:
                raise self._refusal(f"{shorten(name)} cannot be unpacked: {error}") from None
        return len(chosen)

    def _look(self) -> None:
        infos = self._zip.infolist()
        if len(infos) > _MOST_FILES:
            raise self._refusal(f"holds {len(infos):,} files, more than the {_MOST_FILES:,} that are allowed")
        packed = sum(part.compress_size for part in infos)
        size = sum(part.file_size for part in infos)
        if packed > self.path.stat().st_size:
            raise self._refusal("holds files that lie over one another, as in a zip bomb")
        if size > max(_SMALL, packed * _LARGEST_RATIO):
            what = f"would unpack {amount(packed)} to {amount(size)}, more than {_LARGEST_RATIO} times as much"
            raise self._refusal(f"{what}, as a zip bomb does")
        for part in infos:
            if part.filename.endswith("/"):
                continue
            name = self._safe_name(part)
            if name in self._parts:
                raise self._refusal(f"holds {shorten(name)} twice")
            self._parts[name] = part

    def _safe_name(self, part: zipfile.ZipInfo) -> str:
        name = part.filename.replace("\\", "/")
        steps = name.split("/")
        leads_out = _DRIVE.match(name) or any(step in ("", ".", "..") for step in steps)
        if leads_out or len(name) > _LONGEST_NAME or _BAD_LETTERS.search(name):
            raise self._refusal(f"holds a file called {shorten(part.filename)}, which would not stay in its folder")
        if stat.S_ISLNK(part.external_attr >> 16):
            raise self._refusal(f"holds a link, {shorten(name)}, which may lead anywhere")
        if part.flag_bits & 1:
            raise self._refusal("is protected by a password", "unpack it yourself and name the folder")
        return name

    def _refusal(self, what: str, fix: str = _FIX) -> UserError:
        return UserError(what, where=self.path, fix=fix)
