"""Where the host waits for the GPU in a step: torch says so itself when asked to."""

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from yolofast.profile.records import WaitPlace, Waits


def count_waits(steps: Callable[[], int], phase: Callable[[], str]) -> Waits:
    """While `steps` run on a GPU, which says how many there were; `phase` is asked at each wait."""
    found: Counter[tuple[str, str]] = Counter()

    def note(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if "synchroniz" in str(message):
            found[phase(), _place(filename, lineno)] += 1

    mode = torch.cuda.get_sync_debug_mode()
    _set_mode("warn")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            made = steps()
    finally:
        _set_mode(mode)
    return Waits(tuple(WaitPlace(name, place, count / made) for (name, place), count in found.most_common()))


def _set_mode(mode: int | str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a prototype, and may miss some
        torch.cuda.set_sync_debug_mode(mode)


def _place(filename: str, lineno: int) -> str:
    path = Path(filename)
    return f"{path.parent.name}/{path.name}:{lineno}"
