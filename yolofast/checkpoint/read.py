"""`read_weights`: any weight file, told apart by its content and not by its suffix, with no code of it run."""

from pathlib import Path

import safetensors
from safetensors import SafetensorError

from yolofast.checkpoint import legacy
from yolofast.checkpoint.archive import Archive
from yolofast.checkpoint.foreign import WeightFile, weights_of, without_prefix
from yolofast.checkpoint.refusals import damaged
from yolofast.checkpoint.tensors import TensorBuilder
from yolofast.errors import UserError, nearest_file

# The largest model that can be built takes half of this in float32; reading more would only take memory.
_MAX_BYTES = 16 * 2**30
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
        raise UserError(f"there is no such file{nearest_file(path)}", fix="check the path given for the weights")
    if not path.is_file():
        raise UserError("this is not a file", fix="give the weight file itself, such as weights/best.pt")
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(f"the file is larger than {_MAX_BYTES // 2**30} GiB", fix="give a file of weights alone")
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
