"""Marks in a step change nothing that it computes, and are not there when nobody times it."""

import time
from itertools import pairwise

import pytest
import torch

from tests.model.small import SMALL
from tests.train.small_step import SquaredLevels, small_batch, small_step
from yolofast import build_loss, build_model
from yolofast.optim.optimizer import ModelEma
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.profile.step_phases import (
    ASSIGN,
    BACKWARD,
    DATA_WAIT,
    EMA,
    END,
    FORWARD,
    FUSED,
    GRAPH,
    LOSS,
    OPTIMIZER,
    REST,
)
from yolofast.structures import Batch, Targets
from yolofast.train.gears import gears
from yolofast.train.gears.compiling import compiled_loss_of
from yolofast.train.gears.gears import EagerGear, GraphGear, GraphPool
from yolofast.train.gears.probe import Probe, marked
from yolofast.train.losses.yolov7_criterion import QuadLoss
from yolofast.train.step import StepKind, TrainStep
from yolofast.train.timing import ChosenSteps, HostClock, HostMoment, NoSampler, PhaseSampler, durations

pytestmark = pytest.mark.usefixtures("one_thread")
ALONE, ADDED = StepKind(sums=False, updates=True), StepKind(sums=True, updates=False)
HYP = {"box": 0.05, "cls": 0.5, "obj": 1.0, "anchor_t": 4.0, "fl_gamma": 0.0, "loss_ota": 1}


def small_yolo(criterion_of=None) -> TrainStep:
    torch.manual_seed(0)
    model = build_model(SMALL).train()
    optimizer = Sgd([{"params": list(model.parameters()), "weight_decay": 0.0}])
    optimizer.set((0.01,), 0.9)
    criterion = build_loss(model, HYP, 64)
    criterion = criterion if criterion_of is None else criterion_of(criterion)
    return TrainStep(model, criterion, optimizer, ModelEma(model), Precision.choose("fp32", "cpu"))


def a_batch() -> Batch:
    rng = torch.Generator().manual_seed(1)
    boxes = torch.rand(2, 4, 4, generator=rng) * 0.4 + 0.2
    targets = Targets(boxes, torch.arange(8).view(2, 4) % 3, torch.ones(2, 4, dtype=torch.bool))
    return Batch(torch.rand(2, 3, 64, 64, generator=rng), targets, None)


def phases_of(step, batch, kind, loss_of=None):
    probe = Probe(step, HostClock().moment, in_graphs=False)
    step.probe = probe
    EagerGear(step, loss_of).run(batch, kind)
    step.probe = None
    return [phase for phase, _ in probe.take()]


@pytest.mark.parametrize("criterion_of", [None, QuadLoss])
def test_a_timed_step_moves_weights_to_the_same_bits(criterion_of):
    plain, timed = small_yolo(criterion_of), small_yolo(criterion_of)
    EagerGear(plain).run(a_batch(), ALONE)
    phases_of(timed, a_batch(), ALONE)
    assert all(torch.equal(a, b) for a, b in zip(plain.tensors(), timed.tensors(), strict=True))


def test_the_phases_come_in_order():
    inside = [FORWARD, LOSS, ASSIGN, LOSS, BACKWARD, REST]
    assert phases_of(small_yolo(), a_batch(), ALONE) == [*inside, OPTIMIZER, EMA, REST]
    assert phases_of(small_yolo(), a_batch(), ADDED) == inside


def test_a_loss_of_somebody_else_is_one_phase():
    assert phases_of(small_step(), small_batch(0), ADDED) == [FORWARD, LOSS, BACKWARD, REST]


@pytest.mark.slow
def test_each_head_of_a_1b4h_assigns():
    model = build_model("yolov7-tiny-1b4h").train()
    marks = []
    criterion = marked(build_loss(model, HYP, 64, "anchor"), marks.append)
    criterion(model(a_batch().images), a_batch().targets)
    assert marks == [ASSIGN, LOSS] * model.layout.heads


