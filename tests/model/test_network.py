"""What every network promises: names, modes, precisions, one graph for the compiler."""

import math
from fractions import Fraction

import pytest
import torch

from tests.model.small import SMALL, small
from yolofast import UserError, build_model, decode
from yolofast.model.head_config import read_head_config
from yolofast.resources import ROOT, find_resource, short_names

HEADS = ["Detect", "IDetect", "IAuxDetect", "IBin", "MultiHeadDetect", "MultiHeadDetectAttention"]


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def on_meta(cfg, **kwargs):
    with torch.device("meta"):
        return build_model(cfg, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("cfg/*/yolov7*.yaml")))
def test_every_packaged_graph_builds_by_the_path_users_type(path):
    assert on_meta(path).nc == 80


def test_short_names_mean_training_graphs():
    assert find_resource("yolov7-tiny", "cfg") == ROOT / "cfg/training/yolov7-tiny.yaml"
    assert find_resource("yolov7-tiny.yaml", "cfg") == ROOT / "cfg/training/yolov7-tiny.yaml"
    assert find_resource("yolov7-tiny-silu", "cfg") == ROOT / "cfg/deploy/yolov7-tiny-silu.yaml"
    assert find_resource("training/yolov7x.yaml", "cfg") == ROOT / "cfg/training/yolov7x.yaml"
    assert {"yolov7-tiny-320", "yolov7-tiny-480", "yolov7-tiny-640", "yolov7-320"} <= set(short_names("cfg"))


def test_a_file_of_the_users_wins_over_the_packaged_one(tmp_path, monkeypatch):
    own = tmp_path / "cfg/training/yolov7-tiny.yaml"
    own.parent.mkdir(parents=True)
    own.write_text((ROOT / "cfg/training/yolov7-tiny.yaml").read_text().replace("nc: 80", "nc: 3"))
    monkeypatch.chdir(tmp_path)
    assert on_meta("cfg/training/yolov7-tiny.yaml").nc == 3


def test_packaged_paths_do_not_lead_out_of_the_package():
    with pytest.raises(UserError, match="no such file"):
        find_resource("../../pyproject.toml", "cfg")


def test_320_anchors():
    model = on_meta("yolov7-tiny-320")
    assert model.graph.anchors == ((5, 8, 13, 12, 14, 32), (33, 27, 35, 59, 73, 49), (69, 123, 161, 105, 222, 188))


@pytest.mark.slow
@pytest.mark.parametrize("grouping", ["standard", "geometry", "anti-confusion"])
def test_1b4h_size_does_not_depend_on_the_grouping(grouping):
    assert parameters(on_meta("yolov7-tiny-1b4h", head_config=grouping)) == 6_267_556
    assert parameters(on_meta("yolov7-tiny-1b4h-attn", head_config=grouping)) == 6_440_764


@pytest.mark.slow
def test_1b4h_full_head_and_names():
    config = {**read_head_config("standard").to_dict(), "full_head": True}
    model = on_meta("yolov7-tiny-1b4h", head_config=config)
    assert parameters(model.head) == 916_980
    assert parameters(on_meta("yolov7-tiny-1b4h").head) == 269_700
    state = on_meta("yolov7-tiny-1b4h").state_dict()
    assert len(state) == 356
    assert state["model.77.heads.3.2.weight"].shape == (75, 512, 1, 1)
    assert model.head_config["full_head"] is True


@pytest.mark.slow
def test_1b4h_decodes_into_the_columns_of_all_classes():
    config = read_head_config("anti-confusion")
    model = build_model("yolov7-tiny-1b4h", head_config=config).eval()
    with torch.no_grad():
        raw = model(torch.rand(1, 3, 320, 320))
    assert [tuple(m.shape[1:]) for m in raw[:3]] == [(3, 40, 40, 6), (3, 20, 20, 6), (3, 10, 10, 6)]
    out = decode(raw, model)
    assert out.shape == (1, 25_200, 85)
    for head, group in enumerate(config.heads):
        scores = out[0, head * 6300 : (head + 1) * 6300, 5:]
        own = torch.zeros(80, dtype=torch.bool)
        own[list(group.classes)] = True
        assert (scores[:, own] > 0).all()
        assert (scores[:, ~own] == 0).all()
    local = raw[3 * 1][0].float().sigmoid()  # head 1, level 0: its classes in the order of the file
    torch.testing.assert_close(out[0, 6300 : 6300 + 4800, 5 + config.heads[1].classes[4]], local[..., 5 + 4].flatten())


