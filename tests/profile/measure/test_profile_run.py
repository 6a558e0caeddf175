"""Real runs with a bottleneck planted in them: the profile finds it and the verdict names it."""

import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.train.two_ranks import small_cfg_file
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.model.summary import summarise
from yolofast.profile.bottlenecks import verdicts
from yolofast.profile.data_bottlenecks import recommended_workers
from yolofast.profile.measure.ceilings import count_work
from yolofast.profile.measure.measured_loop import Sizes, StepLoop
from yolofast.profile.measure.meter import MeasureRequest, Meter, profile_against, profile_run
from yolofast.profile.output import title
from yolofast.profile.records import ASSIGNMENT, DATA, LOSSES, WAIT
from yolofast.profile.step_phases import ASSIGN, AUGMENT, BACKWARD, DATA_WAIT, FORWARD, LOSS, REST, TO_DEVICE
from yolofast.train.display import quiet_display
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import EagerGear
from yolofast.train.loop import Progress, Trainer
from yolofast.train.record import NoRecorder
from yolofast.train.run import prepare_run
from yolofast.train.timing import NoSampler

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
FEW = MeasureRequest(steps=2, warm_up=1)
NAP = 0.25  # seconds; what a small step computes takes far less, also on a busy machine


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(make_shapes(tmp_path_factory.mktemp("profile") / "shapes", n=24))


def prepared(data, **changes):
    settings = {
        "cfg": str(small_cfg_file(Path(data).parent)), "img_size": (64,), "batch_size": 4, "epochs": 4, "workers": 0,
        "cache": "off", "noautoanchor": True,
    }  # fmt: skip
    return prepare_run(TrainConfig(data=data, device="cpu", **(settings | changes)), lambda text: None)


@pytest.fixture(scope="module")
def run(data):
    """Its pixels are in memory: decoding files on a busy machine takes longer than a planted nap, and is named."""
    return prepared(data, cache="ram")


@pytest.mark.slow
def test_its_turns_are_those_of_training(data):
    """Six batches are an epoch: the same weights after it, whoever makes the turns."""
    profiled, trained = (prepared(data, notest=True, nosave=True, max_steps=6) for _ in range(2))
    StepLoop(profiled, 0).steps(6, EagerGear(profiled.step), NoSampler())
    Trainer(
        run=trained, gear=EagerGear(trained.step), checkpoints=None, recorder=NoRecorder(),
        display=quiet_display(trained.config.epochs), progress=Progress(),
    ).fit()  # fmt: skip
    weights = trained.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in profiled.model.state_dict().items())


class CountedEpochs:
    """Batches, and how many epochs of them were begun."""

    def __init__(self, inner):
        self._inner, self.begun = inner, 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def __len__(self):
        return len(self._inner)

    def epoch(self, number, start_batch=0):
        self.begun += 1
        yield from self._inner.epoch(number, start_batch)


def test_no_epoch_begins_within_a_block(run, monkeypatch):
    """Six batches are an epoch, two are not measured: so each block of three needs one of its own."""
    counted = CountedEpochs(run.batches)
    meter = Meter(replace(run, batches=counted), lambda text: None)
    meter.warm_up(1)
    measured, begun_within = meter._measured, []

    def watched(steps):
        before = counted.begun
        block = measured(steps)
        begun_within.append(counted.begun - before)
        return block

    monkeypatch.setattr(meter, "_measured", watched)
    for _ in range(3):
        meter.block(3, in_turn=True)
    assert begun_within == [0, 0, 0] and counted.begun >= 3


class CapturesLate(GearBox):
    """As far as a machine without a GPU has graphs: the first steps that are measured find one missing."""

    missing, timed = 2, 0

    def __init__(self, run):
        super().__init__(run.step, "eager", run.images_per_step, 0, lambda text: None)

    @property
    def prepared(self):
        return -self.missing

    def run(self, batch, kind):
        self.timed += self.step.probe is not None
        if self.missing and self.step.probe is not None:
            self.missing -= 1
            self.step.probe.captured()
        EagerGear(self.step).run(batch, kind)


def test_steps_with_a_capture_among_them_are_measured_again(run):
    meter = Meter(run, lambda text: None)
    meter._gear = CapturesLate(run)
    meter.block(1)
    assert meter._gear.missing == 0
    found = meter.profile(MeasureRequest(steps=1))
    assert found.steps == 1 and "captured meanwhile" not in found.measured_by
    assert meter._gear.timed >= 3, "two blocks with a capture, and one without"


