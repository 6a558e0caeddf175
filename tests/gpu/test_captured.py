"""Detection captured as a graph on a GPU: the same objects as eagerly, for pictures of all sizes and batches of all."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detect import captured_comparisons as comparisons
from tests.detect.seeing import picture, save_seeing
from yolofast import Detector, build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.detect.captured import split
from yolofast.detect.letterbox import Pictures
from yolofast.evaluate.nms import Thresholds
from yolofast.fused.conv_act import ConvAct

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZES = [(48, 64), (64, 64), (200, 90), (30, 20), (64, 640)]


def test_the_kernels_compute_what_plain_torch_computes():
    comparisons.compare_all("cuda")


@pytest.mark.parametrize("shape", [(4, 32, 160, 160), (1, 256, 20, 20), (3, 48, 7, 9)])
@pytest.mark.parametrize(("outputs", "window", "stride"), [(64, 3, 1), (40, 1, 1), (128, 3, 2), (255, 1, 1)])
def test_all_ways_of_a_convolution(shape, outputs, window, stride):
    conv = torch.nn.Conv2d(shape[1], outputs, window, stride, window // 2).cuda()
    block = ConvAct(conv.half(), torch.nn.LeakyReLU(0.1))
    x = torch.randn(shape, device="cuda").half().contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        exact = torch.nn.functional.leaky_relu(conv.double()(x.double()), 0.1)
        for way in block._ways():
            y = block._run(x, None, True, way)[:, :outputs]
            assert (y.double() - exact).norm() / exact.norm() < 1e-3, way
        assert block._way(x) in list(block._ways())


@pytest.mark.parametrize("count", [1, 3, 70, 150])
def test_the_same_objects_as_eagerly(count, tmp_path):
    weights = save_seeing(tmp_path / "best.pt", img_size=64)
    eager, graph = (Detector(weights, device="0", precision="fp32", gear=gear) for gear in ("eager", "graph"))
    eager.predictor.inputs = replace(eager.predictor.inputs, whole=True)
    images = [picture(number, 64, 64) for number in range(count)]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for _ in range(2):  # captured, then replayed with others
        images = images[::-1]
        for ours, wanted in zip(graph.predict(images), eager.predict(images), strict=True):
            assert len(ours.scores) == len(wanted.scores) > 2
            np.testing.assert_array_equal(ours.labels, wanted.labels)
            np.testing.assert_allclose(ours.boxes, wanted.boxes, atol=1e-2, err_msg="both without TF32")
            np.testing.assert_allclose(ours.scores, wanted.scores, atol=1e-4)
    odd = graph.predict([picture(number, *size) for number, size in enumerate(SIZES)], conf=0.1)
    assert [(one.width, one.height) for one in odd] == [(width, height) for height, width in SIZES]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_is_replayed_is_what_is_computed(precision, tmp_path):
    """With all kernels: in two bytes, joined, of several batches, the last one not full."""
    torch.manual_seed(0)
    model = build_model("yolov7-tiny", nc=6)
    with torch.no_grad():
        for conv in model.head.m:
            conv.weight.mul_(300)
            conv.bias.zero_()
    weights = save_checkpoint(tmp_path / "best.pt", model_content(model, config={"img_size": [64]}))
    graph = Detector(weights, device="0", precision=precision, gear="graph")
    captured, chosen = graph._captured, Thresholds(conf=0.25, iou=0.45, multi_label=False)
    images = [picture(number, *SIZES[number % len(SIZES)]) for number in range(150)]
    found = captured.detect(images, chosen)
    assert len(found) == 150 and sum(map(len, found)) > 300
    pictures = Pictures.room_for(64, sum(one.size for one in images), torch.device("cuda"))
    host = Pictures.room_for(64, len(pictures.levels), None)
    for start in (0, 64):
        part = images[start : start + 64]
        pictures.copy_from(host, host.put(part, captured.shape, captured.inputs, captured.threads))
        for ours, wanted in zip(found[start:], split(captured.work(pictures, chosen).cpu().numpy()), strict=False):
            assert np.array_equal(ours.boxes, wanted.boxes) and np.array_equal(ours.scores, wanted.scores)


def test_other_thresholds_are_other_graphs_and_few_are_kept(tmp_path):
    graph = Detector(save_seeing(tmp_path / "best.pt", img_size=64), device="0", gear="graph")
    image = picture(1, 64, 64)
    counts = [len(graph.predict(image, conf=conf)[0].scores) for conf in np.linspace(0.1, 0.4, 12).tolist()]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    assert len(graph._captured._slots) <= 8
    assert len(graph.predict(image, conf=0.1)[0].scores) == counts[0]
