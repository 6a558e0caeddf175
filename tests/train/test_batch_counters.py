"""Counting BatchNorm's batches together gives what each layer counts by itself."""

import copy

import pytest
import torch
from torch import nn

from yolofast import build_model
from yolofast.train.step import BatchCounters


@pytest.mark.slow
@pytest.mark.parametrize("cfg", ["yolov7-tiny", "yolox-nano"])
def test_a_network_counts_as_ever(cfg):
    torch.manual_seed(0)
    together = build_model(cfg, nc=3).train()
    apart, images = copy.deepcopy(together), torch.rand(2, 3, 64, 64)
    frozen = next(name for name, layer in together.named_modules() if isinstance(layer, nn.BatchNorm2d))
    for model in (together, apart):
        model.get_submodule(frozen).eval()
    counters = BatchCounters(together)
    for _ in range(2):
        with counters.counted_together():
            found = together(images)
        expected = apart(images)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    for (name, own), other in zip(together.state_dict().items(), apart.state_dict().values(), strict=True):
        assert torch.equal(own, other), name
    assert together.state_dict()[f"{frozen}.num_batches_tracked"] == 0


def test_layers_that_need_their_count_keep_it():
    layer = nn.BatchNorm2d(3, momentum=None).train()
    with BatchCounters(nn.Sequential(layer)).counted_together():
        layer(torch.rand(2, 3, 4, 4))
    assert layer.num_batches_tracked == 1


def test_a_failure_gives_the_counters_back():
    layer = nn.BatchNorm2d(3).train()
    with pytest.raises(ValueError), BatchCounters(nn.Sequential(layer)).counted_together():
        raise ValueError
    assert layer.num_batches_tracked == 0
