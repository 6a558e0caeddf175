"""Weights without statistics get some: the network computes what it did, and in training it does so too."""

import copy

import pytest
import torch

from yolofast import build_model
from yolofast.train.finetune.folded_weights import has_folded_batch_norm, measure_batch_norm

SMALL = {"family": "yolox", "nc": 3, "depth_multiple": 0.33, "width_multiple": 0.125, "image_size": 64}


@torch.no_grad()
def folded(model):
    """As files made for inference have it: all that is left of BatchNorm is its shift."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.weight.fill_(1.0)
            layer.bias.copy_(torch.randn_like(layer.bias))
            layer.running_mean.zero_()
            layer.running_var.fill_(1 - layer.eps)
    return model


def distance(a, b):
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


@pytest.mark.slow
@torch.no_grad()
def test_training_mode_computes_what_inference_did():
    model = folded(build_model(SMALL).eval())
    images = torch.randn(16, 3, 96, 96).cumsum(2) * 20 + 114
    expected = model(images)
    broken = copy.deepcopy(model).train()(images)
    assert has_folded_batch_norm(model)
    measure_batch_norm(model, [images[:8], images[8:]])
    assert not has_folded_batch_norm(model) and not model.training
    spread = max(float(raw.std()) for raw in expected)
    assert distance(model(images), expected) < 1e-3 * spread
    assert distance(model.train()(images), expected) < 1e-2 * spread
    assert distance(broken, expected) > 0.5 * spread, "what would have happened"


@pytest.mark.slow
@torch.no_grad()
def test_filters_that_folding_made_short_get_the_length_of_fresh_ones():
    """A short filter would get a gradient that is as much too long."""
    model = build_model(SMALL).eval()
    stem = model.backbone.backbone.stem.conv
    stem.conv.weight.mul_(0.01)
    measure_batch_norm(folded(model), [torch.randn(8, 3, 96, 96) * 20 + 114])
    assert torch.allclose(stem.conv.weight.flatten(1).norm(dim=1), torch.tensor(3**-0.5))


def test_networks_with_statistics_of_their_own_are_left_alone():
    fresh = build_model(SMALL)
    assert not has_folded_batch_norm(fresh)
    partly = folded(build_model(SMALL))
    partly.backbone.lateral_conv0.bn.running_mean += 0.1
    assert not has_folded_batch_norm(partly)
    assert not has_folded_batch_norm(torch.nn.Conv2d(3, 3, 1))
