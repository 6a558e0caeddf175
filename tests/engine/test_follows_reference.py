"""The engine's losses, weights and average are those of a plain trainer, iteration by iteration."""

import copy
import dataclasses

import pytest
import torch

from tests.reference.trainer import ReferenceTrainer
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes import make_shapes
from yolofast.engine.checkpoints import Checkpoints
from yolofast.engine.display import Display
from yolofast.engine.gears import EagerGear
from yolofast.engine.record import Recorder
from yolofast.engine.setup import prepare_run
from yolofast.engine.trainer import Progress, Trainer

ITERATIONS, EPOCHS = 30, 3


@pytest.mark.parametrize("hyp", ["data/hyp.scratch.tiny.yaml", "data/hyp.scratch.tiny.noota.yaml"])
def test_thirty_iterations(tmp_path, monkeypatch, hyp):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    config = dataclasses.replace(
        TrainConfig.published(), data=str(make_shapes(tmp_path / "shapes", n=40)), img_size=(64,), batch_size=4,
        hyp=hyp, epochs=EPOCHS, workers=0, device="cpu", cfg="yolov7-tiny", weights="", cache="off", notest=True, nosave=True,
    )  # fmt: skip
    run = prepare_run(config, lambda text: None)
    reference = ReferenceTrainer(copy.deepcopy(run.model), run.hyp, 64, EPOCHS, len(run.batches), 4)
    losses, loss_of = [], run.step.loss_of

    def spy(images, targets):
        terms = loss_of(images, targets)
        losses.append(terms.total.item())
        image, place = targets.valid.nonzero(as_tuple=True)
        rows = torch.cat((image[:, None], targets.labels[image, place, None], targets.boxes[image, place]), dim=1)
        reference.learn(images, rows)
        return terms

    monkeypatch.setattr(run.step, "loss_of", spy)
    trainer = Trainer(
        step=run.step, gear=EagerGear(run.step), batches=run.batches, schedule=run.schedule, evaluate=run.evaluate,
        start_epoch=run.start_epoch, checkpoints=Checkpoints(tmp_path / "weights"), recorder=Recorder(tmp_path),
        display=Display(EPOCHS), epochs=EPOCHS, progress=Progress(), settings={}, evaluate_every_epoch=False,
        save_every_epoch=False,
    )  # fmt: skip
    trainer.fit()
    assert len(losses) == ITERATIONS
    assert losses == pytest.approx(reference.losses, rel=1e-4)
    for ours, theirs in ((run.model, reference.model), (run.step.ema.model, reference.ema)):
        expected = theirs.state_dict()
        for name, value in ours.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4, msg=name)