@pytest.mark.slow
def test_compiled_regions_are_marked_between_and_not_compiled_again():
    """Network and loss are a region each. `fullgraph` raises if a mark breaks a graph; a guard on the probe would
    compile once more."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    step = small_step(SquaredLevels())
    loss_of = compiled_loss_of(step, backend)
    for timed in (False, True, False):
        if timed:
            assert phases_of(step, small_batch(0), ADDED, loss_of) == [FORWARD, FUSED, BACKWARD, REST]
        else:
            EagerGear(step, loss_of).run(small_batch(0), ADDED)
    torch._dynamo.reset()
    assert len(compiled) == 2


class CannotBeLookedInto:
    """A graph, as far as a machine without a GPU has them: capturing one with marks fails."""

    def __init__(self, step, *more):
        if step.probe is not None:
            step.probe.mark(FORWARD)
            raise RuntimeError("out of memory")

    def replay(self, batch, probe):
        if probe is not None:
            probe.mark(GRAPH)
            probe.replayed(())


def test_a_graph_that_cannot_be_captured_with_marks_is_one_phase(monkeypatch):
    """The step in which that was tried is not counted, nor the first one, which is as written: they take longer."""
    monkeypatch.setattr(gears, "_Captured", CannotBeLookedInto)
    step = small_yolo()
    pool = GraphPool()
    pool._handle = 1
    gear, sampler = GraphGear(step, pool=pool), PhaseSampler(step, HostClock(), every=1, in_graphs=True)
    for iteration in range(4):
        sampler.begin(iteration, DATA_WAIT)
        gear.run(a_batch(), ALONE)
        sampler.end()
    assert not sampler.looks_into_graphs
    assert [(sample.iteration, set(sample.phases)) for sample in sampler.take()] == [
        (n, {DATA_WAIT, GRAPH}) for n in (2, 3)
    ]


def test_time_adds_up_and_sleep_is_distinguished_from_work():
    clock = HostClock(watch_sleep=True)
    marks = []
    for phase, seconds in ((FORWARD, 0.0), (LOSS, 0.1), (FORWARD, 0.0), (END, 0.0)):
        marks.append((phase, clock.moment()))
        time.sleep(seconds)
    phases, asleep = durations(marks, clock)
    assert set(phases) == {FORWARD, LOSS}
    assert sum(phases.values()) == pytest.approx((marks[-1][1].wall - marks[0][1].wall) * 1e3)
    assert phases[LOSS] >= 100
    assert asleep[LOSS] >= 50
    assert asleep[FORWARD] < 50


def test_a_core_taken_away_is_no_sleep():
    """Of five seconds the thread had one; what the machine beneath gave to others is in none of its counters."""
    first = HostMoment(wall=0.0, process=0.0, thread=0.0, sleeps=3)
    without = first._replace(wall=5.0, process=1.0, thread=1.0)
    assert HostClock().asleep(first, without) == 0.0
    assert HostClock().asleep(first, without._replace(sleeps=4)) == pytest.approx(4000)
    assert HostClock().asleep(first._replace(sleeps=None), without._replace(sleeps=None)) == pytest.approx(4000)


class LateClock:
    """A device that passes a mark only when told so; waiting for it would hang."""

    def __init__(self):
        self.made = self.past = 0

    def moment(self):
        self.made += 1
        return self.made

    def is_past(self, moment):
        return moment <= self.past

    def between(self, first, last):
        assert self.is_past(first) and self.is_past(last), "read before it was there"
        return float(last - first)

    def asleep(self, first, last):
        return 0.0


def sampled(sampler, iteration, work=lambda: None):
    sampler.begin(iteration, DATA_WAIT)
    sampler.mark(REST)
    work()
    sampler.end()


def test_samples_are_read_late_and_never_waited_for():
    clock = LateClock()
    sampler = PhaseSampler(small_step(), clock, every=1, in_graphs=False)
    for iteration in range(3):
        sampled(sampler, iteration)
    assert sampler.take() == []
    clock.past = 6  # two steps of three marks each
    assert [(s.iteration, s.phases) for s in sampler.take()] == [(n, {DATA_WAIT: 1.0, REST: 1.0}) for n in (0, 1)]
    clock.past = 9
    assert [s.iteration for s in sampler.take()] == [2]


def test_a_graph_is_not_timed_again_before_its_marks_were_read():
    clock, step = LateClock(), small_step()
    sampler = PhaseSampler(step, clock, every=1, in_graphs=True)
    inside = [(FORWARD, 2)]
    sampled(sampler, 0, lambda: step.probe.replayed(inside))
    sampled(sampler, 1, lambda: pytest.fail("timed") if step.probe is not None else None)
    clock.past = 99
    sampled(sampler, 2, lambda: step.probe.replayed(inside))
    clock.past = 999
    assert [sample.iteration for sample in sampler.take()] == [0, 2]


def test_a_step_that_captured_a_graph_is_no_sample():
    step = small_step()
    sampler = PhaseSampler(step, HostClock(), every=1, in_graphs=True)
    sampled(sampler, 0, lambda: step.probe.captured())
    sampled(sampler, 1)
    assert [sample.iteration for sample in sampler.take()] == [1]


def test_steps_in_between_are_not_touched():
    step = small_step()
    sampler = PhaseSampler(step, LateClock(), every=5, in_graphs=False)
    for iteration in range(1, 4):
        sampled(sampler, iteration, lambda: pytest.fail("timed") if step.probe is not None else None)
    assert sampler._clock.made == 0


@pytest.mark.parametrize("every", [2, 4, 7, 8, 10, 25, 50])
@pytest.mark.parametrize("period", [2, 3, 8, 24, 32, 49, 50])
def test_what_comes_every_so_many_steps_is_sampled_as_often_as_it_comes(every, period):
    """Weights that move, and epochs that begin."""
    steps = ChosenSteps(every)
    chosen = [n for n in range(200 * every * period) if steps.has(n)]
    assert len(chosen) == pytest.approx(200 * period, rel=0.05)
    for place in {0, period // 2, period - 1}:
        met = sum(n % period == place for n in chosen)
        assert met == pytest.approx(len(chosen) / period, rel=0.25)
    gaps = {later - earlier for earlier, later in pairwise(chosen)}
    assert len(gaps) > 1, "a regular choice of one in two would meet one half only"
    assert min(gaps) >= max(0.75 * every - 1, 2 if every > 2 else 1), "never two in a row, but where every is 2"


def test_every_step_can_be_sampled_and_a_resumed_run_continues():
    every, from_the_start, resumed = ChosenSteps(1), ChosenSteps(10), ChosenSteps(10)
    assert all(every.has(n) for n in range(100))
    assert [n for n in range(900) if from_the_start.has(n)][-40:] == [n for n in range(400, 900) if resumed.has(n)][
        -40:
    ]


def test_no_sampler_does_nothing():
    sampler = NoSampler()
    sampled(sampler, 0)
    sampler.end_epoch(0)
    assert sampler.take() == []


class Graph:
    """As far as a machine without a GPU has them: it marks its replays if it was captured with marks."""

    def __init__(self, step, *more):
        self._has_marks = step.probe is not None

    def replay(self, batch, probe):
        if probe is not None:
            probe.mark(FORWARD if self._has_marks else GRAPH)


def test_steps_that_are_not_looked_into_are_timed_around_on_request(monkeypatch):
    monkeypatch.setattr(gears, "_Captured", Graph)
    step, pool = small_yolo(), GraphPool()
    pool._handle = 1
    gear = GraphGear(step, pool=pool)
    for around, expected in ((False, ({FORWARD},)), (True, ({FORWARD}, {GRAPH}))):
        sampler = PhaseSampler(step, HostClock(), every=4, in_graphs=True, around_others=around)
        for iteration in range(36):
            sampler.begin(iteration, DATA_WAIT)
            gear.run(a_batch(), ALONE)
            sampler.end()
        samples = sampler.take()
        kinds = {frozenset(sample.phases) - {DATA_WAIT} for sample in samples}
        assert kinds == set(map(frozenset, expected))
        assert sum(FORWARD in sample.phases for sample in samples) >= 7
        assert len(samples) >= 33 if around else len(samples) <= 9
