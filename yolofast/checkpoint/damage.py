"""The two ways a weight file is turned down, worded in one place.

Neither names the file: the readers below `read_weights` see bytes, and `read_weights` adds the path.
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
