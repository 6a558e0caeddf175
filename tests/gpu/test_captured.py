"""Detection captured as a graph on a GPU: the same objects as eagerly, for pictures of all sizes and batches of all."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detect.seeing import picture, save_seeing
from yolofast import Detector
from yolofast.detect.captured import Pictures, letterbox
from yolofast.structures import InputConvention

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZES = [(48, 64), (64, 64), (200, 90), (30, 20), (64, 640)]


YOLOX = InputConvention(rgb=False, divisor=1.0, top_left=True)


@pytest.mark.parametrize("inputs", [InputConvention(), YOLOX])
def test_the_kernel_fits_pictures_as_torch_does(inputs):
    images = [picture(number, *size) for number, size in enumerate(SIZES)]
    host = Pictures.room_for(len(images), sum(one.size for one in images), None)
    device = Pictures.room_for(len(images), len(host.levels), torch.device("cuda"))
    with ThreadPoolExecutor(2) as threads:
        device.copy_from(host, host.put(images, (64, 96), replace(inputs, whole=True), threads))
    ours = letterbox(device, (64, 96), inputs, torch.float32).cpu() * inputs.divisor
    wanted = letterbox(host, (64, 96), inputs, torch.float32) * inputs.divisor
    assert (ours - wanted).abs().max() <= 1.001, "a product fused with a sum rounds otherwise"
    assert ((ours - wanted).abs() > 0.01).float().mean() < 0.01


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
            np.testing.assert_allclose(ours.boxes, wanted.boxes, atol=1e-2)
            np.testing.assert_allclose(ours.scores, wanted.scores, atol=1e-4)
    odd = graph.predict([picture(number, *size) for number, size in enumerate(SIZES)], conf=0.1)
    assert [(one.width, one.height) for one in odd] == [(width, height) for height, width in SIZES]


def test_other_thresholds_are_other_graphs_and_few_are_kept(tmp_path):
    graph = Detector(save_seeing(tmp_path / "best.pt", img_size=64), device="0", gear="graph")
    image = picture(1, 64, 64)
    counts = [len(graph.predict(image, conf=conf)[0].scores) for conf in np.linspace(0.1, 0.4, 12).tolist()]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    assert len(graph._captured._slots) <= 8
    assert len(graph.predict(image, conf=0.1)[0].scores) == counts[0]
