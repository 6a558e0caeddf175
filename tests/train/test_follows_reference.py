"""The engine and a plain trainer, started from the same weights, take the same thirty steps.

In float64: nothing is copied from one to the other on the way. A difference of one rounding grows, because normalising
few values multiplies it (about twice per step): losses agree to 1e-16 at first and to some 1e-8 after thirty steps. In
float32 it would be as large as the steps themselves after fifteen, and one rounding would decide between candidates of
nearly equal cost. OTA's costs are float32 in the engine whatever the network computes in, and float64 in the plain
trainer.
"""

import copy
import dataclasses

import pytest
import torch

from tests.reference.trainer import ReferenceTrainer
from tests.train.small_run import NETWORK
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.train.display import Display
from yolofast.train.gears.gears import EagerGear
from yolofast.train.loop import Progress, Trainer
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion
from yolofast.train.record import Recorder
from yolofast.train.run import Run, prepare_run

pytestmark = pytest.mark.slow

BATCHES, BATCH, SIZE = 10, 4, 64


class Companion(EagerGear):
    """Runs the engine's step and the plain trainer's, each from the state that its own steps have led to."""

    def __init__(self, run, epochs):
        super().__init__(run.step)
        self.reference = ReferenceTrainer(copy.deepcopy(run.model), run.hyp, SIZE, epochs, len(run.batches), BATCH)
        self.totals, self.apart = [], []

    def run(self, batch, kind):
        targets = dataclasses.replace(batch.targets, boxes=batch.targets.boxes.double())
        before = parameters_of(self.step.model)
        self.step.losses.reset()
        super().run(dataclasses.replace(batch, images=batch.images.double() / 255, targets=targets), kind)
        self.totals.append(self.step.losses.means()["total"] * len(batch.images))
        image, place = targets.valid.nonzero(as_tuple=True)
        rows = torch.cat((image[:, None], targets.labels[image, place, None], targets.boxes[image, place]), dim=1)
        self.reference.learn(batch.images, rows)
        ours, theirs = parameters_of(self.step.model), parameters_of(self.reference.model)
        self.apart.append(float((ours - theirs).norm() / (ours - before).norm()))


def parameters_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.fixture
def in_float64(monkeypatch):
    """What either trainer makes anew is float64; OTA's matching reads bits of float32, and gets what it always gets."""
    assign = YoloV7Criterion.assign

    def assign_in_float32(criterion, lead, targets, *how):
        narrow = dataclasses.replace(targets, boxes=targets.boxes.float())
        return assign(criterion, [raw.float() for raw in lead], narrow, *how)

    monkeypatch.setattr(YoloV7Criterion, "assign", assign_in_float32)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("hyp", "epochs"), [("data/hyp.scratch.tiny.yaml", 3), ("data/hyp.scratch.tiny.noota.yaml", 1)]
)
def test_the_same_steps(tmp_path, monkeypatch, in_float64, hyp, epochs):
    """Without OTA only the assignment differs: ten steps show it."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    config = dataclasses.replace(
        TrainConfig.published(), data=str(make_shapes(tmp_path / "shapes", n=BATCHES * BATCH)), img_size=(SIZE,),
        batch_size=BATCH, hyp=hyp, epochs=epochs, workers=0, device="cpu", cfg=str(NETWORK), weights="", cache="off",
        nosave=True,
    )  # fmt: skip
    run = prepare_run(config, lambda text: None)
    assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float64}
    gear = Companion(run, epochs)
    trainer = Trainer(
        run=run, gear=gear, checkpoints=None, recorder=Recorder(tmp_path), display=Display(epochs), progress=Progress()
    )
    monkeypatch.setattr(Run, "evaluate", lambda run, epoch: None)
    monkeypatch.setattr(Trainer, "_score", lambda trainer, found, row: None)
    trainer.fit()
    assert len(gear.totals) == epochs * BATCHES == gear.reference.iteration
    # How far apart the weights are, in lengths of a step: 3e-12 and 7e-12 after ten, 1e-6 and 2e-6 after thirty.
    assert max(gear.apart[:10]) < 1e-9 and max(gear.apart) < 1e-3
    assert gear.totals[:10] == pytest.approx(gear.reference.losses[:10], rel=1e-10)
    assert gear.totals == pytest.approx(gear.reference.losses, rel=1e-5)
    expected = gear.reference.ema.state_dict()
    for name, value in run.step.ema.model.state_dict().items():
        if value.is_floating_point():
            assert (value - expected[name]).norm() <= 1e-6 * expected[name].norm() + 1e-9, name
