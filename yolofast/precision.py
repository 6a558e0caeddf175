"""The device and number type a run computes in, with whose kernels, and what its errors mean.

bfloat16 where the GPU has it, otherwise float16 with a scaled loss, float32 on the CPU. Weights, their average and the
loss stay float32.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from yolofast.errors import UserError, shorten

Name = Literal["auto", "bf16", "fp16", "fp32"]


@dataclass(frozen=True)
class Precision:
    device: torch.device
    dtype: torch.dtype

    @staticmethod
    def choose(name: Name, device: torch.device | str) -> "Precision":
        device = torch.device(device)
        if name not in get_args(Name):
            raise UserError(f"--precision is {shorten(name)}", fix=f"give one of {', '.join(get_args(Name))}")
        if name == "auto":
            on_gpu = device.type == "cuda"
            name = ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16") if on_gpu else "fp32"
        if name == "fp16" and device.type == "cpu":
            raise UserError("float16 is too coarse to train in on the CPU", fix="use --precision fp32 or bf16")
        return Precision(device, {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name])

    def autocast(self) -> AbstractContextManager[Any]:
        if self.dtype is torch.float32:
            return nullcontext()
        # Casts are not cached: a captured graph would keep the first weights' casts for ever.
        return torch.autocast(self.device.type, self.dtype, cache_enabled=False)


TRITON_IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""It then runs kernels on the CPU, line by line: for tests."""


def _why_not_ours() -> str:
    if torch.version.hip is not None:
        return "ours were not tried on AMD's GPUs"
    return "" if find_spec("triton") is not None else "ours need Triton: pip install triton"


WHY_NOT_OUR_KERNELS = _why_not_ours()
"""Empty where the project's own kernels can be had on a GPU."""
_own_kernels = os.environ.get("YOLOFAST_KERNELS", "1") != "0"
NEW_KERNELS = TRITON_IS_INTERPRETED or os.environ.get("YOLOFAST_KERNELS") == "new"
"""Whether what no GPU has run yet is used: maps joined in place, forks, siblings, updates in one kernel, pools without
a gradient, suppression of few images, and, as the gear `auto` takes, the captured step of several ranks. Tests compare
it in the interpreter."""


def kernels_for(tensor: Tensor) -> bool:
    """Whether the project's own kernels (`fused/`) compute with it: on a GPU, where Triton is installed, in what is
    not compiled anyway. float64 is for exactness, so it is left to torch.

    `YOLOFAST_KERNELS=0` computes everything as written; so does `without_kernels`, for comparisons.
    """
    return (
        (tensor.is_cuda or TRITON_IS_INTERPRETED)
        and _own_kernels
        and not WHY_NOT_OUR_KERNELS
        and tensor.dtype is not torch.float64
        and not torch.compiler.is_compiling()
    )


@contextmanager
def without_kernels() -> Iterator[None]:
    """What happens here is computed as written."""
    global _own_kernels
    before, _own_kernels = _own_kernels, False
    try:
        yield
    finally:
        _own_kernels = before


class LossScale:
    """float16 gradients are computed of a scaled loss, so that they do not vanish.

    Gradients of which one overflows are left out: the step has none, so only momentum and decay move the weights. All
    of it happens on the device, also in a captured step. For other types the scale is 1 and nothing is left out.
    """

    GROW_EVERY, START = 2000, 2.0**16

    def __init__(self, precision: Precision) -> None:
        self.active = precision.dtype is torch.float16
        self.scale = torch.full((), self.START if self.active else 1.0, device=precision.device)
        self._good = torch.zeros((), device=precision.device)

    def tensors(self) -> list[Tensor]:
        return [self.scale, self._good]

    def scaled(self, loss: Tensor) -> Tensor:
        return loss * self.scale if self.active else loss

    @torch.no_grad()
    def unscale(self, grads: list[Tensor]) -> None:
        """Gradients of the loss itself; zeros for all if any of them overflowed, and the scale adapts."""
        if not self.active or not grads:
            return
        finite = torch.stack([grad.isfinite().all() for grad in grads]).all()
        factor = finite / self.scale
        for grad in grads:
            grad.nan_to_num_(0.0, 0.0, 0.0).mul_(factor)
        self._good.add_(1).mul_(finite)
        grow = self._good >= self.GROW_EVERY
        self.scale.mul_(torch.where(finite, torch.where(grow, 2.0, 1.0), 0.5)).clamp_(1.0, 2.0**24)
        self._good.mul_(~grow)


_NO_MPS = "Apple's GPUs are not supported, they have no float64, in which counts and means are kept"


def device_of(name: str, typed: str | None = None, flag: str = "--device ") -> torch.device:
    """`0`, `cuda:1`, `cpu`, or empty for the first GPU if there is one. `typed` is what messages name instead;
    `flag` is what stands before it where it was given."""
    named = f"{flag.rstrip(' =')} is {typed or name}"
    if name == "cpu":
        return torch.device("cpu")
    if name == "mps":
        raise UserError(f"{named}: {_NO_MPS}", fix=f"{flag}cpu")
    if not torch.cuda.is_available():
        if name:
            raise UserError(f"{named}, but no GPU can be used", fix=f"{flag}cpu, or install a CUDA torch")
        return torch.device("cpu")
    if "," in name:
        raise UserError(f"{named}, but only training uses several GPUs", fix=f"name one, such as {flag}0")
    number = name.removeprefix("cuda:").removeprefix("cuda") or "0"
    if not number.isdecimal():
        raise UserError(f"{named}, which is none", fix="give cpu, or the number of a GPU")
    if int(number) >= torch.cuda.device_count():
        what = f"{named}, but there are {torch.cuda.device_count()} GPUs"
        raise UserError(what, fix="count from 0")
    return torch.device("cuda", int(number))


def usable_device(device: torch.device | str) -> torch.device:
    """The device that was named, or why it cannot be used: checked before anything is packed for it."""
    try:
        found = torch.device(device)
    except RuntimeError:
        raise UserError(f"there is no device {shorten(device)}", fix="give cpu, cuda or cuda:1") from None
    if found.type == "mps":
        raise UserError(f"the device is {found}: {_NO_MPS}", fix="give cpu")
    if found.type != "cuda":
        return found
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        raise UserError(f"the device is {found}, but no GPU can be used", fix="give cpu, or install a CUDA torch")
    if found.index is not None and found.index >= gpus:
        raise UserError(f"the device is {found}, but there are {gpus} GPUs", fix="count from 0")
    return found


_NO_MEMORY = ("out of memory", "_ALLOC_FAILED", "can't allocate memory")
"""Of the driver, of its libraries, of the host."""
_OF_THE_GPU = ("CUDA error", "CUDA driver error", "cuDNN error")


def memory_ran_out(error: BaseException) -> bool:
    """torch has a class for its own allocator alone; others say so in words."""
    in_words = isinstance(error, RuntimeError) and any(word in str(error) for word in _NO_MEMORY)
    return in_words or isinstance(error, torch.OutOfMemoryError | MemoryError)


def device_is_lost(error: BaseException) -> bool:
    """Whether the GPU has failed for good. A capture that fails raises the same class: so the GPU is asked.

    After an illegal access, a failed assertion or a fault of the hardware it answers nothing any more in this process.
    """
    is_its = isinstance(error, torch.AcceleratorError) or any(word in str(error) for word in _OF_THE_GPU)
    if not isinstance(error, RuntimeError) or not is_its:
        return False
    for _ in range(2):  # what only the call before did wrong is said once
        try:
            torch.cuda.synchronize()
        except (RuntimeError, AssertionError):
            continue
        return False
    return True
