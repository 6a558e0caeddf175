"""The loss of an evaluation is that of training: the same labels, terms and scale, with BatchNorm as at inference."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.loader.small_set import made_up_index, packed
from tests.model.small import small
from yolofast import build_loss, build_model
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.detect.predictor import to_validate
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.order import EpochOrder
from yolofast.loader.validation_batches import validation_batches
from yolofast.loader.workers import WorkerLoader
from yolofast.optim.optimizer import ModelEma
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.train.step import TrainStep

IMAGES, SIZE, BATCH = 12, 64, 4
CPU = Precision(torch.device("cpu"), torch.float32)
HYP = {"box": 0.05, "obj": 1.0, "cls": 0.5, "anchor_t": 4.0}


def yolox():
    torch.manual_seed(0)
    return build_model("yolox-nano", nc=3)


def settled(model):
    """With statistics of its own, as a trained network has them, so that a forgotten one would show."""
    model.train()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.1, 0.1)
                module.running_var.uniform_(0.5, 2.0)
    return model


def training_losses(model, criterion, index, images):
    """Of an epoch of unaugmented images, in order, with weights that stand still and statistics that are used."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    inputs = model.inputs
    style = Recipe(style="yolox" if inputs.top_left else "yolov7")
    maker = BatchMaker(Planner(index, images.sizes, style, SIZE, SIZE), images, rgb=inputs.rgb)
    order = EpochOrder(IMAGES, seed=0, shuffle=False, batch_size=BATCH)
    groups = [{"params": list(model.parameters()), "weight_decay": 0.0}]
    names = ("box", "obj", "cls", "l1") if model.layout.kind == "point" else ("box", "obj", "cls")
    step = TrainStep(model, criterion, Sgd(groups), ModelEma(model), CPU, names)
    with torch.no_grad():
        for batch in WorkerLoader(maker, order).epoch(0):
            step.losses.add(step.loss_of(batch.images, batch.targets), len(batch.images))
    return {name: step.losses.means()[name] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("make", [small, lambda: small("IAuxDetect"), lambda: small("MultiHeadDetect"), yolox])
@pytest.mark.parametrize("assigner", ["ota", "tal"])
def test_training_and_validation_losses_agree(make, assigner):
    model = settled(make())
    index = made_up_index(np.full((IMAGES, 2), SIZE), seed=1)
    index.labels[:] %= 3
    images = packed(index.sizes)
    criterion = build_loss(model, HYP, SIZE, assigner, faithful=False)
    if model.layout.kind == "point":
        criterion.use_l1 = True
    batches = validation_batches(index, images, BATCH, SIZE, 32, inputs=model.inputs)
    few = to_validate(model, 0.9)  # detections to compare
    found = accumulate_metrics(model, batches, index, CPU, criterion=criterion, thresholds=few).result()
    assert found.losses == pytest.approx(training_losses(model, criterion, index, images), rel=1e-5)
    assert min(found.losses.values()) > 0


@pytest.mark.slow
def test_auxiliary_maps_change_neither_detections_nor_the_network():
    model = settled(small("IAuxDetect"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    index = made_up_index(np.full((IMAGES, 2), SIZE), seed=1)
    index.labels[:] %= 3
    batches = validation_batches(index, packed(index.sizes), BATCH, SIZE, 32)
    criterion = build_loss(model, HYP, SIZE, faithful=False)
    alone = accumulate_metrics(model, batches, index, CPU, keep=True).result()
    with_loss = accumulate_metrics(model, batches, index, CPU, criterion=criterion, keep=True).result()
    for (_, one), (_, other) in zip(alone.found, with_loss.found, strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and all(module.training for module in model.modules())


@pytest.mark.slow
def test_published_behaviour_leaves_auxiliary_maps_out():
    model = settled(small("IAuxDetect"))
    index = made_up_index(np.full((IMAGES, 2), SIZE), seed=1)
    index.labels[:] %= 3
    batches = validation_batches(index, packed(index.sizes), BATCH, SIZE, 32)
    criteria = [build_loss(model, HYP, SIZE, "anchor", faithful) for faithful in (True, False)]
    found = [accumulate_metrics(model, batches, index, CPU, criterion=one).result() for one in criteria]
    losses = [one.losses["box"] for one in found]
    assert losses[0] < 0.9 * losses[1]
