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
from yolofast.checkpoint.pickle_graph import Call, Object, Persistent
from yolofast.checkpoint.refusals import damaged
from yolofast.checkpoint.tensors import TensorBuilder
from yolofast.errors import UserError, nearest_file

# The largest model that can be built takes half of this in float32; reading more would only take memory.
_MAX_BYTES = 16 * 2**30
_MAX_VALUES = 5_000_000


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
        if by_type := _bytes_by_type(value):
            most = max(by_type, key=lambda dtype: by_type[dtype])
            sizes[f"{key} ({str(most).removeprefix('torch.')})"] = sum(by_type.values())
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _unreadable(error: OSError, path: Path, fix: str) -> UserError:
    return UserError(f"the file cannot be read: {error.strerror or error}", where=path, fix=fix)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise UserError(f"there is no such file{nearest_file(path)}", fix="check the path given for the weights")
    if not path.is_file():
        raise UserError("this is not a file", fix="give the weight file itself, such as weights/best.pt")
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise UserError(f"the file is larger than {_MAX_BYTES // 2**30} GiB", fix="give a file of weights alone")
    if not size:
        raise UserError("the file is empty", fix="download or copy the file again")


def _read(path: Path) -> WeightFile:
    if container := open_container(path):
        with closing(container):
            return weights_of(container.graph(), TensorBuilder(container).build)
    with path.open("rb") as file:
        is_safetensors = file.read(9)[8:] == b"{"
    if is_safetensors:
        return _read_safetensors(path)
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
    if not tensors:
        raise UserError("no weights found: the file holds no tensors", fix="give a file with weights")
    return WeightFile(tensors=without_prefix(tensors, "module."), kind="safetensors", source="file")


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
    waiting, visited = [value], set()
    while waiting:
        one = waiting.pop()
        if id(one) in visited:
            continue
        visited.add(id(one))
        if len(visited) > _MAX_VALUES:
            raise damaged("its values contain one another without end")
        if isinstance(one, Persistent):
            yield one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset):
            waiting.extend(one)
        elif isinstance(one, Call | Object):
            waiting.extend((*one.args, one.state))
