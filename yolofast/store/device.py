"""The device that was named, or why it cannot be used: asked before anything is packed for it."""

import torch

from yolofast.errors import UserError, shorten


def usable_device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
    except RuntimeError:
        raise UserError(f"there is no device {shorten(device)}", fix="give cpu, cuda or cuda:1") from None
    if found.type != "cuda":
        return found
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        raise UserError(f"the device is {found}, but no GPU can be used", fix="give cpu, or install a CUDA torch")
    if found.index is not None and found.index >= gpus:
        raise UserError(f"the device is {found}, but there are {gpus} GPUs", fix="count from 0")
    return found
