"""A run begins at the rates of its data, and may end with BatchNorm's statistics measured again."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from tests.train.small_run import NETWORK, flags, shapes_in
from yolofast import build_model
from yolofast.cli import main
from yolofast.dataset.split import read_split
from yolofast.train.data import fit_biases
from yolofast.train.evaluation import measure_again

SMALL_YOLOX = NETWORK.parents[1] / "frozen" / "inputs" / "small_yolox.yaml"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return read_split(shapes_in(tmp_path_factory.mktemp("data") / "shapes", 24), "train")


@pytest.mark.parametrize("cfg", [NETWORK, SMALL_YOLOX])
def test_a_head_that_sees_nothing_predicts_the_rates_of_the_labels(cfg, index):
    said = []
    torch.manual_seed(0)
    model = build_model(cfg, nc=len(index.names)).eval()
    every = {name for name, _ in model.named_parameters()}
    before = {name: value.clone() for name, value in model.named_parameters()}
    fit_biases(model, index, 64, every, said.append)
    assert not said
    changed = [name for name, value in model.named_parameters() if not torch.equal(value, before[name])]
    assert changed and all(name.endswith("bias") for name in changed)
    with torch.no_grad():  # only biases speak
        for name, value in model.named_parameters():
            if not name.endswith("bias"):
                value.fill_(1.0 if ".im." in name else 0.0)
        raw = model(torch.rand(1, 3, 64, 64))
    counts = np.bincount(index.labels, minlength=len(index.names)) + 1
    for level, stride in zip(raw, model.layout.strides, strict=True):
        objects = len(index.labels) / len(index) / (64 / stride) ** 2
        expected = torch.full_like(level[..., 4], min(objects, 0.99))
        torch.testing.assert_close(level[..., 4].sigmoid(), expected, rtol=1e-4, atol=1e-5)
        shares = torch.from_numpy(counts / counts.sum()).float().expand_as(level[..., 5:])
        torch.testing.assert_close(level[..., 5:].sigmoid(), shares, rtol=1e-4, atol=1e-5)


def test_what_has_learnt_keeps_its_biases(index):
    model = build_model(NETWORK, nc=len(index.names))
    before, said = copy.deepcopy(model.state_dict()), []
    fit_biases(model, index, 64, frozenset(), said.append)
    assert "nothing is changed" in said[0]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_statistics_are_the_means_over_batches_of_what_each_layer_gets():
    torch.manual_seed(0)
    first, second, unused = nn.BatchNorm2d(3), nn.BatchNorm2d(4), nn.BatchNorm2d(5)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.unused = nn.Sequential(first, nn.Conv2d(3, 4, 1), nn.ReLU(), second), unused

        def forward(self, images):
            return self.body(images)

    model = Net().eval()
    unused.running_mean.fill_(7)
    first.num_batches_tracked.fill_(5)
    batches = [torch.randn(4, 3, 6, 6) * scale + shift for scale, shift in ((1, 0), (3, 2), (0.5, -1))]
    with torch.no_grad():
        measure_again(model, iter(batches))
        inputs = [(batch - batch.mean((0, 2, 3), keepdim=True)) for batch in batches]
        inputs = [one / (one.square().mean((0, 2, 3), keepdim=True) + first.eps).sqrt() for one in inputs]
        behind = [model.body[2](model.body[1](one)) for one in inputs]
    for layer, seen in ((first, batches), (second, behind)):
        means = torch.stack([one.mean((0, 2, 3)) for one in seen]).mean(0)
        variances = torch.stack([one.var((0, 2, 3)) for one in seen]).mean(0)
        torch.testing.assert_close(layer.running_mean, means, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(layer.running_var, variances, rtol=1e-4, atol=1e-5)
    assert (unused.running_mean == 7).all() and not any(m.training for m in model.modules())
    assert first.num_batches_tracked == 5 and first.momentum == 0.1


def averages(folder):
    return torch.load(folder / "runs" / "exp" / "weights" / "last.pt", weights_only=True)["ema"]


@pytest.mark.slow
def test_a_run_measures_again_after_its_last_epoch_only_the_statistics(tmp_path):
    plain, again = tmp_path / "plain", tmp_path / "again"
    assert main(["train", *flags(plain, epochs=2)]) == 0
    assert main(["train", *flags(again, epochs=2, set="bn_batches=2")]) == 0
    one, other = averages(plain), averages(again)
    different = {name.rpartition(".")[2] for name in one if not torch.equal(one[name], other[name])}
    assert different == {"running_mean", "running_var"}
