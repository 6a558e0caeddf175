"""Which gear a step runs in: the one asked for as soon as it is there, the next lower one until then or if it fails.

Capturing takes a second, compiling minutes. So a run starts in the gear that needs no compiling, while another process
compiles (`compile_ahead.py`), and shifts up when that is done, if what is left of the run makes it worth while.
"""

from collections import Counter
from collections.abc import Callable

import torch

from yolofast.engine.compile_ahead import CompileAhead
from yolofast.engine.compiling import compiled_loss_of
from yolofast.engine.gears import EagerGear, Gear, GearName, GraphGear, GraphPool
from yolofast.engine.pace import Pace, StepClock
from yolofast.engine.step import StepKind, TrainStep
from yolofast.structures import Batch

WORTH_COMPILING = 300.0
"""Seconds still to come below which compiling does not pay: it takes minutes, and then kernels have to be loaded."""
_WORTH_TUNING = 20_000
"""Steps to come from which on convolutions are tuned for every one of many shapes, which takes seconds each."""
_WORTH_CAPTURING = 3
"""How often a short batch of one size has to come before it gets a graph: to capture it, it is run several times."""


class GearBox:
    """`run` makes a step. Batches of another size than `images`, such as an epoch's last, are never compiled."""

    def __init__(
        self, step: TrainStep, name: GearName, images: int, steps: int, say: Callable[[str], None],
        *, one_shape: bool = True, worth_compiling: float = 0.0,
    ) -> None:  # fmt: skip
        """`steps` are still to come; if they take less than `worth_compiling` seconds nothing is compiled, nor without
        `one_shape`, that is when batches differ in their shapes."""
        self.step, self.name, self._images, self._left, self._say = step, name, images, steps, say
        self._worth, self._compiles = worth_compiling, name != "eager" and one_shape
        self._tunes = one_shape or steps >= _WORTH_TUNING
        self._eager = EagerGear(step, worth_tuning=self._worth_tuning)
        self._pool = GraphPool()
        self._plain: Gear = self._uncompiled()
        self._short_batches: Counter[torch.Size] = Counter()
        self._fast: Gear | None = None
        self._fast_for: tuple[object, ...] = ()
        self._ahead: CompileAhead | None = None
        self._pace, self._clock = Pace(step.precision.device), StepClock()

    def run(self, batch: Batch, kind: StepKind) -> None:
        self._left -= 1
        self._run(batch, kind)
        self._pace.step_queued()
        self._clock.step_over()

    def _run(self, batch: Batch, kind: StepKind) -> None:
        if len(batch.images) != self._images:
            self._run_short(batch, kind)
            return
        if self._compiles:
            self._look_after_compiling(batch)
        if self._fast is not None and self._fast_for == self._sort_of(batch):
            try:
                self._fast.run(batch, kind)
            except Exception as error:  # noqa: BLE001 - whatever it is: if not the gear's fault, the lower one says so
                self._give_up(error)
                self._fast = None
            else:
                return
        self._run_uncompiled(batch, kind)

    @property
    def now(self) -> str:
        """The gear that batches of the usual size run in."""
        if self._fast is not None:
            return "graph, compiled" if self.name == "graph" else "compiled"
        return "eager" if self._plain is self._eager else "graph"

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _run_short(self, batch: Batch, kind: StepKind) -> None:
        self._short_batches[batch.images.shape] += 1
        if self._short_batches[batch.images.shape] <= _WORTH_CAPTURING:
            self._eager.run(batch, kind)
        else:
            self._run_uncompiled(batch, kind)

    def _run_uncompiled(self, batch: Batch, kind: StepKind) -> None:
        if self._plain is not self._eager:
            try:
                self._plain.run(batch, kind)
            except Exception as error:  # noqa: BLE001 - as above
                self._give_up(error)
                self._plain = self._eager
            else:
                return
        self._eager.run(batch, kind)

    def _give_up(self, error: Exception) -> None:
        self._say(f"gear: {type(error).__name__}: {_first_line(error)}; going on in a lower gear")
        self._compiles = False
        self.close()

    def _uncompiled(self) -> Gear:
        return GraphGear(self.step, None, self._pool, self._worth_tuning) if self.name == "graph" else self._eager

    def _worth_tuning(self, batch: Batch) -> bool:
        return self._tunes and len(batch.images) == self._images

    def _sort_of(self, batch: Batch) -> tuple[object, ...]:
        return batch.images.shape, batch.targets.valid.shape, self._sort_of_step

    @property
    def _sort_of_step(self) -> tuple[int, int]:
        """What makes compiling necessary again: another loss, other layers that learn."""
        return id(self.step.criterion), self.step.version

    def _look_after_compiling(self, batch: Batch) -> None:
        if not self._fast_for or self._fast_for[-1] != self._sort_of_step:
            if not self._worth or self._clock.seconds is not None:
                self._begin_compiling(batch)
        elif self._ahead is not None and self._ahead.finished:
            self._shift_up(self._ahead)

    def _begin_compiling(self, batch: Batch) -> None:
        self.close()
        self._fast, self._fast_for = None, self._sort_of(batch)
        if self._seconds_left < self._worth:
            self._say(f"gear: {self._lower_name}; {self._seconds_left:.0f} s are too few for compiling to pay")
            return
        self._say(f"gear: {self._lower_name} while kernels compile")
        self._ahead = CompileAhead(self.step, batch)

    def _shift_up(self, ahead: CompileAhead) -> None:
        failure, seconds = ahead.failure, ahead.seconds
        self.close()
        if failure is not None:
            self._say(f"gear: stays {self._lower_name}, compiling failed: {failure}")
        elif self._seconds_left < self._worth / 4:
            self._say(f"gear: stays {self._lower_name}, kernels are compiled but the run is nearly over")
        else:
            self._say(f"gear: {self.name}, kernels compiled in {seconds:.0f} s")
            loss_of = compiled_loss_of(self.step)
            self._plain = self._uncompiled()  # lets go of the memory of what was captured
            self._fast = (
                GraphGear(self.step, loss_of, self._pool) if self.name == "graph" else EagerGear(self.step, loss_of)
            )

    @property
    def _seconds_left(self) -> float:
        return self._left * (self._clock.seconds or 0.0)

    @property
    def _lower_name(self) -> str:
        return "graph of the step as written" if self.name == "graph" else "eager"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def choose_gear(
    asked: str, step: TrainStep, images: int, steps: int, say: Callable[[str], None], *, one_shape: bool = True
) -> GearBox:
    """The gear asked for; `auto` takes the fastest there is: graphs on a GPU, the step as written on the CPU."""
    on_gpu = step.precision.device.type == "cuda"
    name: GearName = ("graph" if on_gpu else "eager") if asked == "auto" else asked  # type: ignore[assignment]
    if name == "graph" and not on_gpu:
        say("gear: eager (graphs need a GPU)")
        name = "eager"
    elif name == "eager":
        say("gear: eager")
    worth = WORTH_COMPILING if asked == "auto" else 0.0
    return GearBox(step, name, images, steps, say, one_shape=one_shape, worth_compiling=worth)
