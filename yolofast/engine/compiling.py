"""The way from images to losses, compiled; and where compiled kernels are kept from run to run."""

import hashlib
import os
from functools import cache
from pathlib import Path

import torch

from yolofast.cache_folder import user_cache_folder
from yolofast.engine.step import LossOf, TrainStep

_COMPILED_PARTS = ("model", "assign", "loss", "engine")


def compiled_loss_of(step: TrainStep) -> LossOf:
    """Compiles at its first call and its first backward pass, or finds what an earlier run has compiled."""
    keep_compiled_kernels()
    return torch.compile(step.loss_of, fullgraph=True, dynamic=False)


def keep_compiled_kernels() -> None:
    """In the cache folder rather than among temporary files, and for losses that write their own gradient too."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kernel_folder()))
    import torch._functorch.config as tracing

    # What has changed since then is told apart by the folder: torch does not look into hand-written gradients.
    if hasattr(tracing, "autograd_cache_allow_custom_autograd_functions"):
        tracing.autograd_cache_allow_custom_autograd_functions = True  # type: ignore[attr-defined,unused-ignore]


@cache
def kernel_folder() -> Path:
    """A folder per state of the sources that are compiled."""
    package = Path(__file__).parent.parent
    state = hashlib.sha256(torch.__version__.encode())
    for part in _COMPILED_PARTS:
        for path in sorted((package / part).rglob("*.py")):
            state.update(path.read_bytes())
    for path in sorted(package.glob("*.py")):
        state.update(path.read_bytes())
    return user_cache_folder() / "kernels" / state.hexdigest()[:16]
