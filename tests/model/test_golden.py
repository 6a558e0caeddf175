"""The published networks, number for number (tests/golden/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.golden.inputs import fill, image
from tests.model.sizes import large_ones_slow
from yolofast import build_model, decode

GOLDEN = Path(__file__).parents[1] / "golden"
ARCHITECTURES = json.loads((GOLDEN / "v7_architectures.json").read_text())
FORWARD = np.load(GOLDEN / "v7_forward_sample.npz")
FORWARD_CASES = sorted({key.split(".train.")[0].removesuffix(".eval") for key in FORWARD})

# Published: parameters with 80 classes after fuse().
FUSED = {
    "training/yolov7-tiny": 6_221_370,
    "training/yolov7": 36_907_898,
    "training/yolov7x": 71_314_746,
    "training/yolov7-w6": 82_277_300,
    "training/yolov7-e6": 111_851_380,
    "training/yolov7-d6": 154_652_532,
    "training/yolov7-e6e": 166_335_860,
    "deploy/yolov7-tiny": 6_219_709,
    "deploy/yolov7": 36_905_341,
    "deploy/yolov7x": 71_311_741,
    "deploy/yolov7-w6": 70_394_300,
    "deploy/yolov7-e6": 97_202_940,
    "deploy/yolov7-d6": 133_757_052,
    "deploy/yolov7-e6e": 151_687_420,
    "training/yolov7-tiny-1b4h": 6_260_164,
    "training/yolov7-tiny-1b4h-attn": 6_433_372,
}


def on_meta(cfg, **kwargs):
    with torch.device("meta"):
        return build_model(cfg, **kwargs)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("cfg", large_ones_slow(ARCHITECTURES))
def test_architecture_layer_by_layer(cfg):
    golden = ARCHITECTURES[cfg]
    model = on_meta(f"cfg/{cfg}.yaml")
    assert parameters(model) == golden["params"]
    assert [parameters(layer) for layer in model.model] == [row["params"] for row in golden["layers"]]
    assert [layer.module for layer in model.graph.layers] == [row["module"] for row in golden["layers"]]
    assert list(model.layout.strides) == golden["strides"]
    assert model.graph.backbone_layers == golden["n_backbone"]
    assert [list(row) for row in model.graph.anchors] == golden["anchors"]
    if golden["state_dict"] is not None:
        ours = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
        assert list(ours.items()) == list(golden["state_dict"].items()), "same names and shapes, in the same order"


def test_every_published_cfg_is_covered():
    training = {f"training/yolov7{s}" for s in ("", "-tiny", "x", "-w6", "-e6", "-d6", "-e6e")}
    deploy = {f"deploy/yolov7{s}" for s in ("", "-tiny", "-tiny-silu", "x", "-w6", "-e6", "-d6", "-e6e")}
    assert set(ARCHITECTURES) == training | deploy
    assert len(FORWARD_CASES) == 6


@pytest.fixture
def undrawn(monkeypatch):
    """Convolutions get all their weights from `fill`."""
    monkeypatch.setattr(torch.nn.Conv2d, "reset_parameters", lambda module: None)


def filled(case):
    return fill(build_model(f"cfg/{case.replace('.', '/', 1)}.yaml"))


def images(case):
    return image("image", 2, 128 if "w6" in case else 64)


def relative_error(ours, golden):
    return np.abs(ours.detach().numpy().ravel()[::13] - golden).max() / np.abs(golden).max()


def golden_maps(case):
    return [FORWARD[f"{case}.train.{i}"] for i in range(sum(key.startswith(f"{case}.train.") for key in FORWARD))]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("case", large_ones_slow(FORWARD_CASES))
def test_forward_in_double_precision(case):
    """On any machine: what is left is the rounding of the golden numbers themselves.

    In training mode the coarsest maps are normalised over 8 values, which magnifies float32 rounding: the golden maps
    are 7e-5 (tiny) to 8e-4 (x) from the exact ones. A wrong layer is off by 0.1 and more.
    """
    model, x = filled(case).double(), images(case).double()
    with torch.no_grad():
        assert relative_error(decode(model.eval()(x), model), FORWARD[f"{case}.eval"]) <= 1e-5
        raw = model.train()(x)  # changes its statistics
        assert len(raw) == len(golden_maps(case))
        for ours, golden in zip(raw, golden_maps(case), strict=True):
            assert relative_error(ours, golden) <= 1e-3


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads", "undrawn")
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="float32 sums run in another order on this processor"
)
@pytest.mark.parametrize("case", [case for case in FORWARD_CASES if "tiny" in case])
def test_forward_in_single_precision(case):
    """Where sums run in the order they had when the golden numbers were made, with two threads, nothing is left.

    Large ones take long, and are the same layers."""
    model, x = filled(case), images(case)
    with torch.no_grad():
        assert relative_error(decode(model.eval()(x), model), FORWARD[f"{case}.eval"]) <= 1e-5
        for ours, golden in zip(model.train()(x), golden_maps(case), strict=True):
            assert relative_error(ours, golden) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("cfg", "expected"), FUSED.items())
def test_fused_parameters(cfg, expected):
    from yolofast import fuse

    assert parameters(fuse(on_meta(f"cfg/{cfg}.yaml"))) == expected


@pytest.mark.parametrize(("nc", "expected"), [(7, 6_031_224), (20, 6_066_402)])
def test_other_numbers_of_classes(nc, expected):
    assert parameters(on_meta("yolov7-tiny", nc=nc)) == expected
