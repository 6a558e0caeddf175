"""What a GPU and its libraries do once before they can work, begun beside reading data and building the network.

The driver makes its context, cuDNN and cuBLAS load their kernels, and Triton hashes its own library of 400 MB, by which
it names the kernels it keeps. That is a second or two in which Python's lock is hardly held. No number of a run depends
on it: what fails here fails again, and is told, where it is needed.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch
from torch import nn

from yolofast.precision import WHY_NOT_OUR_KERNELS, Precision

_IMAGES, _CHANNELS, _SIDE = 8, 32, 32


def wake(precision: Precision) -> list[threading.Thread]:
    """Returns at once, with what works on it. Not daemons: Python would end those in the midst of a library."""
    if precision.device.type != "cuda":
        return []
    work: list[Callable[[], object]] = [lambda: use_libraries(precision)]
    if not WHY_NOT_OUR_KERNELS:
        work.append(name_kernels)
    threads = [threading.Thread(target=_tried, args=(one,), name="yolofast-wake", daemon=False) for one in work]
    for thread in threads:
        thread.start()
    return threads


def _tried(work: Callable[[], object]) -> None:
    with suppress(Exception):
        work()


def use_libraries(precision: Precision) -> None:
    """A convolution, its gradients and a product, in the type a run computes in, on a stream of their own.

    Nothing is drawn, so the random numbers of the run are the same.
    """
    device = precision.device
    on_gpu = device.type == "cuda"
    stream: Any = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        options: Any = {"device": device, "dtype": precision.dtype, "requires_grad": True}
        last = torch.channels_last
        images = torch.zeros(_IMAGES, _CHANNELS, _SIDE, _SIDE, **options).contiguous(memory_format=last)
        weight = torch.zeros(_CHANNELS, _CHANNELS, 3, 3, **options).contiguous(memory_format=last)
        made = nn.functional.conv2d(images, weight, padding=1)
        torch.autograd.grad(made, (images, weight), torch.zeros_like(made))
        flat = images.detach().reshape(_IMAGES, -1)
        torch.mm(flat, flat.T)
        if on_gpu:
            stream.synchronize()


def name_kernels() -> None:
    """Triton remembers what it has hashed, and which compiler there is for this GPU."""
    for place in ("triton.runtime.cache", "triton.compiler.compiler"):  # it has moved between versions
        if key := getattr(import_module(place), "triton_key", None):
            key()
            break
    target = import_module("triton.runtime").driver.active.get_current_target()
    import_module("triton.compiler.compiler").make_backend(target).hash()
