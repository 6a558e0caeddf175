"""What a run survives: a NaN loss, a lack of memory, a GPU that fails; and what it only can tell, that it diverges.

After a NaN loss it goes back to the last good state with a lower learning rate. When memory runs out, its state is
saved on the host. When the GPU fails it ends with a message: its checkpoint is whole.

Bad steps are counted on the device. The count is copied to the host now and then and read one turn later, when it has
arrived, so that nobody waits. The state to go back to is that of the start of the epoch, which was known to be good.

`Course` says how far this start of a run goes: to `--until-epoch`, as long as `--time-limit` allows, or until its
caller says so. A run that pauses keeps the schedule of all its epochs and can be resumed; one that its caller stops
has ended, as with `--patience`. Of several ranks the first decides.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from yolofast.config.train import TrainConfig
from yolofast.errors import LostDeviceError, UserError, in_one_line
from yolofast.precision import device_is_lost, memory_ran_out
from yolofast.ranks import agree_on_largest, world
from yolofast.runs.divergence import lost_rows
from yolofast.train.checkpoints import on_host
from yolofast.train.distributed.join import from_first_rank
from yolofast.train.step import TrainStep
from yolofast.words import own_command

_LOOK_EVERY = 16
_LR_FACTOR = 0.5
_MOST_IN_A_ROW = 3


class NanGuard:
    """`lr_factor` is what the schedule's learning rates are to be multiplied by."""

    def __init__(self, step: TrainStep, lr_factor: float = 1.0, lower_rate: str = "lower lr0") -> None:
        """`lower_rate` says how the user can do that."""
        self._step, self._lower_rate = step, lower_rate
        self.lr_factor, self._in_a_row = lr_factor, 0
        self._on_gpu = step.losses.bad_steps.is_cuda
        self._bad_on_host = torch.zeros((), dtype=torch.int64, pin_memory=self._on_gpu)
        self._copied: Any = None
        self._batches = 0
        self._good: list[torch.Tensor] = []

    def start_epoch(self) -> None:
        """Keep the state; called when the epoch before is known to have been good, or has been undone."""
        self._batches, self._copied = 0, None
        tensors = self._step.tensors()
        if [good.shape for good in self._good] != [tensor.shape for tensor in tensors]:  # first, or others learn now
            self._good = [tensor.clone() for tensor in tensors]
        else:
            for good, tensor in zip(self._good, tensors, strict=True):
                good.copy_(tensor)

    def after_batch(self) -> str | None:
        """What to tell the user, if something had to be undone."""
        self._batches += 1
        if self._batches % _LOOK_EVERY:
            return None
        agree_on_largest(self._step.losses.bad_steps)  # ranks go back together
        if self._copied is not None:
            self._copied.synchronize()  # sixteen batches old
        bad = self._copied is not None and int(self._bad_on_host) > 0
        self._bad_on_host.copy_(self._step.losses.bad_steps, non_blocking=True)
        if self._on_gpu:
            self._copied = torch.cuda.current_stream().record_event()
        else:
            bad = int(self._bad_on_host) > 0
        return self._undo() if bad else None

    def end_epoch(self) -> str | None:
        """As `after_batch`, for the batches since the last look. Waits for the device."""
        agree_on_largest(self._step.losses.bad_steps)
        if int(self._step.losses.bad_steps):
            return self._undo()
        self._in_a_row = 0
        return None

    @torch.no_grad()
    def back_to_start(self) -> None:
        """Of the epoch."""
        tensors = self._step.tensors()
        for good, tensor in zip(self._good, tensors, strict=False):
            tensor.copy_(good)
        for sums in tensors[len(self._good) :]:  # gradients that were not there yet
            sums.zero_()
        self._step.losses.bad_steps.zero_()
        self._copied = None

    def _undo(self) -> str:
        self._in_a_row += 1
        if self._in_a_row >= _MOST_IN_A_ROW:
            raise UserError(
                f"the loss was NaN or infinite {self._in_a_row} times in a row, although the learning rate was lowered "
                f"to {self.lr_factor:g} of the schedule's",
                fix=f"{self._lower_rate}, look at the labels with `{own_command()} check`, or train with --precision "
                "fp32; a checkpoint, if there is one yet, is that of a good epoch",
            )
        self.back_to_start()
        self.lr_factor *= _LR_FACTOR
        return (
            "the loss was NaN or infinite: back to the state at the start of the epoch, "
            f"with {self.lr_factor:g} of the schedule's learning rate"
        )


