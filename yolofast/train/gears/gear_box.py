"""Which gear a step runs in: the one asked for as soon as it is there, the next lower one until then or if it fails.

Capturing takes a few steps' time, compiling minutes. Where the project's own kernels compute the step (`fused/`), the
captured step is the fastest there is: nothing is compiled unless it is asked for. Few graphs do: a batch with fewer
boxes than one was captured for runs in that, unless such batches come often. Other steps start in the gear that needs
no compiling, while another process compiles (`compile_ahead.py`). They shift up when that is done, if what is left of
the run makes it worth while. The profiler has no training to continue meanwhile: for it the box settles at once.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch

from yolofast.config.common import Gear as GearSetting
from yolofast.errors import in_one_line
from yolofast.precision import NEW_KERNELS, device_is_lost
from yolofast.ranks import reduces
from yolofast.structures import Batch
from yolofast.train.gears.compile_ahead import CompileAhead
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gears import (
    EagerGear,
    Gear,
    GearName,
    GraphGear,
    GraphPool,
    Pace,
    padding_slots_of,
    smallest_that_holds,
    tried_only,
    with_padding_slots,
)
from yolofast.train.gears.kernels_together import compile_kernels_together
from yolofast.train.gears.ranks_gear import RanksGear
from yolofast.train.step import StepKind, TrainStep

WORTH_COMPILING = 300.0
"""Seconds still to come below which compiling does not pay: it takes minutes, and then kernels have to be loaded."""
_WORTH_TUNING = 20_000
"""Steps to come from which on convolutions are tuned for every one of many shapes, which takes seconds each."""
_WORTH_CAPTURING = 3
"""How often a short batch of one size has to come before it gets a graph, which takes memory and a few steps' time."""
_WORTH_FEWER_SLOTS = 200
"""How often batches have to come with a number of padding slots before they get a graph of their own, where there is
one with more: its steps take a little longer, to capture another takes as long as some dozen steps."""
_WORTH_MORE_SLOTS = 30
"""How often batches have to hold more boxes than was compiled for before it is compiled for those, too."""
_ALONE = StepKind(sums=False, updates=True)
_TIMED_STEPS = 5


@dataclass(frozen=True)
class _Sort:
    """What has to be the same for a step to run in the gear that was compiled."""

    images: torch.Size
    criterion: int
    version: int
    """Which layers learn."""


