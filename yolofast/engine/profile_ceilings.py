"""What this device can do, measured in moments: a large matrix product, a copy in its memory, a copy from the host."""

import time
from collections.abc import Callable

import torch

from yolofast.engine.precision import Precision
from yolofast.profile.records import Ceilings

_SECONDS = 0.15
"""For each of them."""


def measure_ceilings(precision: Precision) -> Ceilings | None:
    """None where the memory left does not suffice."""
    device, on_gpu = precision.device, precision.device.type == "cuda"
    side, copied, sent = (8192, 2**30, 2**28) if on_gpu else (1024, 2**26, 0)
    try:
        flops = 2 * side**3 / _fastest(_product(side, precision), device)
        moved = 2 * copied / _fastest(_copy(copied, device), device)
        bus = sent / _fastest(_send(sent, device), device) if sent else None
    except torch.OutOfMemoryError:
        return None
    name = str(precision.dtype).removeprefix("torch.")
    return Ceilings(flops=flops, bytes=moved, sent_bytes=bus, flops_by=f"{name} product of {side}×{side}")


def _product(side: int, precision: Precision) -> Callable[[], object]:
    left, right, out = (torch.randn(side, side, device=precision.device).to(precision.dtype) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def _copy(size: int, device: torch.device) -> Callable[[], object]:
    source, target = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    return lambda: target.copy_(source)


def _send(size: int, device: torch.device) -> Callable[[], object]:
    source = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device=device)
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
