"""The way from images to losses, compiled; and where compiled kernels are kept from run to run.

Network and loss are compiled apart. The network is most of the work and the same for every number of places for boxes
and for every loss; the loss is compiled for each in a fraction of the time.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast.cache_folder import user_cache_folder
from yolofast.engine.assigner_schedule import ScheduledLoss
from yolofast.engine.step import LossOf, TrainStep
from yolofast.model.network import build_model
from yolofast.own_sources import PACKAGE, sources_of
from yolofast.profile.phases import FUSED
from yolofast.structures import LossTerms, Targets

_SECONDS_KEPT = 30 * 24 * 3600
_KINDS_OF_BATCHES = 64
"""Numbers of places, losses and sets of layers that learn, in one run; torch gives up beyond."""
_FOLDER_SETTING = "TORCHINDUCTOR_CACHE_DIR"
"""Torch sets it itself, to a folder among temporary files, as soon as anything imports its compiler."""
_COMPILED = (TrainStep, build_model, ScheduledLoss)
"""What a compiled step is made of, with all that the modules of these import."""


def compiled_loss_of(step: TrainStep, backend: str | Callable[..., Any] = "inductor") -> LossOf:
    """Compiles at its first call and its first backward pass, or finds what an earlier run has compiled."""
    keep_compiled_kernels()
    torch._dynamo.config.recompile_limit = _KINDS_OF_BATCHES
    network = torch.compile(step.raw_maps, fullgraph=True, dynamic=False, backend=backend)
    loss = torch.compile(step.loss_from, fullgraph=True, dynamic=False, backend=backend)

    def loss_of(images: Tensor, targets: Targets) -> LossTerms:
        raw = network(images)
        if step.probe is not None:
            step.probe.mark(FUSED)
        return loss(raw, targets)

    return loss_of


def keep_compiled_kernels() -> None:
    """In the cache folder rather than among temporary files, and for losses that write their own gradient too."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir  # takes a second

    if os.environ.get(_FOLDER_SETTING) in (None, os.path.abspath(default_cache_dir())):
        os.environ[_FOLDER_SETTING] = str(kernel_folder())
        forget_unused(kernel_folder())
    import torch._functorch.config as tracing

    # What has changed since then is told apart by the folder: torch does not look into hand-written gradients.
    if hasattr(tracing, "autograd_cache_allow_custom_autograd_functions"):
        tracing.autograd_cache_allow_custom_autograd_functions = True  # type: ignore[attr-defined,unused-ignore]


def forget_unused(folder: Path) -> None:
    """Kernels of other sources, which nobody has used for a month: a network's take some 400 MB."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        for other in folder.parent.iterdir():
            if time.time() - other.stat().st_mtime > _SECONDS_KEPT:
                shutil.rmtree(other, ignore_errors=True)


@cache
def kernel_folder() -> Path:
    """A folder per state of the sources that are compiled."""
    return user_cache_folder() / "kernels" / key_of_sources()


def key_of_sources(package: Path = PACKAGE) -> str:
    """Another one after a change of anything that is compiled, the same after any other."""
    state = hashlib.sha256(torch.__version__.encode())
    for path in compiled_sources(package):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def compiled_sources(package: Path = PACKAGE) -> list[Path]:
    return sources_of([part.__module__ for part in _COMPILED], package)
