"""The container torch wrote before 1.6, and still does on request: five pickles, then the storages one after another.

Read by the same inert machine as the zip container, so there is one rule for what a file may say.
"""

import io
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from yolofast.checkpoint.pickle_graph import MAX_BYTES, Persistent, read_graph
from yolofast.checkpoint.refusals import damaged
from yolofast.checkpoint.tensors import storage_dtype

MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""A pickle of the number that opens every such file."""
_PROTOCOL = 1001


class LegacyFile:
    """An open old-style file: its object graph, and its storages by key (a `StorageSource`)."""

    def __init__(self, path: Path) -> None:
        self.total_bytes = path.stat().st_size
        self._spans: dict[str, tuple[int, int]] = {}
        self._file = path.open("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def graph(self) -> object:
        """What was saved, as inert values; also finds where each storage lies."""
        head = io.BytesIO(self._file.read(MAX_BYTES))
        head.seek(len(MAGIC))
        persistents: list[Persistent] = []
        if read_graph(head) != _PROTOCOL:
            raise damaged("its container version is unknown")
        read_graph(head)  # facts about the writing machine; torch ignores them on reading too
        root = read_graph(head, persistents)
        keys = read_graph(head)
        self._locate(keys, _item_sizes(persistents), head.tell())
        return root

    def size_of(self, key: str) -> int | None:
        """Bytes really present for storage `key`, or None."""
        span = self._spans.get(key)
        return None if span is None else span[1]

    def read(self, key: str) -> bytearray:
        """The bytes of storage `key`."""
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
