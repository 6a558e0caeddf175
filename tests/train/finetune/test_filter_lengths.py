"""Weights without BatchNorm keep what they know while everything learns: no filter turns faster than others."""

import copy
import dataclasses

import pytest
import torch
import yaml

from tests.sample_data import sample
from tests.train.finetune.test_measured_batch_norm import SMALL as SMALLER
from tests.train.finetune.test_measured_batch_norm import distance
from yolofast import build_model
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.train.finetune.folded_weights import filters_before, lengths_of, settle_filter_lengths
from yolofast.train.gears.gears import EagerGear
from yolofast.train.run import prepare_run
from yolofast.train.step import StepKind

pytestmark = pytest.mark.slow

SMALL = SMALLER | {"nc": 8}
FRESH = 3**-0.5
SETTLED = 0.1
"""Gradient / length where a learning rate of 0.01, momentum 0.9 and a decay of 5e-4 are in balance."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@torch.no_grad()
def folded(model):
    """As files made for inference are: what BatchNorm does to some images becomes part of the convolutions."""
    for layer in filters_before(model):
        layer.momentum = 1.0
    for _ in range(2):
        model.train()(torch.rand(8, 3, 96, 96) * 255)
    for layer, filters in filters_before(model).items():
        scale = 1 / (layer.running_var + layer.eps).sqrt()
        filters.mul_(scale.view(-1, 1, 1, 1))
        layer.bias.copy_(torch.randn_like(scale) - layer.running_mean * scale)
        layer.reset_running_stats()
        layer.running_var.fill_(1 - layer.eps)
    return model


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A small YOLOX that looks at pixels of 0 to 255, as a file made for inference."""
    folder = tmp_path_factory.mktemp("folded")
    torch.manual_seed(3)
    torch.save({"model": folded(build_model(SMALL)).state_dict()}, folder / "folded.pth")
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return dataclasses.replace(
        TrainConfig(), data=str(make_shapes(folder / "shapes", n=16)), cfg=str(folder / "small.yaml"),
        weights=str(folder / "folded.pth"), img_size=(96,), batch_size=8, epochs=3, workers=0, device="cpu",
        cache="off", recipe="yolox-nano",
    )  # fmt: skip


def gradients(run):
    """Root mean square over the batches of the first epoch of each filter's gradient, by plain backward passes."""
    model = copy.deepcopy(run.model).train().requires_grad_(True)
    filters = filters_before(model).values()
    squares = [torch.zeros(len(weight), dtype=torch.float64) for weight in filters]
    for batch in run.batches.epoch(0):
        model.zero_grad()
        run.step.criterion(model(model.inputs.as_input(batch.images).float()), batch.targets).total.backward()
        for square, weight in zip(squares, filters, strict=True):
            square += weight.grad.double().flatten(1).norm(dim=1) ** 2 / len(run.batches)
    return [square.sqrt() for square in squares]


def test_a_step_turns_no_filter_faster_than_published_training_did(config):
    said = []
    run = prepare_run(config, said.append)
    lengths = [lengths_of(weight) for weight in filters_before(run.model).values()]
    turned = torch.cat([gradient / length for length, gradient in zip(lengths, gradients(run), strict=True)])
    together = torch.cat(lengths)
    longer = together > FRESH * 1.0001
    few, most = torch.quantile(turned[longer], torch.tensor([0.03, 0.97], dtype=torch.float64))
    assert longer.sum() > 1000 and few > 0.85 * SETTLED and most < 1.15 * SETTLED, "all the same, but for BatchNorm's ε"
    assert (together >= FRESH * 0.9999).all()
    assert any(f"({together.min():.2g} to {together.max():.2g})" in word for word in said)


def test_nothing_else_has_changed(config):
    """Not what is computed, nor which statistics and parameters there are, nor what asks for gradients."""
    run = prepare_run(dataclasses.replace(config, freeze=("backbone",)), lambda text: None)
    before = build_model(SMALL)
    before.load_state_dict(torch.load(config.weights, weights_only=True)["model"])
    images = next(run.batches.epoch(0)).images.float()
    with torch.no_grad():
        expected = before.eval()(images)
        spread = max(float(raw.std()) for raw in expected)
        for model in (run.model.eval(), run.step.ema.model):
            assert distance(model(images), expected) < 1e-4 * spread
    assert not any(int(value) for name, value in run.model.state_dict().items() if name.endswith("num_batches_tracked"))
    learning = {p for index in run.phases.phase.learning for p in run.model.layers[index].module.parameters()}
    assert {p for p in run.model.parameters() if p.requires_grad} == learning
    assert all(p.grad is None for p in run.model.parameters())


@pytest.mark.parametrize(("plan", "settled"), [("", {"head"}), ("progressive.yaml", {"head", "neck"})])
def test_filters_that_learn_in_a_later_phase_are_settled_too(config, plan, settled, tmp_path):
    if plan:
        (tmp_path / plan).write_text("plan:\n- {until: 1, train: [head]}\n- {until: 3, train: [head, neck]}\n")
    which = {"plan": str(tmp_path / plan)} if plan else {"freeze": ("backbone", "neck")}
    run = prepare_run(dataclasses.replace(config, **which), lambda text: None)
    longer = {
        layer.part
        for layer in run.model.layers
        for weight in filters_before(layer.module).values()
        if (lengths_of(weight) > FRESH * 1.0001).any()
    }
    assert longer == settled


def test_where_no_filter_learns_none_is_settled(config):
    said = []
    prepare_run(dataclasses.replace(config, freeze=("backbone", "neck", "stems", "*_convs")), said.append)
    assert any("BatchNorm was folded away; its statistics are measured" in word for word in said)


def test_a_filter_of_zeros_stays_one(config):
    run = prepare_run(config, lambda text: None)
    stem = run.model.backbone.backbone.stem.conv
    with torch.no_grad():
        stem.conv.weight[0] = 0.0
    settle_filter_lengths(run.step, run.batches.epoch(0), [run.model], 1)
    assert not stem.conv.weight[0].any()
    assert all(tensor.isfinite().all() for tensor in run.model.state_dict().values())


def test_published_weights_keep_what_they_know_while_everything_learns(tmp_path):
    """With filters as long as fresh ones these twelve steps take mAP from 0.17 to 0.02, the loss from 6.5 to 9.3."""
    images = sorted((sample("coco200") / "images/val").iterdir())[:24]
    names = yaml.safe_load((sample("coco200") / "data.yaml").read_text())["names"]
    (tmp_path / "some.txt").write_text("".join(f"{image}\n" for image in images))
    some = str(tmp_path / "some.txt")
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"train": some, "val": some, "names": names}))
    config = dataclasses.replace(
        TrainConfig(), data=str(tmp_path / "data.yaml"), cfg="yolox-nano", weights=str(sample("yolox_nano.pth")),
        img_size=(160,), batch_size=8, epochs=10, workers=0, device="cpu", cache="off", recipe="yolox-nano",
    )  # fmt: skip
    run = prepare_run(config, lambda text: None)
    before = run.evaluate(0)
    gear = EagerGear(run.step)
    for epoch in range(4):
        run.start_epoch(epoch)
        for number, batch in enumerate(run.batches.epoch(epoch)):
            settings = run.schedule.at(epoch, number)
            run.step.optimizer.set(settings.lr, settings.momentum)
            gear.run(batch, StepKind(sums=False, updates=True))
    after = run.evaluate(3)
    assert sum(after.losses.values()) < 1.05 * sum(before.losses.values())
    assert after.metrics.map > 0.8 * before.metrics.map > 0.1