def divergence_warning(rows: Sequence[Mapping[str, Any]], planned: int, lower_rate: str) -> str | None:
    """After an epoch, if its losses are the first that say so. Nothing is undone: it may come back."""
    *before, now = lost_rows(rows, planned)
    if not now or (before and before[-1]):
        return None
    return (
        f"warning: {now}: the run diverges, most likely by too long steps. Stop it, {lower_rate}, "
        "and warm up longer; or wait whether it comes back"
    )


class EpochOutOfMemoryError(Exception):
    """Memory ran out in an epoch; `state` is that of its start, in host memory, in the form of a checkpoint."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__("memory ran out")
        self.state = on_host(state)


@contextmanager
def fix_if_memory_runs_out(what: str, fix: str) -> Iterator[None]:
    """Where the batch of training is not to blame."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not memory_ran_out(error):
            raise
        raise UserError(f"memory ran out {what}", fix=fix) from error


@contextmanager
def clean_end_if_device_is_lost(resume: Callable[[], str]) -> Iterator[None]:
    """Only another process can use the GPU again: `resume` is the command for it."""
    try:
        yield
    except Exception as error:
        if not device_is_lost(error):
            raise
        fix = f"look at the GPU (nvidia-smi, dmesg), then `{resume()}`; CUDA_LAUNCH_BLOCKING=1 finds what it was doing"
        raise LostDeviceError(f"the GPU has failed ({in_one_line(error)})", fix=fix) from error


OnEpoch = Callable[[dict[str, Any]], object]
"""Gets what `results.csv` says of an epoch that is over, and returns True to stop the run."""
UNTIL_EPOCH, TIME_LIMIT = "until epoch", "time limit"
"""Why a run has paused, as `interrupted.json` says it."""
_SLOWER = 1.1
"""An epoch may take this much longer than the longest before."""


@dataclass
class Course:
    on_epoch: OnEpoch | None = None
    started: float = field(default_factory=time.monotonic)
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.paused = ""
        """Why the run has paused: one of the words above."""
        self._longest, self._epoch_began = 0.0, 0.0

    def epoch_begins(self) -> None:
        self._epoch_began = self.now()

    def epoch_ends(self) -> None:
        self._longest = max(self._longest, self.now() - self._epoch_began)

    def stops(self, row: Mapping[str, Any]) -> bool:
        """Whether the caller wants no further epoch."""
        ask = self.on_epoch
        if ask is None and world() == 1:
            return False
        return from_first_rank(lambda: ask is not None and ask(dict(row)) is True)

    def pauses(self, config: TrainConfig, epochs: int) -> bool:
        """Before the run's next epoch, if it is to have more than the `epochs` that it has."""
        if epochs >= config.epochs:
            return False
        if config.until_epoch is not None and epochs >= config.until_epoch:
            self.paused = UNTIL_EPOCH
        elif config.time_limit is not None and from_first_rank(lambda: self._is_short(config.seconds_allowed)):
            self.paused = TIME_LIMIT
        return bool(self.paused)

    def _is_short(self, allowed: float) -> bool:
        """Whether another epoch may take too long. The first one is always tried: nobody knows how long it takes."""
        return self._longest > 0 and self.now() - self.started + _SLOWER * self._longest > allowed

    def why(self, config: TrainConfig) -> str:
        if self.paused == UNTIL_EPOCH:
            return f"--until-epoch {config.until_epoch}"
        return f"--time-limit {config.time_limit}: another epoch may take too long"


def refuse_several_devices(config: TrainConfig, on_epoch: OnEpoch | None) -> None:
    if on_epoch is not None and len(config.devices) > 1:
        what = f"on_epoch is called in this process, but --device {config.device} starts one for each GPU"
        raise UserError(what, fix="train on one GPU, or start the program with torchrun")


def refuse_several_runs(config: TrainConfig) -> None:
    """It would change what is learnt: better no run than another."""
    if config.evolve:
        what = "--evolve: one run trains one network; hyper-parameters are searched by a sweep"
        fix = f"let the command make them, or give it an experiment: {own_command()} sweep FILE"
        raise UserError(what, fix=fix)
