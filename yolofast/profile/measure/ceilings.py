"""The work of a step (FLOPs and bytes), and the ceilings of the device.

Work is counted on a few images and on twice as many, because it grows linearly with the images: a whole batch would
need the memory of a second step. Triton kernels are not counted; they are a small part. Ceilings are measured with a
large matrix product, a copy in device memory and a copy from the host.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from yolofast.precision import Precision
from yolofast.profile.records import Ceilings, Work
from yolofast.structures import Batch, Targets
from yolofast.train.gears.gears import parts_of, tried_only
from yolofast.train.step import StepKind, TrainStep

_ALONE = StepKind(sums=False, updates=True)
_FEW = 2
"""Images: BatchNorm cannot learn from a single one where its map is a single cell."""
_SECONDS = 0.15
"""For each of the ceilings."""


def count_work(step: TrainStep, batch: Batch, sent_bytes: float, pixels: float) -> Work:
    """Of a step with such a batch, which is on the device, if its images had so many `pixels`. What each image adds
    grows with them, and counting it for every size would take longer than measuring. The step stays as it was."""
    few, twice = (_counted(step, _some(batch, count)) for count in (_FEW, 2 * _FEW))
    times = len(batch.images) / _FEW * pixels / batch.images[0, 0].numel()
    flops, moved = (first + (times - 1) * (second - first) for first, second in zip(few, twice, strict=True))
    return Work(flops=flops, bytes=moved, sent_bytes=sent_bytes)


def _counted(step: TrainStep, batch: Batch) -> tuple[float, float]:
    """FLOPs and bytes."""
    flops, moved = FlopCounterMode(display=False), _BytesMode()
    with tried_only(step), flops, moved:
        step.run(batch.images, batch.targets, _ALONE)
    step.prepare_gradients(_ALONE)  # lets go of those just made
    return float(flops.get_total_flops()), float(moved.bytes)


def _some(batch: Batch, images: int) -> Batch:
    """Of a smaller batch several times the same."""
    which = torch.arange(images, device=batch.images.device) % len(batch.images)
    targets = Targets(*(part[which] for part in parts_of(batch.targets)))
    return Batch(
        batch.images[which].contiguous(memory_format=torch.channels_last), targets, np.resize(batch.sources, images)
    )


class _BytesMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the sizes of what operations take and give; views move nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        call: Callable[..., Any] = func
        out = call(*args, **(kwargs or {}))
        views = any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
        if not views and not str(func).startswith("aten.empty"):  # memory that is taken but not written
            self.bytes += sum(
                leaf.nbytes for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, torch.Tensor)
            )
        return out


def measure_ceilings(precision: Precision) -> Ceilings | None:
    """None where the memory left does not suffice."""
    device, on_gpu = precision.device, precision.device.type == "cuda"
    side, copied, sent = (8192, 2**30, 2**28) if on_gpu else (1024, 2**26, 0)
    try:
        flops = 2 * side**3 / _fastest(_product(side, precision), device)
        moved = 2 * copied / _fastest(_copy(copied, device, device), device)
        bus = sent / _fastest(_copy(sent, torch.device("cpu"), device), device) if sent else None
    except torch.OutOfMemoryError:
        return None
    name = str(precision.dtype).removeprefix("torch.")
    return Ceilings(flops=flops, bytes=moved, sent_bytes=bus, flops_by=f"{name} product of {side}×{side}")


def _product(side: int, precision: Precision) -> Callable[[], object]:
    left, right, out = (torch.randn(side, side, device=precision.device).to(precision.dtype) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def _copy(size: int, source_device: torch.device, device: torch.device) -> Callable[[], object]:
    """From another device memory is pinned."""
    source = torch.zeros(size, dtype=torch.uint8, device=source_device, pin_memory=source_device != device)
    target = torch.zeros(size, dtype=torch.uint8, device=device)
    return lambda: target.copy_(source, non_blocking=True)


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call: the least of several, because what disturbs only ever adds."""
    work()
    _wait(device)
    best, until = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < until:
        begun = time.perf_counter()
        work()
        _wait(device)
        best = min(best, time.perf_counter() - begun)
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
