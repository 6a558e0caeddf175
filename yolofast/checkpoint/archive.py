"""The zip container that torch.save writes: `<prefix>/data.pkl` and one stored entry per storage.

Nothing is extracted, but names that would escape a folder are refused all the same: only a hand-made file has them.
Entries must be stored uncompressed, as torch writes them, so that no entry can unfold into more than the file holds.
"""

import io
import re
import struct
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Self

from yolofast.checkpoint.pickle_graph import MAX_BYTES, read_graph
from yolofast.checkpoint.refusals import damaged
from yolofast.errors import UserError, shorten

# What zipfile raises on hostile bytes, found by fuzzing and by reading it; OSError is a seek to nowhere.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, struct.error, ValueError, OverflowError, EOFError),
    *(NotImplementedError, RuntimeError, OSError, LookupError),
)
_DRIVE = re.compile(r"[A-Za-z]:")


class Archive:
    """An open torch zip: its object graph, and its storages by key (a `StorageSource`)."""

    def __init__(self, path: Path) -> None:
        self._file_bytes = path.stat().st_size
        try:
            self._zip = zipfile.ZipFile(path)
        except _ZIP_ERRORS as error:
            raise damaged("it is a zip that is cut or overwritten") from error
        try:
            self._entries = self._checked_entries()
            self._prefix = self._find_prefix()
            self._check_byte_order()
        except BaseException:
            self._zip.close()
            raise
        self.total_bytes = self._file_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._zip.close()

    def graph(self) -> object:
        """What was saved, as inert values."""
        entry = self._entries[f"{self._prefix}/data.pkl"]
        if entry.file_size > MAX_BYTES:
            raise damaged(f"its pickle is larger than {MAX_BYTES >> 20} MiB")
        return read_graph(io.BytesIO(self._content(entry)))

    def size_of(self, key: str) -> int | None:
        """Bytes really present for storage `key`, or None."""
        entry = self._entries.get(f"{self._prefix}/data/{key}")
        return None if entry is None else entry.file_size

    def read(self, key: str) -> bytearray:
        """The bytes of storage `key`, with their checksum verified by zipfile."""
        return bytearray(self._content(self._entries[f"{self._prefix}/data/{key}"]))

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
            name = entry.orig_filename
            _check_name(name)
            if name in entries:
                raise damaged(f"the entry {shorten(name)} is there twice")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise UserError(
                    f"the entry {shorten(name)} is compressed; torch stores weights uncompressed",
                    fix="if this is a zip with weights in it, unpack it; otherwise get the original file",
                )
            entries[name] = entry
        if sum(entry.file_size for entry in entries.values()) > self._file_bytes:
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


def _check_name(name: str) -> None:
    """As written in the file: zipfile itself tidies names up before we would see what they tried."""
    parts = name.split("/")
    if ".." in parts or name.startswith("/") or "\\" in name or "\0" in name or _DRIVE.match(name):
        raise damaged(f"the entry name {shorten(name)} points outside the archive")
