"""Files inside an uncompressed tar file, read where they lie: `set/train.tar/images/a.jpg`.

So a data set of millions of images is one file, from which any of them is read with one call. Nothing is unpacked, and
nothing in a tar file leads anywhere: links, devices and cut-off members are no files here. Where members begin is kept
beside the tar file (`train.tar.index.npz`) if that can be written, else found again by every process.
"""

import errno
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole_by
from yolofast.files.known_numbers import NO_ARRAYS

_INDEX = ".index.npz"
_LONGEST_NAME = 1000
_LONGEST_HEADER = 2**14
"""Bytes of a long name or of extended headers, which Python looks through again and again."""
_WITH_MORE_HEADERS = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
)  # fmt: skip


class SafeMember(tarfile.TarInfo):
    """A header that anybody may have written. Python takes one that is damaged for the end, and may turn in circles."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "SafeMember":
        try:
            return super().frombuf(buf, encoding, errors)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"a header is damaged: {error}") from None

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0 or (self.type in _WITH_MORE_HEADERS and self.size > _LONGEST_HEADER):
            raise tarfile.ReadError(f"a header promises {self.size:,} bytes")
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        if found.size < 0 or len(found.name) > _LONGEST_NAME:
            raise tarfile.ReadError(f"a name has {len(found.name):,} letters, or a file {found.size:,} bytes")
        return found


@dataclass(frozen=True)
class TarMembers:
    names: npt.NDArray[np.bytes_]
    """[N] sorted."""
    places: npt.NDArray[np.int64]
    """[N, 2] where the content of each begins, and its bytes."""

    def find(self, name: bytes) -> tuple[int, int] | None:
        place = int(np.searchsorted(self.names, name)) if len(name) <= self.names.itemsize else len(self.names)
        if place == len(self.names) or self.names[place] != name:
            return None
        start, size = self.places[place].tolist()
        return start, size


def open_member(tar: str, name: str, most: int) -> BinaryIO:
    """The content of a file in a tar file, of so many bytes at most; FileNotFoundError where there is none."""
    found = member(tar, name)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{tar}/{name}")
    (start, size), _ = found
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {most:,} that are allowed")
    with open(tar, "rb") as file:
        return io.BytesIO(os.pread(file.fileno(), size, start))


def member(tar: str, name: str) -> tuple[tuple[int, int], int] | None:
    """Where its bytes begin and how many they are, and when the tar file was changed."""
    try:
        status = os.stat(tar)
        place = _members(os.path.abspath(tar), status.st_size, status.st_mtime_ns).find(os.fsencode(name))
    except (OSError, UserError):
        return None
    return None if place is None else (place, status.st_mtime_ns)


def names_in(path: Path) -> Iterator[str]:
    """Of all files in a tar file, as paths, in order; raises `UserError` if it is none."""
    return (f"{path}/{os.fsdecode(name)}" for name in members_of(path).names.tolist())


def members_of(path: str | Path) -> TarMembers:
    found = os.stat(path)
    return _members(os.path.abspath(path), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=16)
def _members(path: str, size: int, changed: int) -> TarMembers:
    kept = Path(path + _INDEX)
    with suppress(*NO_ARRAYS), zipfile.ZipFile(kept) as archive, np.load(kept, allow_pickle=False) as stored:
        if sum(part.file_size for part in archive.infolist()) > os.path.getsize(kept):
            raise ValueError("it swells")
        names, places, of = stored["names"], stored["places"], stored["of"]
        if [size, changed] == of.tolist() and names.dtype.kind == "S" and _lie_within(places, len(names), size):
            return TarMembers(names, places.astype(np.int64))
    members = _scanned(path, size)
    with suppress(OSError):
        of = np.array([size, changed], np.int64)
        write_whole_by(kept, partial(np.savez, names=members.names, places=members.places, of=of))
    return members


def _lie_within(places: npt.NDArray[Any], count: int, size: int) -> bool:
    if places.shape != (count, 2) or places.dtype.kind != "i":
        return False
    starts, lengths = places.T
    return bool(((starts >= 0) & (lengths >= 0) & (starts <= size) & (lengths <= size - starts)).all())


def _scanned(path: str, size: int) -> TarMembers:
    names, places = list[bytes](), list[tuple[int, int]]()
    if not os.path.isfile(path):  # a pipe would be waited for
        raise UserError("is a pipe or a device, not a tar file", where=path, fix="give a file")
    try:
        with tarfile.open(path, "r:", tarinfo=SafeMember) as tar:
            for member in tar:
                if member.isreg() and not member.issparse() and member.offset_data + member.size <= size:
                    names.append(os.fsencode(member.name.removeprefix("./")))
                    places.append((member.offset_data, member.size))
                tar.members = []  # type: ignore[attr-defined]  # or it would keep an object for each of millions
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        fix = "make it again without compression: tar -cf NAME.tar images labels"
        raise UserError(f"cannot be read as a tar file: {error}", where=path, fix=fix) from None
    found = np.array(names, np.bytes_) if names else np.zeros(0, "S1")
    order = np.argsort(found, kind="stable")
    return TarMembers(found[order], np.array(places, np.int64).reshape(-1, 2)[order])