def test_full_head_masks_foreign_classes():
    model = small("MultiHeadDetect", full_head=True).eval()
    out = decode(model(torch.rand(1, 3, 64, 64)), model)
    rows = out.shape[1] // 2
    assert (out[0, :rows, 5 + 1] == 0).all()  # class 1 belongs to the second head
    assert (out[0, rows:, 5 + 1] > 0).all()


@pytest.mark.parametrize("head", HEADS)
def test_both_modes_return_a_list_of_maps(head):
    model = small(head)
    images = torch.rand(2, 3, 64, 64)
    train, infer = model.train()(images), model.eval()(images)
    assert isinstance(train, list)
    assert isinstance(infer, list)
    assert len(train) == len(infer) * (2 if head == "IAuxDetect" else 1)
    assert all(m.shape[:4] == (2, 2, 64 // s, 64 // s) for m, s in zip(infer, model.layout.strides * 2, strict=False))
    rows = sum(2 * (64 // s) ** 2 for s in model.layout.strides) * model.layout.heads
    assert decode(infer, model).shape == (2, rows, 5 + model.nc)
    assert torch.equal(decode(train, model).isfinite().all(), torch.tensor(True))


def test_layers_that_only_feed_auxiliary_maps_do_not_run_at_inference():
    model = on_meta("yolov7-w6")
    assert model.inference_layers == list(range(118))


@pytest.mark.parametrize("head", ["IDetect", "IAuxDetect", "MultiHeadDetect"])
def test_bias_prior(head):
    model = small(head)
    reference = small(head, prior=False)
    for name, bias in model.head.named_parameters():
        if name.endswith("bias"):
            level = int(name.split(".")[-2])
            stride = model.layout.strides[level]
            added = (bias - reference.head.get_parameter(name)).view(2, -1)
            classes = added.shape[1] - 5
            torch.testing.assert_close(added[:, 4], torch.full((2,), math.log(8 / (640 / stride) ** 2)))
            torch.testing.assert_close(added[:, 5:], torch.full((2, classes), math.log(0.6 / (classes - 0.99))))
            assert not added[:, :4].any()


def test_batch_norm_settings():
    norms = [m for m in on_meta("yolov7-w6").modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {(m.eps, m.momentum) for m in norms} == {(1e-3, 0.03)}


def test_anchors_against_the_strides_are_turned_round():
    cfg = {**SMALL, "anchors": SMALL["anchors"][::-1]}
    assert torch.equal(build_model(cfg).anchors_px, build_model(SMALL).anchors_px)


def test_anchors_in_both_units():
    model = build_model(SMALL)
    assert model.anchors_px.tolist() == [[[10, 13], [16, 30]], [[30, 61], [62, 45]]]
    torch.testing.assert_close(model.head.anchors * torch.tensor([8.0, 16.0])[:, None, None], model.anchors_px)
    model.head.set_anchors(model.anchors_px * 2)
    assert model.anchors_px[1].tolist() == [[60, 122], [124, 90]]
    torch.testing.assert_close(model.head.anchors[0], torch.tensor([[2.5, 3.25], [4.0, 7.5]]))


def test_a_number_of_anchors_gives_usable_placeholders():
    model = build_model({**SMALL, "anchors": 3})
    assert model.anchors_px.shape == (2, 3, 2)
    assert (model.anchors_px > 0).all()


def test_strides_follow_from_the_graph_for_any_grammar():
    cfg = {
        **SMALL,
        "backbone": [
            [-1, 1, "ReOrg", []],
            [-1, 1, "Conv", [16, 3, 2]],
            [-1, 1, "DownC", [16]],
            [-1, 2, "Conv", [16, 3, 1]],
            [-1, 1, "nn.MaxPool2d", [2]],
        ],
        "head": [[-1, 1, "nn.Upsample", ["None", 2, "nearest"]], [[5, 4], 1, "Detect", ["nc", "anchors"]]],
    }
    model = build_model(cfg)
    assert model.layout.strides == (8, 16)
    assert [m.shape[2] for m in model(torch.rand(2, 3, 64, 64))] == [8, 4]
    assert "model.3.1.conv.weight" in model.state_dict()


def test_width_and_depth_multiples():
    model = build_model({**SMALL, "width_multiple": 0.3, "depth_multiple": 0.5, "backbone": [
        [-1, 1, "Conv", [24, 3, 2]], [-1, 6, "Conv", [32, 3, 1]],
        [-1, 1, "Conv", [32, 3, 2]], [-1, 1, "Conv", [32, 3, 2]],
    ]})  # fmt: skip
    assert len(model.model[1]) == 3
    assert model.model[0].conv.out_channels == 8  # 24 × 0.3 = 7.2, up to a multiple of 8
    assert model.model[2].conv.out_channels == 16  # 32 × 0.3 = 9.6
    assert model.model[4].rbr_dense[0].out_channels == 16  # na·(nc+5) = 16 is the head's own width: not scaled


@pytest.mark.parametrize("head", HEADS)
def test_channels_last_gives_the_same(head):
    model = small(head).eval()
    images = torch.rand(2, 3, 64, 64)
    plain = model(images)
    turned = model.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
    for a, b in zip(plain, turned, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head", HEADS)
def test_autocast_trains(head, dtype):
    model = small(head).train()
    with torch.autocast("cpu", dtype=dtype):
        raw = model(torch.rand(2, 3, 32, 32))  # half precision is slow on a CPU
    sum(m.float().square().mean() for m in raw).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_published_network_under_autocast_and_channels_last(dtype):
    model = build_model("yolov7-tiny").eval().to(memory_format=torch.channels_last)
    images = torch.rand(1, 3, 128, 128)
    with torch.no_grad():
        exact = decode(model(images), model)
        with torch.autocast("cpu", dtype=dtype):
            half = decode(model(images.contiguous(memory_format=torch.channels_last)), model)
    assert (half - exact).abs().max() / exact.abs().max() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("head", "training"), [*((head, True) for head in HEADS), ("IAuxDetect", False)])
def test_compiles_as_one_graph(head, training):
    """Only auxiliary maps make a difference between learning and not."""
    graphs = []

    def count(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    torch._dynamo.reset()
    model = small(head).train(training)
    images = torch.rand(2, 3, 64, 64)
    compiled = torch.compile(lambda x: decode(model(x), model), fullgraph=True, backend=count)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    expected = decode(model(images), model)
    model.load_state_dict(state)
    torch.testing.assert_close(compiled(images), expected)
    assert len(graphs) == 1


@pytest.mark.slow
def test_a_published_network_compiles_as_one_graph():
    """It has the blocks of yolov7-tiny and more; large ones take long, and are made of the same."""
    torch._dynamo.reset()
    model = build_model("yolov7-tiny-1b4h-attn").train()
    explanation = torch._dynamo.explain(model)(torch.rand(2, 3, 64, 64))
    assert explanation.graph_count == 1
    assert explanation.graph_break_count == 0


@pytest.mark.slow
def test_the_traced_network_trains_the_same_step():
    """Forward and backward as the compiler gets them; its kernels are tested with a whole step (`gears/`)."""
    torch._dynamo.reset()
    model = small("IDetect").train()
    images = torch.rand(2, 3, 64, 64)

    def loss(network):
        return sum(m.square().mean() for m in network(images))

    state = {k: v.clone() for k, v in model.state_dict().items()}
    eager = torch.autograd.grad(loss(model), list(model.parameters()))
    model.load_state_dict(state)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled = torch.autograd.grad(loss(traced), list(model.parameters()))
    for a, b in zip(eager, compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_fractional_strides_are_exact():
    from yolofast.model.module_table import BLOCKS, MapShape

    block = BLOCKS["nn.Upsample"]
    _, shape = block.build(MapShape(8, Fraction(8)), **block.bind("nn.Upsample", ("None", 3, "nearest")))
    assert shape.stride == Fraction(8, 3)
