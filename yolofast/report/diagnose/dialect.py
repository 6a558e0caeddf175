"""Whose settings a run has: by which names they go, and how another run is given them.

Runs of this package take recipe values as `--set` (YOLOX) or in a file for `--hyp` (YOLOv7); of other trainers only
the names are known.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from yolofast.report.logs.history import RUN_FOLDER, YOLOV7_LOG, YOLOX_LOG, History
from yolofast.runs.layout import FILES

Dialect = Literal["our YOLOX", "our YOLOv7", "YOLOX", "YOLOv7", "unknown"]
LR, MOSAIC, MIXUP = ("basic_lr_per_img", "lr0", "lr"), ("mosaic_prob", "mosaic"), ("mixup_prob", "mixup")
EPOCHS, BATCH_SIZE, PATIENCE, MULTI_SCALE = "epochs", "batch_size", "patience", "multi_scale"
_LENGTH_OF_YOLOX = "max_epoch"
_FLAGS = {EPOCHS: "--epochs", BATCH_SIZE: "--batch-size", PATIENCE: "--patience"}
_TRIED = "hyp-to-try.yaml"


@dataclass(frozen=True)
class Change:
    """An entry of the settings, before and after; `before` is None where the files do not say it."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key}: {'?' if self.before is None else spelled(self.before)} -> {spelled(self.after)}"


def dialect(history: History) -> Dialect:
    if history.format == RUN_FOLDER:
        return "our YOLOX" if LR[0] in history.settings else "our YOLOv7"
    return "YOLOX" if history.format == YOLOX_LOG else "YOLOv7" if history.format == YOLOV7_LOG else "unknown"


def setting(history: History, keys: tuple[str, ...]) -> tuple[str, Any]:
    """The first of these names the run's files have, and its value; otherwise the name its trainer has, and None."""
    found = next((key for key in keys if key in history.settings), None)
    if found is not None:
        return found, history.settings[found]
    return keys[0] if "YOLOX" in dialect(history) else keys[1], None


def planned_epochs(history: History) -> tuple[str, int]:
    """The name of a run's length, and how long it was to be; what was done where the files do not say it."""
    key = _LENGTH_OF_YOLOX if dialect(history) == "YOLOX" and EPOCHS not in history.settings else EPOCHS
    given = history.settings.get(key)
    return key, given if isinstance(given, int) else len(history.epochs)


def scaled(value: Any, factor: float) -> Any:
    """For people where the files do not say the value."""
    return float(f"{value * factor:.3g}") if isinstance(value, int | float) else f"{factor:.2g} of it"


def spelled(value: Any) -> str:
    """As YAML and `--set` read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def flags(history: History, changes: Iterable[Change]) -> list[str]:
    """What `yolofast train` takes beside the flags of the run; without what only a file can say."""
    if "our" not in dialect(history):
        return []
    numbers = [change for change in changes if not isinstance(change.after, str)]
    words = [word for one in numbers if one.key in _FLAGS for word in (_FLAGS[one.key], spelled(one.after))]
    recipe = [f"{one.key}={spelled(one.after)}" for one in numbers if one.key not in _FLAGS]
    return [*words, "--set", *recipe] if recipe and dialect(history) == "our YOLOX" else words


def how_to_apply(history: History, changes: Iterable[Change]) -> str | None:
    """One line to copy; None for runs of trainers whose command line is not known."""
    changes = list(changes)
    words = flags(history, changes)
    if dialect(history) == "our YOLOX":
        return f"yolofast train … {shlex.join(words)}"
    if dialect(history) != "our YOLOv7":
        return None
    in_hyp = [one for one in changes if one.key not in (*_FLAGS, MULTI_SCALE) and not isinstance(one.after, str)]
    make_hyp = ""
    if in_hyp:
        edits = " ".join(f"-e 's/^{one.key}:.*/{one.key}: {spelled(one.after)}/'" for one in in_hyp)
        make_hyp = f"sed {edits} {shlex.quote(str(Path(history.source) / FILES.hyp))} > {_TRIED} && "
        words = ["--hyp", _TRIED, *words]
    without = " (without --multi-scale)" if MULTI_SCALE in [one.key for one in changes] else ""
    return f"{make_hyp}yolofast train … {shlex.join(words)}{without}".rstrip()