class GearBox:
    """`run` makes a step. Batches of another size than `images`, such as an epoch's last, are never compiled."""

    def __init__(
        self, step: TrainStep, name: GearName, images: int, steps: int, say: Callable[[str], None],
        *, one_shape: bool = True, worth_compiling: float = 0.0,
    ) -> None:  # fmt: skip
        """`steps` are still to come; if they take less than `worth_compiling` seconds nothing is compiled, nor without
        `one_shape`, that is when batches differ in their shapes."""
        self.step, self.name, self._images, self._left, self._say = step, name, images, steps, say
        self._worth, self._compiles, self._one_shape = worth_compiling, name != "eager" and one_shape, one_shape
        self._tunes = one_shape or steps >= _WORTH_TUNING
        self._eager = EagerGear(step, worth_tuning=self._worth_tuning)
        self._pool = GraphPool()
        self._plain: Gear = self._uncompiled()
        self._short_batches: Counter[torch.Size] = Counter()
        self._slots: Counter[int] = Counter()
        self._fast: Gear | None = None
        self._fast_for: _Sort | None = None
        self._fast_slots: tuple[int, ...] | None = ()
        self._ahead: CompileAhead | None = None
        self._ahead_for: _Sort | None = None
        self._ahead_slots: tuple[int, ...] = ()
        self._pace = Pace(step.precision.device)
        self._ranks: RanksGear | None = None
        if name == "graph" and reduces():
            self._ranks = RanksGear(step, images, say, self._worth_tuning)
            self.compile_nothing()
        self.now = "eager" if self._plain is self._eager else "graph"
        """The gear in which the last batch of the usual size ran."""
        self.graph_failed, self.compile_failed = "", ""
        """Why, if it was tried at once."""

    @property
    def captured(self) -> bool:
        """Whether batches of the usual size are replayed as graphs."""
        return isinstance(self._fast or self._plain, GraphGear)

    @property
    def compiled(self) -> bool:
        return self._fast is not None

    @property
    def prepared(self) -> int:
        """Rises with every step that the present gear captured, or made as written to capture it later."""
        gear = self._fast or self._plain
        return gear.prepared if isinstance(gear, GraphGear) else 0

    def run(self, batch: Batch, kind: StepKind) -> None:
        self._left -= 1
        self._run(batch, kind)
        self._pace.step_queued()

    def _run(self, batch: Batch, kind: StepKind) -> None:
        if self._ranks is not None:
            self._ranks.run(batch, kind)
            self.now = self._ranks.now
            return
        if len(batch.images) != self._images:
            self._run_short(batch, kind)
            return
        if self.name == "graph" and not self._slots:
            compile_kernels_together(self.step, batch.images, tuned=self._worth_tuning(batch))
        self._slots[padding_slots_of(batch)] += 1
        if self._compiles:
            self._look_after_compiling(batch)
        if not self._run_compiled(batch, kind):
            self._run_captured(batch, kind)
            self.now = "eager" if self._plain is self._eager else "graph"

    def settle(self, batch: Batch) -> None:
        """In the gear the run would get to, or the next lower one if it fails; compiled here and now, and again for
        every number of slots that comes. `batch` is one of the run's own, on the device; nothing is learnt from it."""
        compiles, self._compiles = self._compiles, False
        if self._plain is not self._eager:
            self.graph_failed = self._failure(self._plain, batch)
            self._plain = self._eager if self.graph_failed else self._plain
        if not compiles or (self._worth and self._left * self._measured_seconds(batch) < self._worth):
            return
        self._say("compiling, which may take minutes (--gear eager does without)")
        fast = self._compiled()
        self.compile_failed = self._failure(fast, batch)
        if not self.compile_failed:
            self._plain = self._eager if self.graph_failed else self._uncompiled()
            self._fast, self._fast_for, self._fast_slots = fast, self._sort_of(batch), None

    def twin(self, *, captured: bool) -> "GearBox":
        """The same steps, not compiled; captured only if asked for."""
        name: GearName = "graph" if captured else "eager"
        box = GearBox(self.step, name, self._images, self._left, self._say, one_shape=self._one_shape)
        box.compile_nothing()
        return box

    def compile_nothing(self) -> None:
        self._compiles = False

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._ranks is not None:
            self._ranks.close()

    def _run_compiled(self, batch: Batch, kind: StepKind) -> bool:
        slots: int | None = padding_slots_of(batch)
        if self._fast_slots is not None:
            slots = smallest_that_holds(padding_slots_of(batch), self._fast_slots)
        if self._fast is None or slots is None or self._fast_for != self._sort_of(batch):
            return False
        try:
            self._fast.run(with_padding_slots(batch, slots), kind)
        except Exception as error:  # noqa: BLE001 - whatever it is: if not the gear's fault, the lower one says so
            self._give_up(error)
            self._fast = None
            return False
        self.now = "graph, compiled" if self.name == "graph" else "compiled"
        return True

    def _run_short(self, batch: Batch, kind: StepKind) -> None:
        self._short_batches[batch.images.shape] += 1
        if self._short_batches[batch.images.shape] <= _WORTH_CAPTURING:
            self._eager.run(batch, kind)
        else:
            self._run_captured(batch, kind)

    def _run_captured(self, batch: Batch, kind: StepKind) -> None:
        if self._plain is not self._eager:
            try:
                self._plain.run(self._as_captured(batch, kind), kind)
            except Exception as error:  # noqa: BLE001 - as above
                self._give_up(error)
                self._plain = self._eager
            else:
                return
        self._eager.run(batch, kind)

    def _as_captured(self, batch: Batch, kind: StepKind) -> Batch:
        """With as many padding slots as a graph has that is there, or will be: with those of the fullest batch so far.

        Where sizes of images differ, all of them have that many.
        """
        own, most = padding_slots_of(batch), max(self._slots, default=0)
        there = self._plain.slots_captured(batch, kind) if isinstance(self._plain, GraphGear) else []
        often = len(batch.images) == self._images and self._slots[own] > _WORTH_FEWER_SLOTS
        if self._one_shape and (often or own in there):
            return batch
        return with_padding_slots(batch, (smallest_that_holds(own, there) if self._one_shape else most) or most)

    def _give_up(self, error: Exception) -> None:
        """A GPU that is lost has no lower gear."""
        if device_is_lost(error):
            raise error
        self._say(f"gear: {in_one_line(error)}; continues in a lower gear")
        self._compiles = False
        self.close()

    def _uncompiled(self) -> Gear:
        return GraphGear(self.step, None, self._pool, self._worth_tuning) if self.name == "graph" else self._eager

    def _compiled(self) -> Gear:
        loss_of = compiled_loss_of(self.step)
        return GraphGear(self.step, loss_of, self._pool) if self.name == "graph" else EagerGear(self.step, loss_of)

    def _failure(self, gear: Gear, batch: Batch) -> str:
        """Empty if it works."""
        try:
            with tried_only(self.step):
                for _ in range(2):  # as written, then captured
                    gear.run(batch, _ALONE)
        except Exception as error:
            if device_is_lost(error):
                raise
            self._say(f"gear: {in_one_line(error)}; a lower gear is profiled, as it would be trained in")
            return in_one_line(error)
        return ""

    def _measured_seconds(self, batch: Batch) -> float:
        """Of a step without compiling, on its GPU, data aside."""
        device = self.step.precision.device
        with tried_only(self.step):
            self._plain.run(batch, _ALONE)
            torch.cuda.synchronize(device)
            begun = time.perf_counter()
            for _ in range(_TIMED_STEPS):
                self._plain.run(batch, _ALONE)
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begun) / _TIMED_STEPS

    def _worth_tuning(self, batch: Batch) -> bool:
        return self._tunes and len(batch.images) == self._images

    def _sort_of(self, batch: Batch) -> _Sort:
        return _Sort(batch.images.shape, id(self.step.criterion), self.step.version)

    def _look_after_compiling(self, batch: Batch) -> None:
        if self._pace.step_seconds is None:
            return  # what comes, and how fast, is not known yet
        if self._ahead_for != self._sort_of(batch):
            self._begin_compiling(batch)
        elif self._ahead is not None:
            if self._ahead.finished:
                self._shift_up(self._ahead)
        else:
            most = max(self._ahead_slots)
            if sum(count for slots, count in self._slots.items() if slots > most) > _WORTH_MORE_SLOTS:
                self._begin_compiling(batch)

    def _usual_slots(self) -> tuple[int, ...]:
        """Batches with numbers that come seldom get more slots; the most there were stay."""
        most, seldom = max(self._slots), self._slots.total() / 10
        return tuple(sorted(slots for slots, count in self._slots.items() if slots == most or count > seldom))

    def _begin_compiling(self, batch: Batch) -> None:
        self.close()
        self._ahead_for, self._ahead_slots = self._sort_of(batch), self._usual_slots()
        if self._fast_for != self._ahead_for:
            self._fast = None
        if self._seconds_left < self._worth:
            self._say(f"gear: {self._lower_name}; {self._seconds_left:.0f} s are too few for compiling to pay")
            return
        where = f"{self.name}, and {self._lower_name} for fuller batches" if self._fast else self._lower_name
        self._say(f"gear: {where} while kernels compile")
        self._ahead = CompileAhead(self.step, batch.images, self._ahead_slots)

    def _shift_up(self, ahead: CompileAhead) -> None:
        failure, seconds = ahead.failure, ahead.seconds
        self.close()
        if failure is not None:
            self._say(f"gear: stays {self._lower_name}, compiling failed: {failure}")
        elif self._seconds_left < self._worth / 4:
            self._say(f"gear: stays {self._lower_name}, kernels are compiled but the run is nearly over")
        else:
            self._say(f"gear: {self.name}, kernels compiled in {seconds:.0f} s")
            self._plain = self._uncompiled()  # lets go of the memory of what was captured
            self._fast = self._fast or self._compiled()
            self._fast_for, self._fast_slots = self._ahead_for, self._ahead_slots

    @property
    def _seconds_left(self) -> float:
        return self._left * (self._pace.step_seconds or 0.0)

    @property
    def _lower_name(self) -> str:
        return "graph of the step as written" if self.name == "graph" else "eager"


