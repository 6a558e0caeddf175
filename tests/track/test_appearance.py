"""Vectors of detections: exact against a slow loop, alike for the same object, from the detector's own pass."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.detect.seeing import picture, save_seeing
from tests.track.scenes import still_images
from yolofast import Detector, UserError, build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.cli import main
from yolofast.dataset.shapes.moving import MovingScene
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.track.appearance import NeckFeatures, OnnxReid, average_over_boxes, crop
from yolofast.track.formats.read_detections import read_detections

BOXES = [[3.0, 5.0, 40.0, 30.0], [-6.0, -2.0, 11.0, 50.0], [20.0, 20.0, 20.0, 20.0], [30.0, 10.0, 90.0, 47.5]]


def slow_mean(map_, box, stride):
    """Of one box: each of its 8 × 8 points by itself."""
    channels, rows, columns = map_.shape
    total = np.zeros(channels)
    for i in range(8):
        for j in range(8):
            x = (box[0] + (box[2] - box[0]) * (i + 0.5) / 8) / stride - 0.5
            y = (box[1] + (box[3] - box[1]) * (j + 0.5) / 8) / stride - 0.5
            x, y = min(max(x, 0), columns - 1), min(max(y, 0), rows - 1)
            left, top = min(int(x), columns - 2), min(int(y), rows - 2)
            across, down = x - left, y - top
            total += (1 - across) * (1 - down) * map_[:, top, left] + across * (1 - down) * map_[:, top, left + 1]
            total += (1 - across) * down * map_[:, top + 1, left] + across * down * map_[:, top + 1, left + 1]
    return total / np.linalg.norm(total)


@pytest.fixture(scope="module", params=["yolov7", "yolox"])
def detector(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "some.pt"
    if request.param == "yolov7":
        return ImageDetector(save_seeing(path, img_size=96), device="cpu")
    torch.manual_seed(0)
    model = build_model("yolox-nano", nc=3)
    return ImageDetector(save_checkpoint(path, model_content(model, config={"img_size": [96]})), device="cpu")


@pytest.fixture(scope="module")
def scene():
    return MovingScene(2, 0, 128, 96, 4)


def test_means_equal_a_slow_loop():
    maps = torch.randn(2, 5, 6, 9, generator=torch.Generator().manual_seed(1))
    boxes = [np.array(BOXES), np.array(BOXES[:1]) + 8]
    found = average_over_boxes(maps, boxes, stride=8)
    for image, some in enumerate(boxes):
        expected = [slow_mean(maps[image].double().numpy(), box, 8) for box in some]
        np.testing.assert_allclose(found[image], expected, atol=2e-6)
        assert found[image].dtype == np.float64


def test_a_map_that_is_a_ramp_is_read_at_the_centre_of_a_box():
    x, y = torch.meshgrid(torch.arange(12.0), torch.arange(10.0), indexing="xy")
    ramp = torch.stack((x + 0.5, y + 0.5, torch.ones_like(x)))[None] * 16  # pixels at stride 16
    (found,) = average_over_boxes(ramp, [np.array([[32.0, 48.0, 96.0, 64.0]])], 16)
    np.testing.assert_allclose(found[0] / found[0, 2] * 16, [64, 56, 16], rtol=1e-6)


@pytest.mark.slow
def test_frames_without_boxes_and_several_at_once(detector):
    appearance = NeckFeatures(detector)
    images = [picture(seed, 64, 96) for seed in range(2)] + [picture(2, 96, 64)]
    boxes = [BOXES, [], BOXES[:2]]
    together = appearance.features(images, boxes)
    assert [len(one) for one in together] == [4, 0, 2] and together[1].shape[1] == together[0].shape[1]
    for image, some, found in zip(images, boxes, together, strict=True):
        np.testing.assert_allclose(appearance.features(image, some), found, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


@pytest.mark.slow
def test_one_pass_gives_detections_and_the_same_features(detector):
    appearance = NeckFeatures(detector)
    images = [picture(0, 64, 96), picture(1, 64, 96), picture(2, 96, 64)]
    for augment in (False, True):
        chosen = DetectionFilter(conf=1e-6, most=20, augment=augment)
        both = appearance.detect(images, chosen)
        plain = detector.detect(images, chosen)
        for image, (found, features), alone in zip(images, both, plain, strict=True):
            assert len(found) and found.boxes.tolist() == alone.boxes.tolist()
            np.testing.assert_allclose(features, appearance.features(image, found.boxes), atol=1e-4)
    assert not detector.model.get_submodule("head")._forward_pre_hooks  # nothing is left behind


@pytest.mark.slow
def test_the_same_object_is_more_alike_than_others(detector, scene):
    """Even a network that was never trained sees colours."""
    appearance = NeckFeatures(detector)
    frames = [scene.frame(tick / 30) for tick in range(0, 40, 2)]
    seen = [
        (appearance.features(image, [np.add(s.box, (0, 0, *s.box[:2])) for s in shapes]), [s.id for s in shapes])
        for image, all_shapes in frames
        if (shapes := [shape for shape in all_shapes if shape.visibility > 0.9])
    ]
    same, other = [], []
    for (one, ids), (two, next_ids) in pairwise(seen):
        equal = np.equal.outer(ids, next_ids)
        same += (one @ two.T)[equal].tolist()
        other += (one @ two.T)[~equal].tolist()
    assert len(same) > 20 and len(other) > 20
    assert np.median(same) > np.quantile(other, 0.9)


def test_mistakes(detector):
    appearance = NeckFeatures(detector)
    with pytest.raises(UserError, match="level is 7"):
        NeckFeatures(detector, level=7)
    with pytest.raises(UserError, match="2 images, but boxes of 1"):
        appearance.features([picture(0), picture(1)], [[]])
    with pytest.raises(UserError, match="finite"):
        appearance.features(picture(0), [[0, 0, np.nan, 9]])
    with pytest.raises(UserError, match="an image is"):
        appearance.features(np.zeros((4, 4), np.uint8), [])


def test_crops_are_cut_at_the_image_and_normalised():
    image = np.zeros((20, 30, 3), np.uint8)
    image[5:15, 10:20] = (0, 0, 255)  # red
    inside = crop(image, np.array([10.0, 5.0, 20.0, 15.0]), (8, 16))
    assert inside.shape == (3, 16, 8)
    np.testing.assert_allclose(inside[:, 3, 3], [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225], rtol=1e-5)
    for box in ([-9.0, -9.0, -3.0, -2.0], [28.7, 19.2, 99.0, 99.0], [4.0, 4.0, 4.0, 4.0]):
        assert np.isfinite(crop(image, np.array(box), (8, 16))).all()


@pytest.fixture(scope="module", params=["any number", "4 at once"])
def colour_network(request, tmp_path_factory):
    """Mean red, green and blue of a crop of 16 × 8, and a constant."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    count = "n" if request.param == "any number" else 4
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("GlobalAveragePool", ["crops"], ["means"]),
        helper.make_node("Flatten", ["means"], ["out"]),
    ]
    given = helper.make_tensor_value_info("crops", floats, [count, 3, 16, 8])
    graph = helper.make_graph(nodes, "colours", [given], [helper.make_tensor_value_info("out", floats, [count, 3])])
    path = tmp_path_factory.mktemp("onnx") / "colours.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_a_network_of_the_user(colour_network, scene):
    reid = OnnxReid(colour_network)
    images = [picture(0), picture(1), picture(2)]
    found = reid.features(images, [BOXES, [], BOXES[:3]])
    assert [one.shape for one in found] == [(4, 3), (0, 3), (3, 3)]
    for image, boxes, vectors in zip(images, ([*BOXES], [], BOXES[:3]), found, strict=True):
        for box, vector in zip(boxes, vectors, strict=True):
            expected = crop(image, np.array(box), (8, 16)).astype(np.float64).mean((1, 2))
            np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory):
    """Of crops of 32 × 16, as re-identification networks are made, in PyTorch and as an ONNX file."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.Conv2d(8, 16, 3, 2, 1)
    network = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    helper, shape = onnx.helper, {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["crops", "0.weight", "0.bias"], ["a"], **shape),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "2.weight", "2.bias"], ["c"], **shape),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["vectors"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", *sides])
        for name, sides in (("crops", (3, 32, 16)), ("vectors", (16,)))
    ]
    weights = [onnx.numpy_helper.from_array(value.numpy(), name) for name, value in network.state_dict().items()]
    graph = helper.make_graph(nodes, "convolutions", ends[:1], ends[1:], weights)
    path = tmp_path_factory.mktemp("onnx") / "convolutions.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return network, path


def test_a_network_gives_what_it_gives_in_pytorch(convolutions):
    network, path = convolutions
    found = OnnxReid(path).features(picture(0), BOXES)
    crops = torch.from_numpy(np.stack([crop(picture(0), np.array(box), (16, 32)) for box in BOXES]))
    with torch.no_grad():
        expected = torch.nn.functional.normalize(network(crops))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("tracker", ["botsort", "boosttrack"])
def test_tracking_with_a_network_of_the_user(convolutions, tracker, tmp_path):
    """From Python and by the command."""
    weights, path = save_seeing(tmp_path / "some.pt", img_size=64), convolutions[1]
    images = still_images(tmp_path / "seq", 4)
    easy = {"det_thresh": 0.2} if tracker == "boosttrack" else {"track_high_thresh": 0.2, "new_track_thresh": 0.2}
    detector = Detector(weights, device="cpu")
    frames = list(detector.track(images, tracker, reid=path, most=5, conf=0.2, **easy))
    assert len(frames[0].tracks) > 1 and frames[0].tracks.ids.tolist() == frames[-1].tracks.ids.tolist()
    words = ["--source", str(images), "--weights", str(weights), "--device", "cpu", "--tracker", tracker, "--nosave"]
    words += ["--reid", str(path), "--max-det", "5", "--conf", "0.2", "--project", str(tmp_path / "out")]
    assert main(["track", *words, "--save-detections", "--track", *(f"{key}={easy[key]}" for key in easy)]) == 0
    stored = read_detections(tmp_path / "out" / "exp" / "detections")
    assert stored.features.shape == (len(stored), 16)
    rows = np.loadtxt(tmp_path / "out" / "exp" / "seq.txt", delimiter=",")
    by_frame = [sorted(rows[rows[:, 0] == number, 1].astype(int).tolist()) for number in range(1, 5)]
    assert by_frame == [sorted(one.tracks.ids.tolist()) for one in frames]


def test_what_is_wrong_with_a_network_of_the_user(colour_network, tmp_path):
    onnx = pytest.importorskip("onnx")
    (tmp_path / "no.onnx").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not an ONNX network"):
        OnnxReid(tmp_path / "no.onnx")
    flat = onnx.load(colour_network)
    del flat.graph.input[0].type.tensor_type.shape.dim[3]
    onnx.save(flat, tmp_path / "flat.onnx")
    with pytest.raises(UserError, match=r"height, width|is not an ONNX network"):
        OnnxReid(tmp_path / "flat.onnx")


def test_without_the_file_or_what_runs_it(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="does not exist"):
        OnnxReid(tmp_path / "reid.onnx")
    (tmp_path / "reid.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"pip install 'yolofast\[reid\]'"):
        OnnxReid(tmp_path / "reid.onnx")
