"""`read_weights`: any weight file, recognised by its content and not by its suffix, with no code of it run.

`contents_of` says what else is in a file: how many bytes of tensors each of its entries holds. It builds no tensor.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import safetensors
import torch
from safetensors import SafetensorError

from yolofast.checkpoint.containers import open_container, storage_dtype
from yolofast.checkpoint.foreign import WeightFile, weights_of, without_prefix
from yolofast.checkpoint.inert import Call, Object, Persistent
from yolofast.checkpoint.published import find_weights
from yolofast.checkpoint.refusals import DTYPE_OF_STORAGE, damaged
from yolofast.checkpoint.tensors import TensorBuilder
from yolofast.errors import UserError, shorten
from yolofast.files.budget import Budget

# The largest model that can be built takes half of this in float32; reading more would only take memory.
_MAX_BYTES = 16 * 2**30
_MOST_AXES = 8
_EXPORTED = (".onnx", ".xml", ".engine", ".pte", ".tflite", ".param")
_MOST_HEADER = 2**22
"""Bytes of the header of safetensors: 60,000 tensors."""


def read_weights(path: str | Path) -> WeightFile:
    """The weights in a published YOLOv7 or YOLOX checkpoint, a state dict, a safetensors file or one of ours.

    Tensors are on the CPU in the precision of the file. Everything wrong with the file is a `UserError`.
    """
    path = Path(path)
    try:
        _check_file(path)
        return _read(path)
    except UserError as error:
        raise UserError(error.what, where=path, fix=error.fix) from error
    except OSError as error:
        raise _unreadable(error, path, "check its permissions and the disk") from error


def contents_of(path: Path) -> dict[str, int]:
    """Entry, with the type most of its numbers have -> bytes, for entries that hold tensors; largest first."""
    try:
        container = open_container(path)
        if container is None:
            return {"weights": path.stat().st_size}
        with closing(container):
            root = container.graph()
    except OSError as error:
        raise _unreadable(error, path, "check it") from error
    parts: Mapping[object, object] = root if isinstance(root, dict) else {"weights": root}
    if isinstance(root, dict) and root and all(isinstance(value, Call) for value in root.values()):
        parts = {"weights": root}  # a state dict: its entries are the tensors
    sizes: dict[str, int] = {}
    for key, value in parts.items():
        if by_type := _bytes_by_type(value, container.budget):
            most = max(by_type, key=lambda dtype: by_type[dtype])
            name = key if isinstance(key, str) else shorten(key)
            sizes[f"{name} ({str(most).removeprefix('torch.')})"] = sum(by_type.values())
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _unreadable(error: OSError, path: Path, fix: str) -> UserError:
    return UserError(f"the file cannot be read: {error.strerror or error}", where=path, fix=fix)


def _check_file(path: Path) -> None:
    if not find_weights(path).is_file():
        raise UserError("this is not a file", fix="give the weight file itself, such as weights/best.pt")
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise UserError(f"the file is larger than {_MAX_BYTES // 2**30} GiB", fix="give a file of weights alone")
    if not size:
        raise UserError("the file is empty", fix="download or copy the file again")


def _read(path: Path) -> WeightFile:
    if container := open_container(path):
        with closing(container):
            return weights_of(container.graph(), TensorBuilder(container).build, container.budget)
    with path.open("rb") as file:
        header, first = int.from_bytes(file.read(8), "little"), file.read(1)
    if first == b"{":
        if header > _MOST_HEADER:
            raise damaged(f"its header has {header:,} bytes")
        return _read_safetensors(path)
    if path.suffix.lower() in _EXPORTED:
        what = "this is an exported file, which can be run but neither trained nor changed"
        raise UserError(what, fix="name the weights it was made of: best.pt")
    raise UserError(
        "this is no weight file: neither torch nor safetensors wrote it, or its beginning is damaged",
        fix="give a .pt, .pth or .safetensors file; a web page saved under that name is a failed download",
    )


def _read_safetensors(path: Path) -> WeightFile:
    """safetensors maps the file and checks its header against the real size before any tensor is read."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise damaged(f"safetensors says {error}") from error
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPE_OF_STORAGE.values() or tensor.ndim > _MOST_AXES:
            kind = str(tensor.dtype).removeprefix("torch.")
            what = f"{shorten(name)} is a tensor of {kind} with {tensor.ndim} dimensions"
            raise UserError(what, fix="convert it to float16 or float32 with few dimensions")
    if not tensors:
        raise UserError("no weights found: the file holds no tensors", fix="give a file with weights")
    return WeightFile(tensors=without_prefix(tensors, "module."), kind="safetensors", source="file")


def _bytes_by_type(value: object, budget: Budget) -> dict[torch.dtype, int]:
    """A storage counts once, however many tensors look at it."""
    storages: dict[str, tuple[torch.dtype, int]] = {}
    for reference in _references(value, budget):
        parts = reference.id if isinstance(reference.id, tuple) else ()
        if len(parts) >= 5 and isinstance(parts[2], str) and isinstance(parts[4], int):
            dtype = storage_dtype(parts[1])
            storages[parts[2]] = dtype, parts[4] * dtype.itemsize
    sums: dict[torch.dtype, int] = {}
    for dtype, size in storages.values():
        sums[dtype] = sums.get(dtype, 0) + size
    return {dtype: size for dtype, size in sums.items() if size}


def _references(value: object, budget: Budget) -> Iterator[Persistent]:
    waiting, visited = [value], set()
    while waiting:
        one = waiting.pop()
        budget.spend()
        if id(one) in visited:
            continue
        visited.add(id(one))
        if isinstance(one, Persistent):
            yield one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset):
            waiting.extend(one)
        elif isinstance(one, Call | Object):
            waiting.extend((*one.args, one.state))
