"""Writes our own checkpoints: tensors and plain values only, all or nothing.

A checkpoint appears under its name complete or not at all: it is written under another name, flushed and renamed.
Both `torch.load(weights_only=True)` and `read_weights` accept the format, so it needs neither trust nor us.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from yolofast.checkpoint.foreign import FORMAT, VERSION
from yolofast.checkpoint.load import is_anchor
from yolofast.checkpoint.pickle_graph import MAX_INT_BITS
from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.refusals import DTYPE_OF_STORAGE
from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import name_beside, opened_new, remove_abandoned, sync_folder

MAX_DEPTH = 64
_DTYPES = frozenset(DTYPE_OF_STORAGE.values())


def model_content(model: nn.Module, ema: nn.Module | None = None, epoch: int = -1, **extra: Any) -> dict[str, Any]:
    """What a checkpoint says about a model; `extra` is anything plain (optimizer state, metrics, random state).

    `graph_yaml`, `nc`, `names` and `head_config` are read from the model when it has them.
    """
    graph, nc, names, heads = (getattr(model, name, None) for name in ("graph_yaml", "nc", "names", "head_config"))
    average = None if ema is None else ema.state_dict()
    return _content(model.state_dict(), average, graph, nc, names, heads) | {"epoch": epoch, **extra}


def save_checkpoint(path: str | Path, content: dict[str, Any]) -> Path:
    """Writes `content` to `path`; on any failure the file that was there before is intact."""
    path = _writable_file(path)
    plain = _plain(content, path.name, 0)
    temporary = name_beside(path)
    try:
        with opened_new(temporary) as file:
            torch.save(plain, file)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
        sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
        raise UserError(
            f"the checkpoint could not be written: {_why(error)}",
            where=path,
            fix="check that the folder exists and is writable and the disk has room; an earlier file is intact",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def strip_checkpoint(source: str | Path, target: str | Path | None = None) -> Path:
    """Writes only the weights for inference, in half precision: the averaged model, or the model without one.

    Replaces `source` when no target is given. Anchors stay float32 because box sizes are multiplied by them, and so
    does a tensor that half precision would turn into infinity.
    """
    source = Path(source)
    file = read_weights(source)
    if target is None and file.kind == "safetensors":
        raise UserError("a stripped checkpoint is a torch file", where=source, fix="name a target ending in .pt")
    content = _content(halved(file.tensors), None, file.graph, file.nc, file.names, file.head_config) | {
        "epoch": -1,
        "img_size": file.img_size,
        "img_shape": None if file.img_shape is None else list(file.img_shape),
        **({} if file.motion is None else {"motion": file.motion}),
    }
    path = _writable_file(source if target is None else target)
    remove_abandoned(path.parent, path.name)
    return save_checkpoint(path, content)


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in half precision; anchors, and what half precision would turn into infinity, in float32."""

    def halve(name: str, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        half = tensor.half()
        overflows = bool((torch.isinf(half) & torch.isfinite(tensor)).any())
        return tensor.float() if is_anchor(name) or overflows else half

    return {name: halve(name, tensor) for name, tensor in tensors.items()}


def _content(weights: object, average: object, graph: object, nc: object, names: Any, heads: object) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": weights,
        "ema": average,
        "graph": graph,
        "nc": nc,
        "names": None if names is None else list(names),
        "head_config": heads,
    }


def _writable_file(path: str | Path) -> Path:
    """Where to write: links followed, so that the file they lead to is replaced and not the link."""
    resolved = Path(path).resolve()
    if not str(path) or resolved.is_dir():
        raise UserError(f"cannot write to {str(path)!r}: it is a folder", fix="name a file in it, such as best.pt")
    if resolved.suffix == ".safetensors":
        raise UserError("checkpoints are torch files", where=path, fix="name a file ending in .pt")
    return resolved


def _why(error: BaseException | None) -> str:
    """The system's words. Torch's own speak of its insides, but the error it answered with them is kept behind."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        error = error.__context__
    return "writing ended before all of it was on the disk"


def _plain(value: object, where: str, depth: int) -> object:
    """A copy made of exact plain types, or an error that names the entry. Subclasses would be pickled as classes."""
    if depth > MAX_DEPTH:
        raise UserError(f"{where[:200]}… is nested deeper than {MAX_DEPTH}", fix="save a flatter structure")
    if value is None or type(value) in (bool, float, str):
        return value
    if type(value) is int and value.bit_length() <= MAX_INT_BITS:
        return value
    if isinstance(value, Tensor):
        return _plain_tensor(value, where)
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {_key(key, where): _plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    raise UserError(
        f"{where} is {shorten(value)} ({type(value).__module__}.{type(value).__qualname__}), which is neither a "
        "tensor nor a plain value",
        fix="convert it first: .item() or float() for numpy scalars, .tolist() or torch.from_numpy for arrays",
    )


def _key(key: object, where: str) -> str | int:
    if type(key) is str or (type(key) is int and key.bit_length() <= 63):
        return key
    raise UserError(f"{where} has the key {shorten(key)}, which is neither text nor a number", fix="use text keys")


def _plain_tensor(tensor: Tensor, where: str) -> Tensor:
    """Detached and on the CPU; a view is copied, because torch would save all of the storage it looks at."""
    plain = tensor.detach()
    if type(plain) is not Tensor or plain.layout != torch.strided or plain.is_meta or plain.dtype not in _DTYPES:
        raise UserError(
            f"{where} is a tensor of {plain.dtype}, {plain.layout} on {plain.device} ({type(plain).__name__})",
            fix="save dense tensors of the usual number types",
        )
    plain = plain.cpu()
    if plain.untyped_storage().nbytes() != plain.numel() * plain.element_size():
        plain = plain.clone(memory_format=torch.contiguous_format)
    return plain
