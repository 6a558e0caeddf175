"""The two containers torch.save writes: the zip of today, and the one from before torch 1.6.

The zip holds `<prefix>/data.pkl` and one entry per storage. Nothing is extracted, but names that would escape a folder
are refused all the same: only a hand-made file has them. Entries must be stored uncompressed, as torch writes them, so
that no entry can unfold into more than the file holds. The old container is five pickles, then the storages one after
another. Both are read by the same inert machine, so there is one rule for what a file may say.
"""

import io
import re
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Protocol

import torch

from yolofast.checkpoint.inert import Global, Persistent
from yolofast.checkpoint.pickle_graph import MAX_BYTES, file_budget, read_graph
from yolofast.checkpoint.refusals import DTYPE_OF_STORAGE, damaged
from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget

MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""Opens every old file: a pickle of a certain number."""
_ZIP_MAGIC = b"PK\x03\x04"
_PROTOCOL = 1001
# What zipfile raises on hostile bytes, found by fuzzing and by reading it; OSError is a seek to nowhere.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, struct.error, ValueError, OverflowError, EOFError),
    *(NotImplementedError, RuntimeError, OSError, LookupError),
)
_PIECE = 2**22
_MOST_LISTED = 2**22
"""Bytes of a zip's list of entries: 50,000 of them."""
_DRIVE = re.compile(r"[A-Za-z]:")


class Container(Protocol):
    """An open file: its object graph, and its storages by key."""

    total_bytes: int
    budget: Budget
    """Of the steps that reading the file may take, the graph's first."""

    def graph(self) -> object:
        """What was saved, as inert values. Comes first: it finds the storages."""

    def size_of(self, key: str) -> int | None:
        """Bytes really present for storage `key`, or None when there is no such storage."""

    def read(self, key: str) -> bytearray:
        """Those bytes."""

    def close(self) -> None: ...


def open_container(path: Path) -> Container | None:
    """By its first bytes; None if torch did not write it."""
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head.startswith(_ZIP_MAGIC):
        return _Archive(path)
    return _LegacyFile(path) if head == MAGIC else None


def check_archive(path: Path) -> None:
    """Every entry against its checksum: `torch.load` does not look at them, and takes a flipped bit for a weight."""
    container = open_container(path)
    if not isinstance(container, _Archive):
        raise damaged("its beginning is overwritten")
    with closing(container):
        container.check_all()


def storage_dtype(value: object) -> torch.dtype:
    """The element type a storage class stands for."""
    dtype = DTYPE_OF_STORAGE.get(value.path) if isinstance(value, Global) else None
    if dtype is None:
        raise damaged("a storage has no known type")
    return dtype


class _ZipFile(io.BufferedReader):
    """The list of entries is the first long thing that is read of a zip, and takes a hundred times its bytes."""

    listed = False

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.listed and size is not None and size > _MOST_LISTED:
            raise damaged(f"its list of entries has {size:,} bytes")
        return super().read(size)