class Slow:
    """Anything, with a nap before one of its methods."""

    def __init__(self, inner, method):
        self._inner, self._method = inner, method

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        return self._napping(found) if name == self._method else found

    def __len__(self):
        return len(self._inner)

    def _napping(self, method):
        def napping(*args, **more):
            time.sleep(NAP)
            return method(*args, **more)

        return napping


class SlowBatches(Slow):
    def epoch(self, number, start_batch=0):
        for batch in self._inner.epoch(number, start_batch):
            time.sleep(NAP)
            yield batch


class SlowLosses:
    """The losses of a run, with a nap in the loss itself or while it assigns."""

    def __init__(self, run, where):
        self._run, self._where = run, where

    def training(self, epoch):
        criterion = self._run.losses.training(epoch)
        if self._where == "loss":
            return lambda raw, targets: (time.sleep(NAP), criterion(raw, targets))[1]
        slow = type(criterion)(criterion.model, criterion.settings, criterion.assigner, criterion.faithful)
        assign = slow.assign
        slow.assign = lambda *args, **more: (time.sleep(NAP), assign(*args, **more))[1]
        return slow


@pytest.mark.parametrize(
    ("plant", "kind", "phase"),
    [
        (lambda run: {"batches": SlowBatches(run.batches, ""), "makes_batches_here": False}, DATA, DATA_WAIT),
        (lambda run: {"losses": SlowLosses(run, "loss")}, LOSSES, LOSS),
        (lambda run: {"losses": SlowLosses(run, "assign")}, ASSIGNMENT, ASSIGN),
        (lambda run: {"schedule": Slow(run.schedule, "at")}, WAIT, REST),
    ],
    ids=["loader", "loss", "assigner", "wait"],
)
def test_a_planted_bottleneck_is_named(run, plant, kind, phase):
    found = profile_run(replace(run, **plant(run)), FEW, lambda text: None)
    assert found.phase_ms(phase) >= NAP * 1e3
    assert sum(one.mean_ms for one in found.phases) == pytest.approx(found.step.mean, rel=0.1)
    assert found.phase_ms(phase) == max(one.mean_ms for one in found.phases)
    first = verdicts(found)[0]
    assert first.kind == kind
    assert first.saved_ms >= 0.9 * NAP * 1e3


def test_a_batch_that_is_made_here_is_augmentation_not_waiting(run, monkeypatch):
    monkeypatch.setattr(run.batches, "maker", Slow(run.batches.maker, "make"))
    found = profile_run(run, FEW, lambda text: None)
    assert found.phase_ms(AUGMENT) >= NAP * 1e3 <= found.batch_ms
    assert found.phase_ms(DATA_WAIT) < 0.5 * NAP * 1e3
    first = verdicts(found)[0]
    assert first.kind == DATA
    assert "makes its batches itself" in first.text


def test_a_run_without_a_bottleneck(data):
    """The network computes most of the time, and the phases are all of the step."""
    run = prepared(data, cfg="yolov7-tiny", img_size=(128,), cache="ram")
    wall, computed = time.perf_counter(), time.process_time()
    found = profile_run(run, MeasureRequest(steps=3, warm_up=1), lambda text: None)
    of_a_core = (time.process_time() - computed) / (time.perf_counter() - wall)  # others may have the rest
    assert {one.name for one in found.phases} >= {DATA_WAIT, TO_DEVICE, AUGMENT, FORWARD, ASSIGN, LOSS, BACKWARD, REST}
    assert sum(one.mean_ms for one in found.phases) == pytest.approx(found.step.mean, rel=0.1)
    assert found.phase_ms(FORWARD, BACKWARD) > 0.5 * found.step.mean
    assert {verdict.kind for verdict in verdicts(found)} <= {"nothing", "shared machine"}
    assert (found.setup.loader, found.setup.gear, found.setup.cache) == ("main process", "eager", "ram")
    assert found.setup.epoch == 2  # the middle of four
    assert found.usage.main_cpu > 20 * of_a_core
    assert found.usage.worker_cpu is None


