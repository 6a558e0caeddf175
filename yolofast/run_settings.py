"""The settings of a run as they took effect, from its flags and its hyper-parameters.

Several of them say which assigner is used: `--assigner`, `--ota-from-epoch`, `assigner` and YOLOv7's `loss_ota` in the
hyper-parameters, a YOLOX recipe. Here it is one entry, `assigner`, a name or a list of epochs (from 0) and names, so
that runs which say it in different ways, or leave it at its default, have the same settings.
"""

from collections.abc import Mapping
from typing import Any

_WAYS_TO_SAY_IT = ("assigner", "ota_from_epoch", "loss_ota")
_MOST_STEPS = 100


def settings_in_effect(hyp: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Flags are above the hyper-parameters, but one that is not set overrules nothing."""
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
    """A list with a single step is that step's name; what has another form is left as it is."""
    steps = [given] if isinstance(given, list) and given and not isinstance(given[0], list) else given
    if not isinstance(steps, list) or not 0 < len(steps) <= _MOST_STEPS:
        return given
    if not all(isinstance(step, list) and len(step) == 2 and isinstance(step[1], str) for step in steps):
        return given
    return steps[0][1] if len(steps) == 1 else steps
