"""Measures a prepared run: its phases, its use of the machine, and how far that is from the ceilings.

Two runs are measured in turn, a few steps each, so that drift affects both alike.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from yolofast.files.threads import usable_cores
from yolofast.loader.workers import WorkerLoader
from yolofast.profile.measure.ceilings import count_work, measure_ceilings
from yolofast.profile.measure.measured_loop import Sizes, StepLoop, mean_pixels, split_by_twin
from yolofast.profile.measure.subject import described, has_workers, making_ms, sent_bytes
from yolofast.profile.measure.trace import write_trace
from yolofast.profile.measure.usage import Busy, CpuSeconds, count_waits, cpu_seconds, gpu_busy
from yolofast.profile.records import PhaseFigures, Profile, TimeSpread, Usage, Waits
from yolofast.profile.step_phases import AUGMENT, GRAPH
from yolofast.profile.step_statistics import ProfileComparison, compare, parallel_phase, phase_figures, spread
from yolofast.train.data import workers_of
from yolofast.train.gears.compiling import compile_report
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.loop import gear_of
from yolofast.train.run import Run
from yolofast.train.timing import NoSampler, PhaseSampler, StepSample, can_time_graphs, clock_for
from yolofast.words import counted

Say = Callable[[str], None]
_EVERY_IN_GRAPHS = 4
"""A graph's marks are read before it is replayed again; the host is up to three steps ahead."""
_CAPTURING_STEPS, _MOST_TURNS = 4 * _EVERY_IN_GRAPHS, 8
_BUSY_STEPS = 20
_LOOKED_AT_STEPS = 4
_LEAD_IN, _LEAD_IN_ON_GPU = 2, 4
"""Steps that are not measured before others are: on a GPU the host gets ahead of it, as it is in training."""
_SHORT_BATCH = _CROWDED_BATCH = 1
"""Batches of an epoch that are omitted: its last one, and by graphs and compiled steps those with seldom many boxes.
Two of those are hardly ever as near to one another as the steps of a block."""
STEPS_PER_BLOCK, LEAST_BLOCKS = 5, 2


@dataclass(frozen=True, kw_only=True)
class MeasureRequest:
    """How much is measured."""

    steps: int = 50
    warm_up: int = 10
    epoch: int | None = None
    """From 0; None: the middle one."""
    trace: Path | None = None
    with_compile_report: bool = False


@dataclass(frozen=True)
class MeasuredBlock:
    """Some steps in a row."""

    steps: int
    ms: float
    """By the device's clock."""
    seconds: float
    """In which the host queued them, which is ahead by as much in the end as in the beginning."""
    cpu: CpuSeconds
    sizes: Sizes
    began: float
    """Seconds since 1970."""


