"""The engine's steps are those of a plain trainer, thirty in a row.

The plain trainer starts each step from the engine's state. Left alone, the two part after a few steps: while a network
is young, one rounding decides between candidates of nearly equal cost, and normalising few values multiplies any
difference (measured: five to twenty times per step), so two correct trainers would differ as much as any two.
"""

import copy
import dataclasses

import pytest
import torch

from tests.reference.trainer import ReferenceTrainer
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.train.checkpoints import Checkpoints
from yolofast.train.display import Display
from yolofast.train.gears.gears import EagerGear
from yolofast.train.loop import Progress, Trainer
from yolofast.train.record import Recorder
from yolofast.train.run import prepare_run

pytestmark = pytest.mark.slow

EPOCHS, BATCHES, BATCH, SIZE = 3, 10, 4, 96


class Companion(EagerGear):
    """Runs the engine's step, and the plain trainer's from the same state, and compares."""

    def __init__(self, run):
        super().__init__(run.step)
        self.reference = ReferenceTrainer(copy.deepcopy(run.model), run.hyp, SIZE, EPOCHS, len(run.batches), BATCH)
        self.totals, self.worst_update = [], 0.0

    def run(self, batch, kind):
        self.copy_state()
        before = parameters_of(self.step.model)
        self.step.losses.reset()
        super().run(batch, kind)
        self.totals.append(self.step.losses.means()["total"] * len(batch.images))
        targets = batch.targets
        image, place = targets.valid.nonzero(as_tuple=True)
        rows = torch.cat((image[:, None], targets.labels[image, place, None], targets.boxes[image, place]), dim=1)
        self.reference.learn(batch.images, rows)
        ours, theirs = parameters_of(self.step.model) - before, parameters_of(self.reference.model) - before
        self.worst_update = max(self.worst_update, float((ours - theirs).norm() / theirs.norm()))

    def copy_state(self):
        reference, step = self.reference, self.step
        reference.model.load_state_dict(step.model.state_dict())
        reference.ema.load_state_dict(step.ema.model.state_dict())
        velocities = iter(step.optimizer.tensors())
        for group in reference.optimizer.param_groups:
            for parameter in group["params"]:
                reference.optimizer.state[parameter]["momentum_buffer"] = next(velocities).clone()


def parameters_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("hyp", ["data/hyp.scratch.tiny.yaml", "data/hyp.scratch.tiny.noota.yaml"])
def test_thirty_steps(tmp_path, monkeypatch, hyp):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    config = dataclasses.replace(
        TrainConfig.published(), data=str(make_shapes(tmp_path / "shapes", n=BATCHES * BATCH)), img_size=(SIZE,),
        batch_size=BATCH, hyp=hyp, epochs=EPOCHS, workers=0, device="cpu", cfg="yolov7-tiny", weights="", cache="off",
        notest=True, nosave=True,
    )  # fmt: skip
    run = prepare_run(config, lambda text: None)
    gear = Companion(run)
    trainer = Trainer(
        run=run, gear=gear, checkpoints=Checkpoints(tmp_path / "weights"), recorder=Recorder(tmp_path),
        display=Display(EPOCHS), progress=Progress(),
    )  # fmt: skip
    trainer.fit()
    assert len(gear.totals) == EPOCHS * BATCHES == gear.reference.iteration
    assert gear.totals == pytest.approx(gear.reference.losses, rel=1e-4)
    assert gear.worst_update < 1e-3
    expected = gear.reference.ema.state_dict()
    for name, value in run.step.ema.model.state_dict().items():
        if value.is_floating_point():
            assert (value - expected[name]).norm() <= 1e-3 * expected[name].norm() + 1e-4, name
