"""A trace of a few steps for chrome://tracing or ui.perfetto.dev, with the phases of a step as ranges in it."""

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from yolofast.errors import UserError
from yolofast.profile.step_phases import END
from yolofast.structures import LossTerms, Targets
from yolofast.train.gears.probe import marked_loss
from yolofast.train.step import TrainStep
from yolofast.train.timing import NoSampler

_ABOVE_ALL_LEVELS = "99"


def quiet_profiler() -> None:
    """Silences Kineto, which logs every start and stop to standard error. It reads this once, at its first use."""
    os.environ.setdefault("KINETO_LOG_LEVEL", _ABOVE_ALL_LEVELS)


class TracedSteps(NoSampler):
    """Every step, as ranges of the trace; a captured step is one range, because nothing runs on the host in it."""

    in_graphs = False

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        self._open: Any = None

    def begin(self, iteration: int, phase: str) -> None:
        self._step.probe = self
        self.mark(phase)

    def mark(self, phase: str) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open = None
        if phase != END:  # the profiler calls what is not ASCII "unknown"
            self._open = record_function(phase.replace("→", " to "))
            self._open.__enter__()

    def end(self) -> None:
        self.mark(END)
        self._step.probe = None

    def loss_of(self, images: Tensor, targets: Targets) -> LossTerms:
        return marked_loss(self._step, self.mark, images, targets)

    def captured(self) -> Sequence[Any]:
        return ()

    def replayed(self, marks: Sequence[Any]) -> None:
        pass


def write_trace(steps: Callable[[TracedSteps], object], step: TrainStep, path: Path) -> None:
    """Whole, or not at all."""
    on_gpu = step.precision.device.type == "cuda"
    quiet_profiler()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as recording:
        steps(TracedSteps(step))
        if on_gpu:
            torch.cuda.synchronize(step.precision.device)
    # The ending says whether torch packs it.
    temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.{path.name}")
    try:
        recording.export_chrome_trace(str(temporary))
        temporary.replace(path)
    except OSError as error:
        raise UserError(
            f"the trace cannot be written: {error.strerror}", where=path, fix="name another place"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
