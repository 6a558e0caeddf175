"""An outdated store of the same files: what has not changed is copied from it rather than decoded again."""

from contextlib import suppress
from types import TracebackType

from yolofast.store.packed_store import PackedStore, Records, stored_bytes
from yolofast.store.sources import same_source


class Donor:
    def __init__(self, store: PackedStore | None) -> None:
        self._store, self._file = store, None
        if store is not None:
            with suppress(FileNotFoundError):
                self._file = store.data.open("rb")

    def content(self, image: int, source: Records) -> bytes | None:
        """The stored bytes of an image; None if its file has changed or the bytes are damaged."""
        if self._store is None or self._file is None or not same_source(self._store.records[[image]], source)[0]:
            return None
        return stored_bytes(self._store.records[image], self._file.fileno())

    def __enter__(self) -> "Donor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