class _Archive:
    def __init__(self, path: Path) -> None:
        self.total_bytes, self.budget = path.stat().st_size, file_budget()
        self._file = _ZipFile(io.FileIO(path))
        try:
            self._zip = self._opened()
            self._file.listed = True
            self._entries = self._checked_entries()
            self._prefix = self._find_prefix()
            self._check_byte_order()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._file)
        except UserError:
            raise
        except _ZIP_ERRORS as error:
            raise damaged("it is a zip that is cut or overwritten") from error

    def graph(self) -> object:
        entry = self._entries[f"{self._prefix}/data.pkl"]
        if entry.file_size > MAX_BYTES:
            raise damaged(f"its pickle is larger than {MAX_BYTES >> 20} MiB")
        return read_graph(io.BytesIO(self._content(entry)), self.budget)

    def size_of(self, key: str) -> int | None:
        entry = self._entries.get(f"{self._prefix}/data/{key}")
        return None if entry is None else entry.file_size

    def read(self, key: str) -> bytearray:
        # zipfile verifies the checksum.
        return bytearray(self._content(self._entries[f"{self._prefix}/data/{key}"]))

    def check_all(self) -> None:
        for entry in self._entries.values():
            if entry.external_attr:  # torch writes none; it would take an entry that is marked as a folder for empty
                raise damaged(f"the entry {shorten(entry.filename)} is marked as something else")
            try:
                with self._zip.open(entry) as file:  # which verifies the checksum at its end
                    while file.read(_PIECE):
                        pass
            except _ZIP_ERRORS as error:
                raise damaged(f"the entry {shorten(entry.filename)} is cut or overwritten") from error

    def _content(self, entry: zipfile.ZipInfo) -> bytes:
        try:
            content = self._zip.read(entry)
        except _ZIP_ERRORS as error:
            raise damaged(f"the entry {shorten(entry.filename)} is cut or overwritten") from error
        if len(content) != entry.file_size:
            raise damaged(f"the entry {shorten(entry.filename)} is cut")
        return content

    def _checked_entries(self) -> dict[str, zipfile.ZipInfo]:
        entries: dict[str, zipfile.ZipInfo] = {}
        for entry in self._zip.infolist():
            name = entry.orig_filename  # as written in the file: zipfile itself tidies names up
            if ".." in name.split("/") or name.startswith("/") or "\\" in name or "\0" in name or _DRIVE.match(name):
                raise damaged(f"the entry name {shorten(name)} points outside the archive")
            if name in entries:
                raise damaged(f"the entry {shorten(name)} is there twice")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise UserError(
                    f"the entry {shorten(name)} is compressed; torch stores weights uncompressed",
                    fix="if this is a zip with weights in it, unpack it; otherwise get the original file",
                )
            entries[name] = entry
        if sum(entry.file_size for entry in entries.values()) > self.total_bytes:
            raise damaged("its entries claim more bytes than the file has")
        return entries

    def _find_prefix(self) -> str:
        found = [name.removesuffix("/data.pkl") for name in self._entries if name.endswith("/data.pkl")]
        if not found:
            raise UserError(
                "this zip is no torch checkpoint: it has no data.pkl",
                fix="give a .pt, .pth or .safetensors file; unpack other zips first",
            )
        if len(found) > 1:
            raise damaged("it has more than one data.pkl")
        return found[0]

    def _check_byte_order(self) -> None:
        entry = self._entries.get(f"{self._prefix}/byteorder")
        if entry is None:
            return  # files from before torch 2.1 have none and are little-endian
        if entry.file_size > 16 or self._content(entry) != b"little":
            raise UserError(
                "the file was written on a big-endian machine, or its byte order is damaged",
                fix="load it there and save it as safetensors",
            )


class _LegacyFile:
    def __init__(self, path: Path) -> None:
        self.total_bytes, self.budget = path.stat().st_size, file_budget()
        self._spans: dict[str, tuple[int, int]] = {}
        self._file = path.open("rb")

    def close(self) -> None:
        self._file.close()

    def graph(self) -> object:
        head = io.BytesIO(self._file.read(MAX_BYTES))
        head.seek(len(MAGIC))
        persistents: list[Persistent] = []
        if read_graph(head, self.budget) != _PROTOCOL:
            raise damaged("its container version is unknown")
        read_graph(head, self.budget)  # facts about the writing machine; torch ignores them on reading too
        root = read_graph(head, self.budget, persistents)
        keys = read_graph(head, self.budget)
        self._locate(keys, _item_sizes(persistents), head.tell())
        return root

    def size_of(self, key: str) -> int | None:
        span = self._spans.get(key)
        return None if span is None else span[1]

    def read(self, key: str) -> bytearray:
        start, size = self._spans[key]
        self._file.seek(start)
        return bytearray(self._file.read(size))

    def _locate(self, keys: object, item_sizes: dict[str, int], position: int) -> None:
        if not isinstance(keys, list):
            raise damaged("its list of storages is missing")
        for key in keys:
            if not isinstance(key, str) or key not in item_sizes or key in self._spans:
                raise damaged("its list of storages does not fit its tensors")
            self._file.seek(position)
            counted = self._file.read(8)
            if len(counted) < 8:
                raise damaged("it ends before its last storage")
            (count,) = struct.unpack("<q", counted)
            size = count * item_sizes[key]
            if count < 0 or position + 8 + size > self.total_bytes:
                raise damaged("it ends before its last storage")
            self._spans[key] = (position + 8, size)
            position += 8 + size


def _item_sizes(persistents: list[Persistent]) -> dict[str, int]:
    """Bytes per element of each storage, which only the references know."""
    sizes: dict[str, int] = {}
    for reference in persistents:
        if not isinstance(reference.id, tuple) or len(reference.id) < 5 or not isinstance(reference.id[2], str):
            raise damaged("a storage is not described as torch describes storages")
        sizes[reference.id[2]] = storage_dtype(reference.id[1]).itemsize
    return sizes
