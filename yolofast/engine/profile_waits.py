"""Where the host waits for the GPU in a step: torch says so itself when asked to."""

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from yolofast.profile.records import Waits


def count_waits(steps: Callable[[], int]) -> Waits:
    """While `steps` run on a GPU, which says how many there were."""
    mode = torch.cuda.get_sync_debug_mode()
    _set_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            count = steps()
    finally:
        _set_mode(mode)
    places = Counter(_place(one) for one in caught if "synchroniz" in str(one.message))
    return Waits(sum(places.values()) / count, tuple(place for place, _ in places.most_common(5)))


def _set_mode(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a prototype, and may miss some
        torch.cuda.set_sync_debug_mode(mode)


def _place(warning: warnings.WarningMessage) -> str:
    path = Path(warning.filename)
    return f"{path.parent.name}/{path.name}:{warning.lineno}"