def test_workers_are_watched(data):
    run = prepared(data, workers=1, persistent_workers=True)
    try:
        found = profile_run(run, MeasureRequest(steps=6, warm_up=2), lambda text: None)
    finally:
        run.close()
    assert found.usage.worker_cpu is not None
    made = [one for one in found.phases if one.beside]
    assert [one.name for one in made] == [AUGMENT]
    assert made[0].beside == "processor time of 1 worker"
    assert found.batch_ms > 0 and recommended_workers(found).number <= max(found.setup.cores - 1, 0)


def test_a_profile_leaves_weights_where_counting_found_them(run):
    meter = Meter(run, lambda text: None)
    batch = meter._loop.first_batch()
    before = [tensor.clone() for tensor in run.step.tensors()]
    batch = repeated(batch, 2)
    one, more = (count_work(run.step, replace_images(batch, n), 0.0, 64 * 64) for n in (4, 8))
    assert all(torch.equal(a, b) for a, b in zip(before, run.step.tensors(), strict=True))
    # Convolutions of forward and backward: twice the images, twice the work.
    assert more.flops == pytest.approx(2 * one.flops, rel=1e-6)
    assert one.bytes < more.bytes < 2 * one.bytes  # weights are read once
    larger = count_work(run.step, replace_images(batch, 4), 0.0, 2 * 64 * 64)
    assert (larger.flops, larger.bytes) == pytest.approx((more.flops, more.bytes), rel=1e-6)


def repeated(batch, times):
    parts = (getattr(batch.targets, n).repeat_interleave(times, 0) for n in ("boxes", "labels", "valid"))
    images, sources = batch.images.repeat_interleave(times, 0), batch.sources.repeat(times)
    return replace(batch, images=images, targets=type(batch.targets)(*parts), sources=sources)


def replace_images(batch, count):
    targets = type(batch.targets)(*(getattr(batch.targets, n)[:count] for n in ("boxes", "labels", "valid")))
    return replace(batch, images=batch.images[:count], targets=targets, sources=batch.sources[:count])


def test_the_arithmetic_of_a_step_is_what_the_layers_say(run):
    """Three times forward, but for the first layer, whose input needs no gradient."""
    batch = Meter(run, lambda text: None)._loop.first_batch()
    counted = count_work(run.step, batch, 0.0, batch.images[0, 0].numel()).flops
    forward = len(batch.images) * summarise(run.model, (64, 64)).gflops * 1e9
    assert 2.5 * forward < counted < 3.05 * forward


def test_sizes_that_differ_are_said_and_their_work_is_counted(run, data):
    several = prepared(data, img_size=(96,), multi_scale=True)
    one, more = (profile_run(each, MeasureRequest(steps=6, warm_up=1), lambda text: None) for each in (run, several))
    assert one.setup.sizes == "" and title(one.setup).startswith(f"{one.setup.network}, 64×64, batch")
    found = re.search(r"(\d) sizes from (\d+)×\2 to (\d+)×\3, (\d+)² pixels on average", title(more.setup))
    sizes, smallest, largest, side = map(int, found.groups())
    assert sizes > 1 and 48 <= smallest < side < largest <= 160
    assert (more.setup.height, more.setup.width) == (96, 96)
    assert more.work.flops == pytest.approx(one.work.flops * (side / 64) ** 2, rel=0.05)


def test_a_single_size_that_batches_did_not_come_in():
    assert Sizes(loaded=Counter({(64, 64): 2}), used=Counter({(32, 32): 2})).in_words == "32×32"


def test_graphs_that_never_end_are_said(run, monkeypatch):
    monkeypatch.setattr(CapturesLate, "missing", 100)
    meter = Meter(run, lambda text: None)
    meter._gear = CapturesLate(run)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    meter.block(1)
    meter._on_gpu = True
    assert "captured meanwhile" in meter._measured_by(1, 0, looked_into=False)


def test_against_measures_both_in_turn(run, data, monkeypatch):
    """A nap is many seconds of the clock and none of ours, so that a busy machine cannot hide it."""
    clock, slept = time.perf_counter, []
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + sum(slept))
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(200 * seconds))
    slow = replace(run, schedule=Slow(run.schedule, "at"))
    other = prepared(data)
    found = profile_against(other, slow, MeasureRequest(steps=4, warm_up=1), lambda text: None, 2)
    assert found.comparison.first.samples == found.comparison.second.samples == 2
    assert found.comparison.difference > 0.8 * 200 * NAP * 1e3 / 4  # per image
    assert found.second.step.mean > found.first.step.mean
