"""What trials take, measured before they run: some steps of each kind by `yolofast profile`, alone or side by side."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from yolofast.errors import UserError
from yolofast.sweep.places import Start
from yolofast.sweep.trials import Trial, words_of

STEPS, WARM_UP = 40, 10
COUNTS = (1, 2, 4, 8)
_NO_COST = {
    "seed", "epochs", "lr0", "lrf", "momentum", "weight_decay", "warmup_epochs", "warmup_momentum", "warmup_bias_lr",
    "box", "cls", "obj", "cls_pw", "obj_pw", "fl_gamma", "anchor_t", "iou_t", "label_smoothing", "save_period",
}  # fmt: skip
"""Settings that do not change what a step takes."""
_MEMORY_SHARE, _CONTEXT_GIB = 0.9, 1.0
"""Of a GPU that trials may fill; and what CUDA takes of it for each process, beside what torch reserves."""
_LEAST_GAIN = 1.05
"""In images per second of all together, for which more are trained at once."""
_POLL_S = 0.1


@dataclass(frozen=True)
class TrialPace:
    images_per_second: float
    epoch_seconds: float
    """Of training alone."""
    memory_gib: float
    """0 on a CPU."""
    device_gib: float
    began: float
    ended: float
    """Seconds since 1970."""


def measured(
    all_settings: Sequence[Mapping[str, Any]], device: str, start: Start, steps: int = STEPS
) -> list[TrialPace]:
    """All at once, each by a process of its own."""
    with TemporaryDirectory(prefix="yolofast-pace-") as folder:
        files = [Path(folder) / f"{number}.json" for number in range(len(all_settings))]
        processes = []
        try:
            for settings, file in zip(all_settings, files, strict=True):
                words = ["profile", *words_of(settings), "--device", device, "--steps", str(steps)]
                words += ["--warm-up", str(WARM_UP), "--json", str(file)]
                with file.with_suffix(".log").open("wb") as log:
                    command = [sys.executable, "-m", "yolofast", *words]
                    processes.append(start(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))
            while any(one.poll() is None for one in processes):
                time.sleep(_POLL_S)
        finally:
            for one in processes:
                if one.poll() is None:
                    one.send_signal(15)
                    one.wait()
        return [_pace(file) for file in files]


def _pace(file: Path) -> TrialPace:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        log = file.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        what = f"yolofast profile has not ended well: {' / '.join(log.split(chr(10))[-4:]).strip()}"
        raise UserError(what, fix="try the trial by itself: yolofast profile") from None
    usage, step_s = found["usage"], found["step_ms"]["mean"] / 1000
    return TrialPace(
        found["images_per_second"], step_s * found["setup"]["steps_an_epoch"], usage["gpu_memory_gib"] or 0.0,
        usage["gpu_memory_total_gib"] or 0.0, found["measured_from"], found["measured_until"],
    )  # fmt: skip


def paces_of(trials: Sequence[Trial], device: str, start: Start, say: Callable[[str], None]) -> dict[str, TrialPace]:
    """By the trials' names. Those that differ in rates or seeds alone are one kind, measured once."""
    kinds: dict[str, TrialPace] = {}
    found = {}
    count = len({_kind(one) for one in trials})
    for trial in trials:
        kind = _kind(trial)
        if kind not in kinds:
            say(f"measuring {trial.name} (kind {len(kinds) + 1} of {count})")
            (kinds[kind],) = measured([trial.settings], device, start)
        found[trial.name] = kinds[kind]
    return found


def _kind(trial: Trial) -> str:
    settings = {name: value for name, value in trial.settings.items() if name not in _NO_COST}
    return json.dumps(settings, sort_keys=True, default=str)


def room_for(paces: Sequence[TrialPace]) -> int:
    """How many trials fit into the memory of a GPU, if each takes as much as the largest."""
    largest = max(one.memory_gib for one in paces) + _CONTEXT_GIB
    return max(int(_MEMORY_SHARE * paces[0].device_gib / largest), 1)


def best_together(trials: Sequence[Trial], device: str, start: Start, say: Callable[[str], None]) -> int:
    """How many trials to train at once on a GPU: as long as they fit, and all together train more images a second."""
    paces = paces_of(trials, device, start, say)
    first, room = trials[0], room_for(list(paces.values()))
    best, most = 1, paces[first.name].images_per_second
    say(f"1 at once: {most:,.0f} img/s; memory is there for {room}")
    for count in COUNTS[1:]:
        if count > room:
            break
        total = sum(one.images_per_second for one in measured([first.settings] * count, device, start))
        say(f"{count} at once: {total:,.0f} img/s together")
        if total < _LEAST_GAIN * most:
            break
        best, most = count, total
    return best


def overlap(paces: Sequence[TrialPace]) -> float:
    """The share of their time in which all of them were measured: only then were they side by side."""
    both = min(one.ended for one in paces) - max(one.began for one in paces)
    return max(both, 0.0) / max(one.ended - one.began for one in paces)
