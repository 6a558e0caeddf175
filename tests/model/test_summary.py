import pytest
import torch

from tests.model.sizes import large_ones_slow
from tests.model.small import SMALL, small
from yolofast import UserError, build_model
from yolofast.model.freeze import frozen_layers
from yolofast.model.summary import summarise

# Published: GFLOPs at 640², 80 classes.
GFLOPS = {
    "cfg/training/yolov7-tiny.yaml": 13.70,
    "cfg/training/yolov7.yaml": 105.77,
    "cfg/training/yolov7x.yaml": 189.67,
    "cfg/training/yolov7-w6.yaml": 105.03,
    "cfg/training/yolov7-e6.yaml": 147.02,
    "cfg/training/yolov7-d6.yaml": 201.52,
    "cfg/training/yolov7-e6e.yaml": 228.96,
    "cfg/training/yolov7-tiny-1b4h.yaml": 13.83,
    "cfg/training/yolov7-tiny-1b4h-attn.yaml": 13.84,
    "cfg/deploy/yolov7x.yaml": 189.67,
    "cfg/deploy/yolov7-w6.yaml": 89.93,
    "cfg/deploy/yolov7-e6e.yaml": 210.55,
}


def on_meta(cfg):
    with torch.device("meta"):
        return build_model(cfg)


@pytest.mark.slow
@pytest.mark.parametrize("cfg", large_ones_slow(GFLOPS))
def test_gflops_and_sections(cfg):
    model = on_meta(cfg)
    summary = summarise(model, (640, 640))
    assert round(summary.gflops, 2) == GFLOPS[cfg]
    covered = [i for row in summary.sections for i in range(row.first, row.last + 1)]
    assert covered == list(range(len(model.model))), "sections cover every layer once"
    assert sum(row.parameters for row in summary.sections) == summary.parameters
    if cfg == "cfg/training/yolov7-tiny.yaml":
        head = summary.sections[-1]
        assert (head.name, head.first, head.last) == ("head", 74, 77)


@pytest.mark.slow
def test_fused_gflops():
    from yolofast import fuse

    assert round(summarise(fuse(on_meta("cfg/deploy/yolov7.yaml")), (640, 640)).gflops, 2) == 104.51


@pytest.mark.slow
def test_freeze_fractions_of_tiny_1b4h():
    model = on_meta("yolov7-tiny-1b4h")
    rows = summarise(model, (64, 64)).layers
    total = sum(row.parameters for row in rows)
    for freeze, share in ((10, 99.1), (20, 92.1), (29, 60.7), (30, 58.6), (50, 46.8), (74, 29.0)):
        frozen = frozen_layers([freeze], len(model.model))
        assert round(100 * sum(row.parameters for row in rows if row.first not in frozen) / total, 1) == share
    for freeze, trainable in ((29, 3_803_140), (74, 1_819_780)):
        assert summarise(model, (64, 64), frozen_layers([freeze], len(model.model))).trainable == trainable


def test_several_values_freeze_exactly_those_layers():
    assert frozen_layers([0], 78) == frozenset()
    assert frozen_layers([3], 78) == {0, 1, 2}
    assert frozen_layers([3, 5], 78) == {3, 5}
    for values in ([79], [-1], [3, 78]):
        with pytest.raises(UserError, match="does not exist"):
            frozen_layers(values, 78)


def test_activation_memory_is_what_autograd_really_keeps():
    """The estimate against the bytes counted in a real training forward on the CPU."""
    model = small("IDetect").train()
    seen, total = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}, 0
    held = []

    def pack(tensor):
        nonlocal total
        held.append(tensor)
        if tensor.untyped_storage().data_ptr() not in seen:
            seen.add(tensor.untyped_storage().data_ptr())
            total += tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(torch.rand(2, 3, 64, 96))
    assert summarise(model, (64, 96)).activation_bytes == pytest.approx(total / 2, rel=0.02)


def test_output_shapes_and_image_size():
    summary = summarise(small("IAuxDetect"), (64, 96))
    assert summary.outputs == ((1, 2, 8, 12, 8), (1, 2, 4, 6, 8))
    with pytest.raises(UserError, match="not a multiple of the largest stride, 16") as caught:
        summarise(small("IDetect"), (100, 100))
    assert caught.value.fix == "use --img 96"


@pytest.mark.parametrize("cfg", ["yolox-nano", "yolov7-tiny"])
def test_every_layer_of_backbone_and_neck_has_its_output(cfg):
    rows = [row for row in summarise(build_model(cfg), (64, 64)).layers if row.part != "head"]
    assert rows and all(row.output for row in rows)


def test_a_layer_nothing_depends_on():
    cfg = {**SMALL, "backbone": [*SMALL["backbone"], [1, 1, "Conv", [8, 1]]]}
    cfg["head"] = [*SMALL["head"][:-1], [[5, 6], 1, "IDetect", ["nc", "anchors"]]]
    summary = summarise(build_model(cfg), (64, 64))
    assert summary.layers[4].output == ()
    assert sum(row.parameters for row in summary.sections) == summary.parameters


def test_the_given_model_is_untouched():
    model = small("IDetect").eval()
    summarise(model, (64, 64))
    assert not model.training
    assert not model.model[0]._forward_hooks
    assert model.model[0].conv.weight.device.type == "cpu"
