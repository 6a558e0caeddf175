"""Detection as one graph: what is captured, computed on the CPU, gives what the detector gives."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.detect.captured_comparisons import NETWORKS, compare_networks
from tests.detect.seeing import picture, save_seeing
from yolofast import Detector
from yolofast.detect.captured import CapturedDetector, split
from yolofast.detect.letterbox import Pictures, letterbox
from yolofast.detect.networks import read_trained
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.media.pictures import fit
from yolofast.precision import Precision
from yolofast.structures import InputConvention

PICTURES = [picture(1, 48, 64), picture(2, 64, 64), picture(3, 90, 50), picture(4, 30, 20)]
YOLOX = InputConvention(rgb=False, divisor=1.0, top_left=True, whole=True)


def put(images, shape, inputs, places=None):
    pictures = Pictures.room_for(places or len(images), sum(one.size for one in images), None)
    with ThreadPoolExecutor(2) as threads:
        assert pictures.put(images, shape, inputs, threads) == len(pictures.levels)
    return pictures


@pytest.mark.parametrize("inputs", [InputConvention(whole=True), YOLOX])
@pytest.mark.parametrize("shape", [(64, 64), (64, 96)])
def test_pictures_are_fitted_as_elsewhere(inputs, shape):
    found = letterbox(put(PICTURES, shape, inputs), shape, inputs, torch.float32).numpy() * inputs.divisor
    for one, image in zip(found, PICTURES, strict=True):
        wanted = fit(image, shape, 32, inputs).input.transpose(2, 0, 1).astype(float)
        differs = np.abs(one - (wanted[::-1] if inputs.rgb else wanted))
        assert differs.max() <= 1.001, "OpenCV's fixed point rounds some levels otherwise, by one"
        assert differs.mean() < 0.25
    same = letterbox(put(PICTURES[1:2], (64, 64), inputs), (64, 64), inputs, torch.float32)
    exact = PICTURES[1][..., ::-1] if inputs.rgb else PICTURES[1]
    np.testing.assert_allclose(same[0].permute(1, 2, 0) * inputs.divisor, exact, atol=1e-3)


@pytest.fixture
def weights(tmp_path):
    return save_seeing(tmp_path / "best.pt", img_size=64)


@pytest.mark.parametrize("settings", [{}, {"agnostic": True, "conf": 0.1}, {"classes": [0, 2], "max_detections": 3}])
def test_what_is_captured_finds_what_the_detector_finds(settings, weights):
    captured = CapturedDetector.__new__(CapturedDetector)
    captured._prepare(read_trained(weights).model, (60, 64), Precision.choose("fp32", "cpu"))
    assert captured.shape == (64, 64), "whole strides"
    chosen = Thresholds(**{"conf": 0.25, "iou": 0.45, "multi_label": False, **settings})
    square = [picture(seed, 64, 64) for seed in range(3)]  # not resized, so that pixels are the same
    found = split(captured.work(put(square, (64, 64), captured.inputs, places=4), chosen).numpy()[:3])
    detector = Detector(weights)
    detector.predictor.inputs = replace(detector.predictor.inputs, whole=True)
    names = {"conf": chosen.conf, "iou": chosen.iou, "agnostic": chosen.agnostic, "most": chosen.max_detections}
    wanted = detector.predict(square, classes=chosen.classes, **names)
    for one, ours in zip(found, wanted, strict=True):
        assert len(one) == len(ours.scores) > 2
        np.testing.assert_array_equal(one.labels, ours.labels)
        np.testing.assert_allclose(one.boxes, ours.boxes, atol=1e-3)
        np.testing.assert_allclose(one.scores, ours.scores, atol=1e-5)


def test_boxes_are_in_the_pictures_own_pixels(weights):
    captured = CapturedDetector.__new__(CapturedDetector)
    captured._prepare(read_trained(weights).model, (64, 64), Precision.choose("fp32", "cpu"))
    chosen = Thresholds(conf=0.01, iou=0.45, multi_label=False)
    found = split(captured.work(put(PICTURES, (64, 64), captured.inputs), chosen).numpy())
    for one, image in zip(found, PICTURES, strict=True):
        height, width = image.shape[:2]
        assert len(one) and one.boxes.min() >= 0 and (one.boxes <= [width, height, width, height]).all()
        assert one.boxes[:, 2].max() == pytest.approx(width, abs=8)


@pytest.mark.parametrize("cfg", NETWORKS)
def test_joins_and_padded_channels_change_nothing(cfg):
    compare_networks("cpu", {cfg: NETWORKS[cfg]}, torch.float32, 1e-5)


def test_numbers_are_as_coarse_as_the_caller_wants_them(weights):
    """With `cudnn.flags` TF32 would be on while the network runs, whatever was set."""
    captured = CapturedDetector.__new__(CapturedDetector)
    captured._prepare(read_trained(weights).model, (64, 64), Precision.choose("fp32", "cpu"))
    cudnn, seen = torch.backends.cudnn, []
    captured.network.register_forward_hook(lambda *_: seen.append((cudnn.allow_tf32, cudnn.benchmark)))
    before = cudnn.allow_tf32
    try:
        for cudnn.allow_tf32 in (False, True):
            captured.raw_maps(torch.zeros(1, captured.network.channels, 64, 64))
    finally:
        cudnn.allow_tf32 = before
    assert seen == [(False, True), (True, True)] and not cudnn.benchmark


def test_large_pictures_are_copied_in_pieces():
    large = np.random.default_rng(0).integers(0, 256, (700, 2000, 6), np.uint8)[..., ::2]  # lies in no piece in memory
    images = [PICTURES[0], large, PICTURES[3]]
    found = put(images, (64, 64), YOLOX)
    expected = np.concatenate([one.reshape(-1) for one in images])
    np.testing.assert_array_equal(found.levels.numpy(), expected)


def test_refusals(weights, tmp_path):
    with pytest.raises(UserError, match=r"gear graph needs a CUDA GPU, but this runs on the CPU\n  fix: omit it"):
        Detector(weights, gear="graph", device="cpu")
    with pytest.raises(UserError, match="captures one network of torch, not several networks"):
        Detector([weights, weights], gear="graph")
    with pytest.raises(UserError, match="gear is 'fast'"):
        Detector(weights, gear="fast")
