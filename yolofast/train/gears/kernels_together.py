"""A network's kernels compiled all at once, on a machine that has none of them yet.

Triton compiles a kernel when it is first launched, so a first step compiles some thirty one after the other: a third of
a second each, on one core of many. Here the network goes forward and backward without launching them: each is handed
to a pool of threads. What it computes is without meaning and is thrown away. The loss stays out of it: indices without
meaning would be an access out of bounds. Files in the cache folder remember for which networks that was done.
"""

import hashlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast._version import __version__
from yolofast.files.atomic_file import user_cache_folder
from yolofast.files.threads import usable_cores
from yolofast.train.gears.gears import tried_only, tuned_convolutions
from yolofast.train.step import TrainStep

_KERNELS = Path(__file__).parents[2] / "fused"


def compile_kernels_together(step: TrainStep, images: Tensor, *, tuned: bool) -> None:
    """Before the first step of a run. What fails here is compiled when it is needed, or fails again there.

    `tuned` as that step will be: cuDNN keeps the algorithm it has taken first.
    """
    if not step.uses_kernels:
        return
    done = user_cache_folder() / "compiled" / _key(step, images)
    if done.exists():
        return
    with suppress(Exception):
        with tried_only(step), tuned_convolutions(tuned), launching_nothing():
            forward_and_backward(step, images)
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()
    for parameter in step.model.parameters():
        parameter.grad = None
    if images.is_cuda:
        torch.cuda.empty_cache()  # the steps of a run are on other streams, which have memory of their own


def forward_and_backward(step: TrainStep, images: Tensor) -> None:
    with step.batch_counters.counted_together():
        raw = [one for one in step.raw_maps(images) if one.requires_grad]
    torch.autograd.backward(raw, [torch.zeros_like(one) for one in raw])


@contextmanager
def launching_nothing() -> Iterator[None]:
    """What happens here compiles kernels of Triton, in threads, and launches none; at the end all are compiled.

    A kernel that would be tuned by trying it cannot be: its result would be kept. Then nothing here is done.
    """
    kernels, tuner = import_module("triton.runtime.jit").JITFunction, import_module("triton.runtime.autotuner")
    together = import_module("triton.runtime._async_compile")
    run, tune, here = kernels.run, tuner.Autotuner.run, threading.current_thread()
    with ThreadPoolExecutor(usable_cores(), "yolofast-kernels") as pool:
        mode = together.AsyncCompileMode(pool)

        def compile_only(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
            if _is_pythons(own := threading.current_thread()) and own is not here:  # it has work of its own
                return run(kernel, *arguments, grid=grid, warmup=warmup, **named)
            # Backward passes have threads of their own, for which the mode has to be set, too.
            before = together.active_mode.set(mode)
            try:
                return run(kernel, *arguments, grid=grid, warmup=True, **named)
            finally:
                together.active_mode.reset(before)

        kernels.run, tuner.Autotuner.run = compile_only, _refuse
        try:
            with mode:
                yield
        finally:
            kernels.run, tuner.Autotuner.run = run, tune


def _is_pythons(thread: threading.Thread) -> bool:
    """Those of torch, in which backward passes run, are known to Python by such names alone."""
    return not thread.name.startswith("Dummy-")


def _refuse(*given: Any, **named: Any) -> None:
    raise NotImplementedError("a kernel is tuned where nothing is launched")


def _key(step: TrainStep, images: Tensor) -> str:
    """Of the network's shapes and those of its input, the kernels' sources, Triton and the kind of GPU."""
    sources = [(path.name, os.stat(path).st_mtime_ns) for path in sorted(_KERNELS.glob("*.py"))]
    shapes = [tuple(parameter.shape) for parameter in step.model.parameters()]
    device = torch.cuda.get_device_capability(images.device) if images.is_cuda else ()
    facts = __version__, import_module("triton").__version__, device, sources, shapes, tuple(images.shape), images.dtype
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
