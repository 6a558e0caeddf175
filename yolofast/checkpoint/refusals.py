"""What a weight file may say, and the two ways it is turned down.

The names are never imported or called: they only tell how to read the arguments that follow them. Classes of the
published trainers are accepted by prefix, because a name that stays a name is harmless. Any other name is refused.
Neither error names the file: the readers below `read_weights` get bytes, and `read_weights` adds the path.
"""

import torch

from yolofast.errors import UserError, shorten

REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
REBUILD_PARAMETER = frozenset({"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"})
ORDERED_DICT = "collections.OrderedDict"
SETS = frozenset({"builtins.set", "__builtin__.set"})
ENCODE = "_codecs.encode"
DTYPE_OF_STORAGE = {
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.DoubleStorage": torch.float64,
    "torch.LongStorage": torch.int64,
    "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16,
    "torch.CharStorage": torch.int8,
    "torch.ByteStorage": torch.uint8,
    "torch.BoolStorage": torch.bool,
    "torch.storage.UntypedStorage": torch.uint8,
}
# Published files hold `best_fitness` as a numpy array. Its pieces stay inert: the value is never needed.
_NUMPY_CALLS = (f"numpy.{core}.multiarray.{what}" for core in ("core", "_core") for what in ("scalar", "_reconstruct"))

CALLS = frozenset(
    {
        *(REBUILD_TENSOR, *REBUILD_PARAMETER, ORDERED_DICT, *SETS, ENCODE),
        *("numpy.dtype", *_NUMPY_CALLS, "torch.Size", "torch.device"),
    }
)
"""A file may ask for a call of these; the answer is always an inert value."""
VALUES = frozenset({*DTYPE_OF_STORAGE, *map(str, DTYPE_OF_STORAGE.values()), "numpy.ndarray"})
"""A file may mention these."""
CLASS_MODULES = ("models.", "torch.nn.modules.", "torch.nn.parameter.", "yolox.", "utils.")
"""What a file may name as the class of an object starts with one of these."""


def damaged(detail: str) -> UserError:
    """For content no writer of weights produces: cut, overwritten or made by hand."""
    return UserError(f"the file is damaged: {detail}", fix="download or copy the file again")


def refused(name: str) -> UserError:
    """For a file that asks for code; `name` comes from the file, so it is escaped before it reaches a terminal."""
    shown = name if name.isprintable() and len(name) <= 120 else shorten(name)
    return UserError(
        f"refused: the file asks for {shown}, which is code and not weights",
        fix="do not open this file with torch.load; get the weights from their publisher, or as a state dict or "
        "safetensors file",
    )
