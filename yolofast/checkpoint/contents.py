"""What is in a weight file besides weights: how many bytes of tensors stand under each of its entries.

Nothing of it is run and no tensor is built: storages are counted by what the file's inert graph says of them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from yolofast.checkpoint import legacy
from yolofast.checkpoint.archive import Archive
from yolofast.checkpoint.pickle_graph import Call, Object, Persistent
from yolofast.checkpoint.refusals import damaged
from yolofast.checkpoint.tensors import storage_dtype
from yolofast.errors import UserError

MAX_VALUES = 5_000_000
_ZIP_MAGIC = b"PK\x03\x04"


def contents_of(path: Path) -> dict[str, int]:
    """Entry, with the type most of its numbers have -> bytes, for entries that hold tensors; largest first."""
    try:
        with path.open("rb") as file:
            head = file.read(len(legacy.MAGIC))
        if head.startswith(_ZIP_MAGIC):
            with Archive(path) as archive:
                return _counted(archive.graph())
        if head == legacy.MAGIC:
            with legacy.LegacyFile(path) as old:
                return _counted(old.graph())
        return {"weights": path.stat().st_size}
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", where=path, fix="check it") from error


def _counted(root: object) -> dict[str, int]:
    parts: Mapping[object, object] = root if isinstance(root, dict) else {"weights": root}
    if isinstance(root, dict) and root and all(isinstance(value, Call) for value in root.values()):
        parts = {"weights": root}  # a state dict: its entries are the tensors
    sizes: dict[str, int] = {}
    for key, value in parts.items():
        if by_type := _bytes_by_type(value):
            most = max(by_type, key=lambda dtype: by_type[dtype])
            sizes[f"{key} ({str(most).removeprefix('torch.')})"] = sum(by_type.values())
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _bytes_by_type(value: object) -> dict[torch.dtype, int]:
    """A storage counts once, however many tensors look at it."""
    storages: dict[object, tuple[torch.dtype, int]] = {}
    for reference in _references(value):
        if isinstance(reference.id, tuple) and len(reference.id) >= 5 and isinstance(reference.id[4], int):
            dtype = storage_dtype(reference.id[1])
            storages[reference.id[2]] = dtype, reference.id[4] * dtype.itemsize
    sums: dict[torch.dtype, int] = {}
    for dtype, size in storages.values():
        sums[dtype] = sums.get(dtype, 0) + size
    return {dtype: size for dtype, size in sums.items() if size}


def _references(value: object) -> Iterator[Persistent]:
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > MAX_VALUES:
            raise damaged("its values contain one another without end")
        if isinstance(one, Persistent):
            yield one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset):
            waiting.extend(one)
        elif isinstance(one, Call | Object):
            waiting.extend((*one.args, one.state))
