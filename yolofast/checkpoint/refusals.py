"""The two ways a weight file is turned down, worded in one place.

Neither names the file: the readers below `read_weights` see bytes, and `read_weights` adds the path.

Every global name a weight file may mention. Anything else is refused when first seen.

Nothing here is ever imported or called: the names only say how to read the arguments that follow them. Classes of
the published trainers are accepted by prefix because their *names* are harmless when they stay names.
"""

from yolofast.errors import UserError, shorten


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


REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
REBUILD_PARAMETER = frozenset({"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"})
ORDERED_DICT = "collections.OrderedDict"
SETS = frozenset({"builtins.set", "__builtin__.set"})
ENCODE = "_codecs.encode"

STORAGES = frozenset(
    {
        *(
            f"torch.{kind}Storage"
            for kind in ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Short", "Char", "Byte", "Bool")
        ),
        "torch.storage.UntypedStorage",
    }
)
DTYPES = frozenset(
    f"torch.{kind}"
    for kind in ("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
)
# Published files hold `best_fitness` as a numpy array. Its pieces stay inert: the value is never needed.
NUMPY_CALLS = frozenset(
    {
        "numpy.dtype",
        *(f"numpy.{core}.multiarray.{what}" for core in ("core", "_core") for what in ("scalar", "_reconstruct")),
    }
)
CALLS = frozenset(
    {REBUILD_TENSOR, *REBUILD_PARAMETER, ORDERED_DICT, *SETS, ENCODE, *NUMPY_CALLS, "torch.Size", "torch.device"}
)
VALUES = frozenset({*STORAGES, *DTYPES, "numpy.ndarray"})
CLASS_MODULES = ("models.", "torch.nn.modules.", "torch.nn.parameter.", "yolox.", "utils.")


def may_call(name: str) -> bool:
    """Whether a file may ask for `name(...)`; the answer is always an inert value."""
    return name in CALLS


def may_instantiate(name: str) -> bool:
    """Whether `name` may be the class of an inert object."""
    return name.startswith(CLASS_MODULES)


def may_mention(name: str) -> bool:
    """Whether `name` may appear in a file at all."""
    return may_call(name) or name in VALUES or may_instantiate(name)
