"""What only a GPU shows of the profiler: events inside graphs, no waiting, its cost, waits and busy time."""

import time
from dataclasses import replace

import pytest
import torch

from tests.gpu.test_gears import ALONE, batch, make_step
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.profile.bottlenecks import verdicts
from yolofast.profile.measure.ceilings import measure_ceilings
from yolofast.profile.measure.meter import MeasureRequest, profile_against, profile_run
from yolofast.profile.measure.usage import count_waits, gpu_busy
from yolofast.profile.records import LOSSES, WAIT
from yolofast.profile.step_phases import ASSIGN, BACKWARD, DATA_WAIT, EMA, FORWARD, LOSS, OPTIMIZER, REST
from yolofast.train.gears.gears import EagerGear, GraphGear, Pace
from yolofast.train.run import prepare_run
from yolofast.train.timing import DeviceClock, NoSampler, PhaseSampler, can_time_graphs, clock_for

INSIDE = {FORWARD, ASSIGN, LOSS, BACKWARD, OPTIMIZER, EMA}
DEVICE = torch.device("cuda")


def sampler_of(step, every, in_graphs=True):
    return PhaseSampler(step, clock_for(DEVICE), every=every, in_graphs=in_graphs)


def steps(gear, sampler, count, first=0, made=None):
    """As the training loop makes them, on one batch."""
    made, pace = made or batch(0), Pace(DEVICE)
    for iteration in range(first, first + count):
        sampler.begin(iteration, DATA_WAIT)
        sampler.mark(REST)
        gear.run(made, ALONE)
        pace.step_queued()
        sampler.end()


def test_events_inside_graphs_can_be_read_here():
    assert can_time_graphs(DEVICE)


def test_the_phases_of_a_graph_add_up_to_its_time():
    step = make_step("bf16")
    gear, sampler = GraphGear(step), sampler_of(step, 4)
    steps(gear, sampler, 16)
    torch.cuda.synchronize()
    sampler.take()
    begun = time.perf_counter()
    steps(gear, sampler, 80, first=16)
    torch.cuda.synchronize()
    per_step = (time.perf_counter() - begun) / 80 * 1e3
    samples = sampler.take()
    assert len(samples) >= 15
    assert all(set(sample.phases) >= INSIDE for sample in samples)
    totals = [sum(sample.phases.values()) for sample in samples]
    assert sum(totals) / len(totals) == pytest.approx(per_step, rel=0.15)
    assert min(min(sample.phases.values()) for sample in samples) >= 0


def test_a_graph_with_marks_trains_as_one_without():
    plain, timed = make_step(), make_step()
    steps(GraphGear(plain), NoSampler(), 6)
    steps(GraphGear(timed), sampler_of(timed, 1), 6)
    for own, expected in zip(timed.tensors(), plain.tensors(), strict=True):
        if own.is_floating_point():
            assert (own - expected).norm() <= 1e-4 * expected.norm() + 1e-6


@pytest.mark.parametrize("make", [EagerGear, GraphGear])
def test_sampling_never_waits_for_the_gpu(make):
    step = make_step("bf16")
    gear, sampler, made = make(step), sampler_of(step, 4), batch(0)
    steps(gear, sampler, 12, made=made)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        steps(gear, sampler, 12, first=12, made=made)
        sampler.take()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_sampling_costs_less_than_a_hundredth():
    """Blocks in turn, because clocks drift; the median pair counts."""
    step = make_step("bf16")
    gear, sampler, made = GraphGear(step), sampler_of(step, 50), batch(0)
    steps(gear, sampler_of(step, 4), 16, made=made)
    ratios = []
    for turn in range(9):
        seconds = []
        for one in (sampler, NoSampler()):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            steps(gear, one, 100, first=1000 + 100 * turn, made=made)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        ratios.append(seconds[0] / seconds[1])
    assert sorted(ratios)[4] < 1.01


def test_ceilings_are_those_of_a_gpu():
    found = measure_ceilings(make_step("bf16").precision)
    assert found.flops > 1e13 and found.bytes > 1e11 and found.sent_bytes > 1e9


