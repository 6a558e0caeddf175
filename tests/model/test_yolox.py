"""The YOLOX networks, number for number (tests/golden/README.md)."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.golden.inputs import fill, image
from tests.loss.test_yolox import golden_maps, items
from yolofast import UserError, build_loss, build_model, decode, fuse, reparameterise
from yolofast.model.freeze import frozen_of
from yolofast.model.summary import summarise
from yolofast.structures import Targets

GOLDEN = Path(__file__).parents[1] / "golden"
ARCHITECTURES = json.loads((GOLDEN / "yolox_architectures.json").read_text())
LOSSES = json.loads((GOLDEN / "yolox_losses.json").read_text())
CELLS = np.repeat((8, 16, 32), (64, 16, 4))
"""The stride of each prediction on an image of 64 pixels."""


def on_meta(name, **kwargs):
    with torch.device("meta"):
        return build_model(name, **kwargs)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("case", ARCHITECTURES)
def test_parameters_and_names(case):
    golden = ARCHITECTURES[case]
    name, nc = case.split(".nc")
    model = on_meta(name, nc=int(nc))
    assert parameters(model) == golden["params"]
    if "state_dict" in golden:
        ours = {key: list(tensor.shape) for key, tensor in model.state_dict().items()}
        assert list(ours.items()) == list(golden["state_dict"].items()), "same names and shapes, in the same order"
    for module, count in golden.get("modules", {}).items():
        assert parameters(model.get_submodule(module)) == count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yolox-nano", "yolox-s"])
def test_forward_in_double_precision(name):
    """What is left is the rounding of the golden numbers. With these weights many sizes overflow, as the logarithm
    shows: there they are held at e³⁰ cells."""
    model = fill(build_model(name, nc=7)).double().eval()
    golden = np.load(GOLDEN / "yolox_forward.npz")[f"{name}.eval"].astype(np.float64)
    with torch.no_grad():
        raw = model(image("image", 2, 64).double() * 255)
        ours = decode(raw, model).double().numpy()
    largest = max(float(raw_map.abs().max()) for raw_map in raw)
    assert np.abs(ours[..., :2] - golden[..., :2]).max() <= 1e-5 * np.abs(golden[..., :2]).max()
    assert np.abs(ours[..., 4:] - golden[..., 4:]).max() <= 1e-3
    cells = CELLS[:, None]
    in_cells = golden[..., 2:4] / cells
    shown = in_cells > 1e-30  # smaller ones are rounded to nothing
    expected = np.log(in_cells.clip(1e-30, None)).clip(None, 30.0)
    difference = np.abs(np.log((ours[..., 2:4] / cells).clip(1e-30, None)) - expected)
    assert shown.mean() > 0.3 and difference[shown].max() <= 1e-5 * largest


# Computed with the published code: GFLOPs of the convolutions at the size a network is meant for.
GFLOPS = {"nano": 1.05, "tiny": 6.41, "s": 26.69, "m": 73.53, "l": 155.29, "x": 281.41}


@pytest.mark.slow
@pytest.mark.parametrize("size", GFLOPS)
def test_gflops(size):
    model = on_meta(f"yolox-{size}")
    pixels = model.inputs.size
    assert pixels == (416 if size in ("nano", "tiny") else 640)
    assert round(summarise(model, (pixels, pixels)).gflops, 2) == GFLOPS[size]


@pytest.mark.slow
def test_summary_of_l_with_seven_classes():
    summary = summarise(on_meta("yolox-l", nc=7), (800, 1440))
    assert summary.parameters == 54_152_612
    assert round(summary.gflops, 1) == 435.9
    assert summary.parts == {"backbone": 27_075_968, "neck": 19_523_072, "head": 7_553_572}
    rows = {row.name: row.parameters for row in summary.sections}
    assert rows["backbone.dark5"] == 17_316_864 and rows["neck.C3_n4"] == 9_971_712
    head = {"stems": 460_288, "cls_convs": 3_542_016, "reg_convs": 3_542_016}
    head |= {"cls_preds": 5_397, "reg_preds": 3_084, "obj_preds": 771}
    assert {name: rows[f"head.{name}"] for name in head} == head
    assert summary.outputs == ((1, 1, 100, 180, 12), (1, 1, 50, 90, 12), (1, 1, 25, 45, 12))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frozen", "trainable"),
    [
        (["backbone", "neck"], 7_553_572),
        (["backbone"], 27_076_644),
        (["backbone.stem", "dark[234]"], 44_393_508),
        (["head"], 46_599_040),
        (["*.bu_conv?"], 54_152_612 - 590_336 - 2_360_320),
        ([0], 54_152_612),
    ],
)
def test_freezing_by_name(frozen, trainable):
    """The first three are the phases of the nuScenes plan: head; neck too; dark5 too."""
    model = on_meta("yolox-l", nc=7)
    shut = frozen_of(model, frozen)
    assert sum(parameters(layer.module) for index, layer in enumerate(model.layers) if index not in shut) == trainable


def test_the_backbone_does_not_take_the_neck_along():
    """In the state dict the neck's names begin with `backbone.` too."""
    model = on_meta("yolox-nano")
    for pattern in ("backbone", "backbone.*"):
        parts = {model.layers[index].part for index in frozen_of(model, [pattern])}
        assert parts == {"backbone"}