class Meter:
    """`warm_up`, then blocks of steps, then `profile`."""

    def __init__(self, run: Run, say: Say, epoch: int | None = None) -> None:
        self.run, self._say = run, say
        self._loop = StepLoop(run, run.config.epochs // 2 if epoch is None else epoch)
        self._batch = self._loop.first_batch()
        self._device = run.step.precision.device
        self._on_gpu = self._device.type == "cuda"
        self._in_graphs = can_time_graphs(self._device)
        steps = run.config.epochs * len(run.batches)
        self._gear = gear_of(run, steps, say, at_once=self._batch)
        self._sampler = self._sampler_for(self._gear)
        self._blocks: list[MeasuredBlock] = []
        self._samples: list[StepSample] = []
        self._sizes = Sizes()
        self._captured_within = False

    def warm_up(self, steps: int) -> None:
        """Also captures what will be replayed, with marks and without, for each number of boxes that comes often."""
        self._loop.steps(steps, self._gear, self._sampler)
        if self._gear.captured or self._gear.compiled:
            self._loop.keep_to_usual_slots()
        for _ in range(_MOST_TURNS if self._gear.captured else 0):
            before = self._gear.prepared
            self._loop.steps(_CAPTURING_STEPS, self._gear, self._sampler)
            if self._gear.prepared == before:
                break
        self._loop.wait()
        self._sampler.take()
        if self._on_gpu:  # what compiling and trying took is not the run's
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self._device)

    def block(self, steps: int, *, in_turn: bool = False) -> float:
        """Milliseconds per step; `in_turn` with others, whose steps came before. Measured again if a graph had to be
        captured meanwhile, for a number of boxes that the warm-up did not have."""
        for _ in range(_MOST_TURNS):
            before = self._gear.prepared
            self._lead_in(steps, in_turn=in_turn)
            block = self._measured(steps)
            samples = self._sampler.take()
            if self._gear.prepared == before:
                break
        else:
            self._captured_within = True
        self._sizes.update(block.sizes)
        self._blocks.append(block)
        self._samples.extend(samples)
        return block.ms / steps

    def _lead_in(self, steps: int, *, in_turn: bool) -> None:
        """The host gets ahead of the GPU. In turn with others, what was prepared meanwhile is used up, too, and the
        steps that follow are in one epoch, if that can hold them: its first batch takes longer."""
        count = _LEAD_IN_ON_GPU if self._on_gpu else 0
        if in_turn:
            count = max(self.run.batches.ahead if isinstance(self.run.batches, WorkerLoader) else 0, count, _LEAD_IN)
            left_out = _SHORT_BATCH + (_CROWDED_BATCH if self._gear.captured or self._gear.compiled else 0)
            self._loop.make_room(count + steps + left_out)
        self._steps(count)

    def _measured(self, steps: int) -> MeasuredBlock:
        self._loop.take_sizes()
        clock = clock_for(self._device)
        began = time.time()
        before, begun, first = cpu_seconds(self.run), time.perf_counter(), clock.moment()
        self._loop.steps(steps, self._gear, self._sampler)
        last, seconds = clock.moment(), time.perf_counter() - begun
        cpu = cpu_seconds(self.run) - before
        self._loop.wait()
        return MeasuredBlock(steps, clock.between(first, last), seconds, cpu, self._loop.take_sizes(), began)

    def profile(self, request: MeasureRequest) -> Profile:
        """Of the blocks so far; the rest of it is measured now."""
        samples, self._in_graphs = self._samples, self._sampler.looks_into_graphs
        steps = sum(block.steps for block in self._blocks)
        totals = spread([sum(sample.phases.values()) for sample in samples] or [0.0])
        step = TimeSpread(sum(block.ms for block in self._blocks) / steps, totals.std, steps)
        memory = torch.cuda.max_memory_reserved(self._device) / 2**30 if self._on_gpu else None
        # Steps whose phases are known, and those of which only is known what happened around their graph.
        inside = [one for one in samples if GRAPH not in one.phases] if self._in_graphs else []
        inside, around = (inside, [one for one in samples if GRAPH in one.phases]) if inside else (samples, [])
        phases = phase_figures(
            [one.phases for one in inside], [one.asleep for one in inside], [one.phases for one in around]
        )
        split = split_by_twin(self._gear, self._loop, self._sampler_for, in_graphs=self._in_graphs)
        busy = gpu_busy(self._steps, _BUSY_STEPS, step.mean, self._device) if self._on_gpu else Busy(None, "")
        if request.trace is not None:
            write_trace(self._few_steps, self.run.step, request.trace)
        sent = sent_bytes(self.run, self._batch, self._sizes)
        with_report = request.with_compile_report or self._gear.compiled
        return Profile(
            setup=described(self.run, self._sizes, self._gear, self._loop.epoch),
            steps=steps,
            step=step,
            phases=phases + self._parallel_phases(samples, step.mean, steps),
            measured_by=self._measured_by(len(samples), len(inside), looked_into=bool(around)),
            usage=self._usage(busy, memory),
            split=split.parts,
            split_of=split.of,
            split_by=split.by,
            work=count_work(self.run.step, self._batch, sent, mean_pixels(self._sizes.used)),
            ceilings=measure_ceilings(self.run.step.precision),
            waits=self._waits() if self._on_gpu else None,
            batch_ms=making_ms(self.run, self._loop.epoch),
            compile_report=compile_report(self.run.step, self._batch) if with_report else "",
            measured_from=self._blocks[0].began,
            measured_until=self._blocks[-1].began + self._blocks[-1].ms / 1000,
        )

    def _sampler_for(self, gear: GearBox) -> PhaseSampler:
        every, clock = _EVERY_IN_GRAPHS if gear.captured else 1, clock_for(self._device, watch_sleep=True)
        return PhaseSampler(
            self.run.step, clock, every=every, in_graphs=self._in_graphs, batches=self.run.batches, around_others=True
        )

    def _steps(self, count: int) -> None:
        self._loop.steps(count, self._gear, NoSampler())

    def _waits(self) -> Waits:
        sampler = PhaseSampler(self.run.step, clock_for(self._device), every=1, in_graphs=False)
        return count_waits(lambda: self._few_steps(sampler), lambda: sampler.phase)

    def _few_steps(self, sampler: PhaseSampler) -> int:
        return self._loop.steps_with_an_update(_LOOKED_AT_STEPS, self._gear, sampler)

    def _parallel_phases(self, samples: list[StepSample], step_ms: float, steps: int) -> tuple[PhaseFigures, ...]:
        names = sorted({name for sample in samples for name in sample.side_stream})
        where = "on the GPU's side stream"
        found = [
            parallel_phase(name, [one.side_stream.get(name, 0.0) for one in samples], step_ms, where) for name in names
        ]
        if has_workers(self.run):
            made = sum(block.cpu.workers for block in self._blocks) / steps * 1e3
            whose = f"processor time of {counted(workers_of(self.run.config), 'worker')}"
            found.append(parallel_phase(AUGMENT, [made], step_ms, whose))
        return tuple(found)

    def _measured_by(self, samples: int, inside: int, *, looked_into: bool) -> str:
        if not self._on_gpu:
            return f"wall clock, {counted(samples, 'step')}"
        more = "; graphs were captured meanwhile: give a longer --warm-up" if self._captured_within else ""
        if looked_into:
            return f"CUDA events inside the graph, {inside} of the steps{more}"
        where = "CUDA events around the graph" if self._gear.captured else "CUDA events"
        return f"{where}, {counted(samples, 'step')}{more}"

    def _usage(self, busy: Busy, memory: float | None) -> Usage:
        seconds = sum(block.seconds for block in self._blocks)
        main = sum(block.cpu.main for block in self._blocks)
        workers = sum(block.cpu.workers for block in self._blocks)
        # Who may use only some of the cores does not know who is busy on those.
        machine = sum(block.cpu.machine for block in self._blocks) if usable_cores() == os.cpu_count() else 0.0
        total = torch.cuda.get_device_properties(self._device).total_memory / 2**30 if self._on_gpu else None
        return Usage(
            main_cpu=100 * main / seconds,
            worker_cpu=100 * workers / seconds if has_workers(self.run) else None,
            others_cpu=max(100 * (machine - main - workers) / seconds, 0.0),
            gpu_busy=busy.share,
            gpu_busy_by=busy.by,
            gpu_memory_gib=memory,
            gpu_memory_total_gib=total,
        )


def profile_run(run: Run, request: MeasureRequest, say: Say) -> Profile:
    meter = Meter(run, say, request.epoch)
    meter.warm_up(request.warm_up)
    meter.block(request.steps)
    return meter.profile(request)


class Against(NamedTuple):
    first: Profile
    second: Profile
    comparison: ProfileComparison


def profile_against(
    first: Run, second: Run, request: MeasureRequest, say: Say, steps_per_block: int = STEPS_PER_BLOCK
) -> Against:
    """`request.steps` of each, in whole blocks, `LEAST_BLOCKS` at least; a trace is that of the first."""
    meters = Meter(first, say, request.epoch), Meter(second, say, request.epoch)
    for meter in meters:
        meter.warm_up(request.warm_up)
    times: tuple[list[float], list[float]] = [], []
    for pair in range(max(request.steps // steps_per_block, LEAST_BLOCKS)):
        for turn in (0, 1) if pair % 2 == 0 else (1, 0):  # who comes first is in turn, too
            per_step = meters[turn].block(steps_per_block, in_turn=True)
            times[turn].append(per_step / meters[turn].run.source_images_per_step)
    return Against(meters[0].profile(request), meters[1].profile(replace(request, trace=None)), compare(*times))
