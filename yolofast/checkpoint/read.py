"""`read_weights`: any weight file, told apart by its content and not by its suffix, with no code of it run."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from yolofast.checkpoint import legacy
from yolofast.checkpoint.archive import Archive
from yolofast.checkpoint.damage import damaged
from yolofast.checkpoint.foreign import WeightFile, class_count, class_names, plain_dict, weights_of, without_prefix
from yolofast.checkpoint.tensors import TensorBuilder
from yolofast.errors import UserError

METADATA_KEY = "yolofast"
"""The safetensors metadata entry for what a state dict cannot say: JSON with nc, names, graph, head_config, epoch."""
_ZIP_MAGIC = b"PK\x03\x04"


def read_weights(path: str | Path) -> WeightFile:
    """The weights in a published YOLOv7 or YOLOX checkpoint, a state dict, a safetensors file or one of ours.

    Tensors are on the CPU in the precision of the file. Everything wrong with the file is a `UserError`.
    """
    path = Path(path)
    try:
        return _read(path, _head(path))
    except UserError as error:
        raise UserError(error.what, where=path, fix=error.fix) from error
    except OSError as error:
        raise UserError(
            f"the file cannot be read: {error.strerror or error}", where=path, fix="check its permissions and the disk"
        ) from error


def _head(path: Path) -> bytes:
    if not path.exists():
        raise UserError("there is no such file", fix="check the path given for the weights")
    if not path.is_file():
        raise UserError("this is not a file", fix="give the weight file itself, such as weights/best.pt")
    with path.open("rb") as file:
        head = file.read(len(legacy.MAGIC))
    if not head:
        raise UserError("the file is empty", fix="download or copy the file again")
    return head


def _read(path: Path, head: bytes) -> WeightFile:
    if head.startswith(_ZIP_MAGIC):
        with Archive(path) as archive:
            return weights_of(archive.graph(), TensorBuilder(archive).build)
    if head == legacy.MAGIC:
        with legacy.LegacyFile(path) as file:
            return weights_of(file.graph(), TensorBuilder(file).build)
    if head[8:9] == b"{":
        return _read_safetensors(path.read_bytes())
    raise UserError(
        "this is no weight file: neither torch nor safetensors wrote it, or its beginning is damaged",
        fix="give a .pt, .pth or .safetensors file; a web page saved under that name is a failed download",
    )


def _read_safetensors(content: bytes) -> WeightFile:
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise damaged(f"safetensors says {error}") from error
    if not tensors:
        raise UserError("no weights found: the file holds no tensors", fix="give a file with weights")
    said = _metadata(content)
    names = class_names(said.get("names"))
    return WeightFile(
        tensors=without_prefix(tensors, "module."),
        kind="safetensors",
        source="file",
        names=names,
        nc=class_count(said.get("nc")) or (len(names) if names else None),
        graph=plain_dict(said.get("graph")),
        head_config=plain_dict(said.get("head_config")),
        epoch=said.get("epoch") if type(said.get("epoch")) is int else None,
    )


def _metadata(content: bytes) -> dict[str, Any]:
    """What our entry says. safetensors has accepted the header, but it accepts `null` for the metadata too."""
    try:
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__")
        text = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
        said = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError) as error:
        raise damaged(f"its metadata entry {METADATA_KEY!r} is not JSON") from error
    return said if isinstance(said, dict) else {}