def choose_gear(
    requested: str, step: TrainStep, images: int, steps: int, say: Callable[[str], None],
    *, one_shape: bool = True, at_once: Batch | None = None,
) -> GearBox:  # fmt: skip
    """The gear asked for; `auto` takes the fastest there is: graphs on a GPU, the step as written on the CPU.

    With a batch to try it with, the box settles `at_once`.
    """
    on_gpu = step.precision.device.type == "cuda"
    name: GearName = ("graph" if on_gpu else "eager") if requested == "auto" else requested  # type: ignore[assignment]
    if name == "graph" and not on_gpu:
        say("gear: eager (graphs need a GPU)")
        name = "eager"
    elif name == "eager" and at_once is None:
        say("gear: eager")
    worth = WORTH_COMPILING if requested == "auto" else 0.0
    box = GearBox(step, name, images, steps, say, one_shape=one_shape, worth_compiling=worth)
    if requested == "auto" and step.uses_kernels and getattr(step.criterion, "has_kernels", False):
        box.compile_nothing()
    if at_once is not None:
        box.settle(at_once)
    return box


def gear_of_ranks(gear: GearSetting, device: torch.device, say: Callable[[str], None], *, sync_bn: bool) -> GearSetting:
    """Of several ranks a captured step on GPUs, which `auto` takes with `NEW_KERNELS`; else the step as written."""
    if not reduces() or gear == "eager":
        return gear
    if device.type != "cuda" or (gear == "auto" and not NEW_KERNELS):
        if gear != "auto":
            say(f"gear: eager instead of {gear}, which several processes run on GPUs only")
        return "eager"
    if sync_bn:
        say("gear: eager, because BatchNorm over all GPUs (--sync-bn) cannot be captured")
        return "eager"
    if gear == "compile":
        say("gear: graph of the step as written instead of compile, which runs on one GPU only")
    return "graph"