class AsksTheHost:
    """A loss that reads a value in every step."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, raw, targets):
        terms = self.inner(raw, targets)
        assert terms.total.item() == terms.total.item()
        time.sleep(0.02)  # what a host does with it
        return terms


class WaitingLosses:
    def __init__(self, inner):
        self.inner = inner

    def training(self, epoch):
        return AsksTheHost(self.inner.training(epoch))


def test_a_wait_is_counted_and_placed():
    step = make_step("bf16")
    gear, made = EagerGear(step), batch(0)
    steps(gear, NoSampler(), 3, made=made)

    def waits():
        sampler = sampler_of(step, 1, in_graphs=False)

        def four():
            steps(gear, sampler, 4, made=made)
            return 4

        return count_waits(four, lambda: sampler.phase)

    assert waits().count == 0
    step.criterion = AsksTheHost(step.criterion)
    found = waits()
    assert found.within((LOSS,)).count >= 1 and found.within((LOSS,), outside=True).count == 0, found
    assert any("test_profile.py" in one.place for one in found.places)


def ms_per_step(make, count):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    make(count)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count * 1e3


def test_kernels_take_as_long_one_by_one_as_in_a_graph():
    """Launching is slower while it is watched: that must not make the GPU look less busy than it is."""
    step, made = make_step("bf16"), batch(0)
    took = []
    for gear in (EagerGear(step), GraphGear(step)):

        def make(count, gear=gear):
            steps(gear, NoSampler(), count, made=made)

        make(5)
        step_ms = ms_per_step(make, 50)
        took.append(gpu_busy(make, 20, step_ms, DEVICE).share * step_ms)
    assert took[0] == pytest.approx(took[1], rel=0.3)


@pytest.mark.alone
def test_busy_time_tells_a_full_gpu_from_an_idle_one():
    step = make_step("bf16")
    gear, made = GraphGear(step), batch(0)
    steps(gear, NoSampler(), 5, made=made)

    def at_once(count):
        steps(gear, NoSampler(), count, made=made)

    def slowly(count):
        for n in range(count):
            steps(gear, NoSampler(), 1, first=n, made=made)
            time.sleep(0.05)

    full, idle = (gpu_busy(made_so, 20, ms_per_step(made_so, 20), DEVICE) for made_so in (at_once, slowly))
    assert full.share > 0.8 and idle.share < 0.5 * full.share


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(make_shapes(tmp_path_factory.mktemp("profile") / "shapes", n=64))


@pytest.mark.parametrize(("gear", "loader"), [("auto", "auto"), ("eager", "auto"), ("auto", "cpu")])
def test_a_whole_profile(data, gear, loader):
    """Short enough that `auto` does not compile."""
    config = TrainConfig(
        data=data, device="0", cfg="yolov7-tiny", img_size=(128,), batch_size=16, epochs=4, gear=gear, loader=loader,
        workers=2,
    )  # fmt: skip
    run = prepare_run(config, lambda text: None)
    try:
        found = profile_run(run, MeasureRequest(steps=40, warm_up=10), lambda text: None)
    finally:
        run.close()
    assert {phase.name for phase in found.phases} >= INSIDE
    assert ("inside the graph" in found.measured_by) == (gear == "auto")
    assert 0 < found.usage.gpu_busy <= 1 and found.usage.gpu_memory_gib > 0
    assert found.work.sent_bytes == 0 or loader == "cpu"
    assert any(phase.beside for phase in found.phases)
    assert sum(phase.mean_ms for phase in found.phases if not phase.beside) == pytest.approx(found.step.mean, rel=0.3)
    assert verdicts(found)


@pytest.mark.alone
def test_two_runs_in_turn_are_each_as_fast_as_alone(tmp_path):
    """A block begins while the GPU is at work: filling its queue again is not part of training."""
    data = str(make_shapes(tmp_path / "shapes", n=640))
    runs = []
    for freeze in ((0,), (11,)):
        config = TrainConfig(
            data=data, device="0", cfg="yolov7-tiny", img_size=(320,), batch_size=32, epochs=4, freeze=freeze
        )
        runs.append(prepare_run(config, lambda text: None))
    try:
        found = profile_against(*runs, MeasureRequest(steps=40, warm_up=10), lambda text: None)
    finally:
        for run in runs:
            run.close()
    for profile in (found.first, found.second):
        phases = sum(phase.mean_ms for phase in profile.phases if not phase.beside)
        assert phases == pytest.approx(profile.step.mean, rel=0.08)
    assert found.comparison.is_real and found.comparison.relative_uncertainty < 0.05


def planted(data, plant, waits):
    config = TrainConfig(data=data, device="0", cfg="yolov7-tiny", img_size=(128,), batch_size=16, epochs=4)
    said, run = [], prepare_run(config, lambda text: None)
    found = profile_run(plant(run), MeasureRequest(steps=20, warm_up=5), said.append)
    assert found.setup.gear == "eager", "a graph cannot contain a wait"
    assert any("a lower gear" in text for text in said)
    assert found.waits.count == waits and found.setup.graph_failed
    return verdicts(found)[0]


def test_a_loss_that_waits_is_named(data):
    first = planted(data, lambda run: replace(run, losses=WaitingLosses(run.losses)), waits=2)
    assert first.kind == LOSSES and " a step (" in first.text and "test_profile.py" in first.text, first
    assert "cannot be captured" in first.change


def test_a_planted_wait_is_named(data):
    def ask(module, images, maps):
        assert maps[0].sum().item() is not None
        time.sleep(0.02)

    def with_hook(run):
        run.step.model.register_forward_hook(ask)
        return run

    first = planted(data, with_hook, waits=1)
    assert first.kind == WAIT and " a step (" in first.text and "test_profile.py" in first.text, first


def test_a_clock_reads_what_the_gpu_did():
    clock, values = DeviceClock(DEVICE), torch.rand(4096, 4096, device=DEVICE)
    first = clock.moment()
    for _ in range(50):
        values = values @ values * 1e-4
    last = clock.moment()
    assert not clock.is_past(last)
    torch.cuda.synchronize()
    assert clock.is_past(last) and clock.between(first, last) > 0.5
