"""Which device a run uses."""

import torch

from yolofast.errors import UserError


def device_of(name: str, typed: str | None = None) -> torch.device:
    """`0`, `cuda:1`, `cpu`, or empty for the first GPU if there is one. `typed` is what messages name instead."""
    typed = typed or name
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if name:
            raise UserError(f"--device is {typed}, but no GPU can be used", fix="--device cpu, or install a CUDA torch")
        return torch.device("cpu")
    if "," in name:
        raise UserError(f"--device is {typed}, but only training uses several GPUs", fix="name one, such as --device 0")
    number = name.removeprefix("cuda:").removeprefix("cuda") or "0"
    if int(number) >= torch.cuda.device_count():
        what = f"--device is {typed}, but there are {torch.cuda.device_count()} GPUs"
        raise UserError(what, fix="count from 0")
    return torch.device("cuda", int(number))