def test_parts_of_a_graph_have_names_too():
    model = on_meta("yolov7-tiny")
    assert frozen_of(model, ["backbone"]) == frozen_of(model, [29]) == frozenset(range(29))
    assert max(frozen_of(model, ["neck", "backbone"])) == 73


@pytest.mark.parametrize(
    ("frozen", "what"),
    [([10], "have no numbers"), (["dark6"], "names nothing.*dark5"), (["neck", 3], "mixes numbers and names")],
)
def test_what_cannot_be_frozen(frozen, what):
    with pytest.raises(UserError, match=what):
        frozen_of(on_meta("yolox-nano"), frozen)


def test_rare_things_start_rare():
    head = build_model("yolox-nano", nc=3).head
    for convs in (head.cls_preds, head.obj_preds):
        assert all(torch.allclose(conv.bias, torch.tensor(-math.log(99))) for conv in convs)
    assert all(conv.bias.std() > 0 for conv in head.reg_preds)


@pytest.mark.slow
def test_fused_is_the_same_network():
    model = fill(build_model("yolox-nano", nc=2)).double().eval()
    fused = fuse(model)
    x = image("image", 1, 64).double() * 255
    with torch.no_grad():
        for ours, theirs in zip(fused(x), model(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fused.modules())
    with pytest.raises(UserError, match="no deploy form"):
        reparameterise(model)


def test_raw_maps_and_anchors_follow_the_contract():
    model = build_model("yolox-nano", nc=4).eval()
    raw = model(torch.rand(2, 3, 64, 96) * 255)
    assert [tuple(raw_map.shape) for raw_map in raw] == [(2, 1, 8, 12, 9), (2, 1, 4, 6, 9), (2, 1, 2, 3, 9)]
    assert model.anchors_px.tolist() == [[[8.0, 8.0]], [[16.0, 16.0]], [[32.0, 32.0]]]
    assert decode(raw, model).shape == (2, 96 + 24 + 6, 9)
    channels_last = model.to(memory_format=torch.channels_last)(
        torch.rand(2, 3, 64, 64).to(memory_format=torch.channels_last)
    )
    assert all(raw_map.is_contiguous() for raw_map in channels_last), "read row by row without a copy"


def test_with_one_class_the_score_is_still_a_product():
    """Suppression reads the objectness alone then; YOLOv7 means just that, YOLOX does not."""
    model = build_model("yolox-nano", nc=1).eval()
    raw = [torch.zeros(1, 1, n, n, 6) for n in (4, 2, 1)]
    raw[0][..., 4], raw[0][..., 5] = 1.0, -2.0
    predictions = decode(raw, model)
    assert predictions[0, 0, 4].item() == pytest.approx(1 / (1 + math.exp(-1)) / (1 + math.exp(2)))
    assert predictions[0, 0, 5].item() == pytest.approx(1 / (1 + math.exp(2)))


@pytest.mark.parametrize("case", LOSSES)
def test_golden_losses_through_the_network_s_own_layout(case):
    spec = LOSSES[case]
    model = build_model("yolox-nano", nc=spec["nc"])
    with np.load(GOLDEN / "yolox_losses.npz") as arrays:
        labels, golden = torch.from_numpy(arrays[f"{case}.labels"]), arrays[f"{case}.items"]
    raw = [raw_map.permute(0, 2, 3, 1)[:, None] for raw_map in golden_maps(case)]
    assert [m.shape[4] for m in raw] == [5 + model.layout.nc] * 3
    loss = build_loss(model, {"use_l1": spec["use_l1"]}, spec["size"])
    terms = loss(raw, Targets.from_padded(labels, spec["size"], spec["size"]))
    assert items(terms).numpy() == pytest.approx(golden, rel=1e-6)


@pytest.mark.slow
def test_every_weight_learns():
    torch.manual_seed(0)
    model = build_model("yolox-nano", nc=3).train()
    rows = torch.tensor([[0, 1, 0.5, 0.5, 0.4, 0.3], [1, 2, 0.3, 0.6, 0.2, 0.2]])
    loss = build_loss(model, {"use_l1": True}, 64)
    loss(model(torch.rand(2, 3, 64, 64) * 255), Targets.from_rows(rows, 2)).total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    # A level without a box learns only that there is none.
    assert all(p.grad.any() for name, p in model.named_parameters() if not name.startswith(("head.cls", "head.reg_pr")))
