"""Fusing and re-parameterising change the form of a network and not what it predicts."""

import pytest
import torch

from tests.golden.inputs import fill
from tests.model.sizes import large_ones_slow
from tests.model.small import SMALL, small
from yolofast import UserError, build_model, decode, fuse, reparameterise


def built(cfg):
    """Convolutions as they are drawn; everything that folding changes differs from what does nothing."""
    model = build_model(cfg).eval()
    for name, value in model.state_dict().items():
        if value.is_floating_point() and (value.ndim == 1 or name.endswith(".implicit")):
            change = 0.1 * torch.randn(value.shape)
            value.copy_(change.exp() if name.endswith("running_var") else value + change)
    return model


def predict(model, size):
    torch.manual_seed(1)
    with torch.no_grad():
        return decode(model(torch.rand(1, 3, size, size)), model)


@pytest.mark.slow
@pytest.mark.parametrize("cfg", large_ones_slow(["yolov7-tiny", "yolov7-tiny-1b4h-attn"]))
def test_fuse_keeps_the_predictions(cfg):
    size = 64
    model = built(cfg)
    before = predict(model, size)
    fused = fuse(model)
    after = predict(fused, size)
    assert (after - before).abs().max() / before.abs().max() < 1e-4
    assert (after[..., 4:] - before[..., 4:]).abs().max() < 1e-4
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in fused.modules())
    assert torch.equal(predict(model, size), before), "the given model is untouched"


def test_fuse_with_identity_branch_and_groups():
    cfg = {**SMALL, "head": [
        [2, 1, "RepConv", [16, 3, 1]], [3, 1, "RepConv", [32, 3, 1, None, 4]],
        [[4, 5], 1, "IDetect", ["nc", "anchors"]],
    ]}  # fmt: skip
    model = fill(build_model(cfg)).eval()
    assert model.model[4].rbr_identity is not None
    assert model.model[5].rbr_identity is not None
    torch.testing.assert_close(predict(fuse(model), 64), predict(model, 64), rtol=1e-4, atol=1e-4)


def test_fuse_twice_is_fuse_once():
    fused = fuse(fill(small("IDetect")))
    assert torch.equal(predict(fuse(fused), 64), predict(fused, 64))


def test_folding_order_adds_before_it_scales():
    """With a large scale, scaling first would change the bias by m·W·a against W·a."""
    model = small("IDetect").eval()
    for module in (*model.head.ia, *model.head.im):
        torch.nn.init.constant_(module.implicit, 3.0)
    torch.testing.assert_close(predict(fuse(model), 64), predict(model, 64), rtol=1e-4, atol=1e-4)


DEPLOY_HEADS = {"-tiny": 77, "": 105, "x": 121, "-w6": 118, "-e6": 140, "-d6": 162, "-e6e": 261}


@pytest.mark.slow
@pytest.mark.parametrize("name", large_ones_slow(["-tiny", ""]))
def test_deploying_keeps_the_predictions(name):
    """The larger ones are made of the same; `test_deploy_then_fuse` has their auxiliary head."""
    model = built(f"yolov7{name}")
    size = max(model.layout.strides) * 2
    before = predict(model, size)
    after = predict(reparameterise(model), size)
    assert (after - before).abs().max() / before.abs().max() < 1e-4
    assert (after[..., 4:] - before[..., 4:]).abs().max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", large_ones_slow(DEPLOY_HEADS))
def test_deploy_form_is_the_published_one(name, monkeypatch):
    monkeypatch.setattr(torch.nn.Conv2d, "reset_parameters", lambda module: None)  # only shapes are looked at
    result = reparameterise(build_model(f"yolov7{name}").eval())
    with torch.device("meta"):
        published = build_model(f"cfg/deploy/yolov7{name}.yaml")
    shapes = [{name: t.shape for name, t in m.state_dict().items()} for m in (result, published)]
    assert shapes[0] == shapes[1]
    assert [(s.sources, s.module, s.args) for s in result.graph.layers] == [
        (s.sources, s.module, s.args) for s in published.graph.layers
    ]
    assert len(result.model) - 1 == DEPLOY_HEADS[name]


@pytest.mark.slow
def test_deploy_then_fuse():
    model = fill(small("IAuxDetect")).eval()
    torch.testing.assert_close(predict(fuse(reparameterise(model)), 64), predict(model, 64), rtol=1e-4, atol=1e-4)


def test_deploy_keeps_changed_anchors_and_names():
    model = small("IDetect")
    model.head.set_anchors(model.anchors_px * 1.5)
    model.names = ("a", "b", "c")
    result = reparameterise(model)
    assert torch.equal(result.anchors_px, model.anchors_px)
    assert result.names == ("a", "b", "c")


@pytest.mark.parametrize("head", ["Detect", "IBin", "MultiHeadDetect"])
def test_heads_without_a_deploy_form_are_refused(head):
    with pytest.raises(UserError, match=f"ends in {head} has no deploy form"):
        reparameterise(small(head))


def test_fused_models_are_refused():
    with pytest.raises(UserError, match="has been fused already"):
        reparameterise(fuse(small("IDetect")))
