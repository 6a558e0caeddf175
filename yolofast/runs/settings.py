"""The settings of a run as they took effect, from its flags and its hyper-parameters, and what of its machine it used.

Several of them choose the assigner: `--assigner`, `--ota-from-epoch`, `assigner` and YOLOv7's `loss_ota` in the
hyper-parameters, a YOLOX recipe. Here it is one entry, `assigner`: a name, or a list of epochs (from 0) and names. So
runs that say it in different ways have the same settings.
"""

from collections.abc import Mapping
from typing import Any

from yolofast.runs.layout import FILES

FLAG_FILES = ("opt.yaml", FILES.settings)
"""The flags of a run: YOLOv7's file, then ours and Ultralytics'. Later ones win."""
SETTINGS_FILES = (FILES.hyp, *FLAG_FILES)
"""Later ones win: flags are above what a recipe says."""
_ALIASES = {"batch": "batch_size", "imgsz": "img_size", "img": "img_size", "cache_images": "cache"}
_NO_GPU = "no GPU"
_WAYS_TO_SAY_IT = ("assigner", "ota_from_epoch", "loss_ota")
_MOST_STEPS = 100


def settings_in_effect(hyp: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Flags override the hyper-parameters, unless they are not set."""
    given = {key: value for key, value in args.items() if value is not None or key not in hyp}
    both = {**hyp, **given}
    assigner = _assigner(both)
    if assigner is None:
        return both
    return {key: value for key, value in both.items() if key not in _WAYS_TO_SAY_IT} | {"assigner": assigner}


def _assigner(settings: Mapping[str, Any]) -> Any:
    """None where nothing says it: other trainers have assigners of their own."""
    if settings.get("assigner") not in (None, ""):
        return _as_one_name(settings["assigner"])
    first = settings.get("ota_from_epoch")
    if isinstance(first, int):
        return [[0, "anchor"], [first, "ota"]] if first else "ota"
    if "simota_version" in settings:
        return "simota"
    published = settings.get("loss_ota")
    return None if published is None else "ota" if published == 1 else "anchor"


def _as_one_name(given: Any) -> Any:
    """A list with a single step is that step's name; anything else stays as it is."""
    steps = [given] if isinstance(given, list) and given and not isinstance(given[0], list) else given
    if not isinstance(steps, list) or not 0 < len(steps) <= _MOST_STEPS:
        return given
    if not all(isinstance(step, list) and len(step) == 2 and isinstance(step[1], str) for step in steps):
        return given
    return steps[0][1] if len(steps) == 1 else steps


def tidy(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Under one name for each setting, whoever wrote it."""
    names = {key: str(key).replace("-", "_") for key in values}
    plain = {  # 320 and [320, 320] are one size
        key: value[0] if isinstance(value, list) and value and all(one == value[0] for one in value) else value
        for key, value in values.items()
    }
    return {_ALIASES.get(names[key], names[key]): value for key, value in plain.items()}


def hardware_used(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """From its settings and `env.json`: times compare only where this is the same.

    None where no file says it, and where it matters little.
    """
    gpu = environment["gpu"] or _NO_GPU if "gpu" in environment else None
    if settings.get("device") == "cpu":  # a run may not use the GPU of its machine
        gpu = _NO_GPU
    return {
        "gpu": gpu,
        "gpus": None if gpu == _NO_GPU else _count_of_gpus(settings, environment),
        "cpu": environment.get("cpu") if gpu == _NO_GPU else None,  # with a GPU its cores matter more than its name
        "cpu_cores": environment.get("cpu_cores"),
    }


def _count_of_gpus(settings: Mapping[str, Any], environment: Mapping[str, Any]) -> Any:
    """Those it used if its settings say so, otherwise those of the machine."""
    if "device" not in settings:
        return environment.get("gpus")
    device, ranks = str(settings["device"] or "0"), settings.get("world_size")
    return max(len(device.split(",")), ranks if isinstance(ranks, int) else 1)
