"""What of its machine a run used, from its settings and `env.json`: times compare only where this is the same."""

from collections.abc import Mapping
from typing import Any

_NO_GPU = "no GPU"


def hardware_used(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """None where no file says it, and where it matters little."""
    gpu = _gpu(settings, environment)
    return {
        "gpu": gpu,
        "gpus": None if gpu == _NO_GPU else _count_of_gpus(settings, environment),
        "cpu": environment.get("cpu") if gpu == _NO_GPU else None,  # beside a GPU its cores matter more than its name
        "cpu_cores": environment.get("cpu_cores"),
    }


def _gpu(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> Any:
    """A run may leave the GPU of its machine alone."""
    if settings.get("device") == "cpu":
        return _NO_GPU
    return environment["gpu"] or _NO_GPU if "gpu" in environment else None


def _count_of_gpus(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> Any:
    """Of those it used, if its settings say so, and not of those in the machine."""
    if "device" not in settings:
        return environment.get("gpus")
    device, ranks = str(settings["device"] or "0"), settings.get("world_size")
    return max(len(device.split(",")), ranks if isinstance(ranks, int) else 1)
