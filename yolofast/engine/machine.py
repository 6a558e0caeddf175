"""What the figures of a run have to be read with: versions and hardware. Nothing that names a person or a machine."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import psutil
import torch

from yolofast._version import __version__

_PACKAGES = (
    "torch", "numpy", "opencv-python-headless", "triton", "torchvision", "faster-coco-eval", "matplotlib",
    "tensorboard", "mlflow", "wandb",
)  # fmt: skip


def environment() -> dict[str, Any]:
    """The content of `env.json`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        **_gpus(),
        "yolofast": __version__,  # also where it runs from a folder and is not installed
        **{name: _version(name) for name in _PACKAGES},
    }


def _gpus() -> dict[str, Any]:
    if not torch.cuda.is_available():
        return {"gpu": None, "gpus": 0, "gpu_memory_gib": None, "cuda": torch.version.cuda, "cudnn": None}
    return {
        "gpu": torch.cuda.get_device_name(),
        "gpus": torch.cuda.device_count(),
        "gpu_memory_gib": round(torch.cuda.get_device_properties().total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # only Linux has it
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
