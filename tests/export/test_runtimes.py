"""Exported files of every make-up, run: as a network for all flags, and whole, as other programs run them."""

import dataclasses
import shutil

import cv2
import numpy as np
import pytest
import torch

from tests.detect.seeing import picture
from yolofast import Detector
from yolofast.cli import main
from yolofast.decoding import decode
from yolofast.detect.networks import read_trained
from yolofast.errors import UserError
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.facts import IMAGES, PREDICTIONS
from yolofast.export.runtimes.contract import Session, format_of, open_session
from yolofast.export.runtimes.detections import detect
from yolofast.export.runtimes.network import ExportedNetwork

onnx = pytest.importorskip("onnx", reason="the extra yolofast[onnx] is not installed")
from yolofast.export.formats.onnx_graph import _put_around, part_of  # noqa: E402
from yolofast.export.formats.onnx_nodes import Nodes, add_efficient_nms, add_preparation, add_suppression  # noqa: E402

pytestmark = pytest.mark.slow
PICTURES = [picture(1, 48, 64), picture(2, 64, 30), picture(3, 90, 60)]


def variant(exported, path, **changes):
    """The exported network with other things around it: nothing is traced again."""
    session = open_session(exported / "model", "onnx")
    facts = dataclasses.replace(session.facts, **changes)
    model = part_of(onnx.load(exported / "model" / "best.onnx"), [IMAGES], [PREDICTIONS])
    before, behind = Nodes("image"), Nodes("nms")
    if facts.nms == "onnx":
        add_suppression(behind, facts)
    if facts.nms == "efficientnms":
        add_efficient_nms(behind, facts)
    if facts.image_order:
        add_preparation(before, facts)
    _put_around(model, before, behind, facts)
    onnx.helper.set_model_props(model, facts.metadata())
    onnx.save(model, path)
    return path


VARIANTS = {
    "suppressed": {},
    "raw": {"nms": "none"},
    "yolov7s names": {"end2end": True},
    "prepares bgr": {"image_order": "bgr"},
    "prepares rgb": {"image_order": "rgb", "end2end": True},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_make_up_detects_as_the_weights(name, exported, tmp_path):
    path = variant(exported, tmp_path / "model.onnx", **VARIANTS[name])
    session = open_session(path, "onnx")
    whole = detect(session, PICTURES)
    # The file has one size, so the weights' own detector is given images that are padded as the file pads them.
    found = Detector(path).predict(PICTURES)
    inside = bool(session.facts.image_order)
    for one, ours in zip(whole, found, strict=True):
        assert len(one) > 1 and abs(len(one) - len(ours)) <= (2 if inside else 0)
        if not inside:  # resized inside, single levels are rounded differently
            np.testing.assert_array_equal(one.labels, ours.labels)
            np.testing.assert_allclose(one.boxes, ours.boxes, atol=1e-2)
            np.testing.assert_allclose(one.scores, ours.scores, atol=1e-4)
    assert detect(session, []) == []


class Suppressing(Session):
    """As an engine with its suppression fused: what comes before cannot be had. It takes two images a call."""

    predicts = False

    def __init__(self, session, network):
        self.facts = dataclasses.replace(session.facts, batch=2, conf=0.05)
        self._network, self.batches = network, []

    def run(self, inputs):
        images = torch.from_numpy(inputs[IMAGES])
        self.batches.append(len(images))
        with torch.no_grad():
            predictions = decode(self._network.eval()(images), self._network)
        rows = np.zeros((len(images), self.facts.max_det, 6), np.float32)
        thresholds = Thresholds(conf=0.05, iou=self.facts.iou, multi_label=False, max_detections=self.facts.max_det)
        for row, one in zip(rows, thresholds.detections(predictions), strict=True):
            row[: len(one)] = np.concatenate((one.boxes, one.scores[:, None], one.labels[:, None]), axis=1)
        return {"detections": rows}

    def predict(self, images):
        raise NotImplementedError


def test_detections_serve_where_predictions_cannot_be_had(exported):
    session = Suppressing(open_session(exported / "model", "onnx"), read_trained(exported / "best.pt").model)
    square = [picture(seed, 64, 64) for seed in range(3)]
    network = ExportedNetwork(session)
    levels = torch.from_numpy(np.stack(square)[..., ::-1].transpose(0, 3, 1, 2).copy()).float() / 255
    found = Thresholds(conf=0.25, iou=session.facts.iou, multi_label=False).detections(network(levels)[0])
    assert session.batches == [2, 2], "the second batch is filled up"
    for one, wanted in zip(found, Detector(exported / "best.pt").predict(square, iou=session.facts.iou), strict=True):
        assert len(one) == len(wanted.scores) > 5
        np.testing.assert_allclose(one.boxes.clip(0, 64), wanted.boxes, atol=1e-3)
        np.testing.assert_allclose(one.scores, wanted.scores, atol=1e-5)
    assert [len(one) for one in detect(session, square)] >= [len(one) for one in found]


def test_tensorrts_suppression_is_not_asked_of_onnxruntime(exported, tmp_path):
    session = open_session(variant(exported, tmp_path / "model.onnx", nms="efficientnms"), "onnx")
    assert len(ExportedNetwork(session)(torch.zeros(1, 3, 64, 64))[0][0])
    with pytest.raises(UserError, match="EfficientNMS_TRT, runs in TensorRT only\n  fix: export it without --nms"):
        detect(session, PICTURES)


def test_videos_are_tracked_with_a_file_as_with_its_weights(exported, tmp_path, monkeypatch, capsys):
    (tmp_path / "seq").mkdir()
    for number in range(3):  # square, so that the weights' own detector pads them no less than the file does
        cv2.imwrite(str(tmp_path / "seq" / f"{number}.png"), picture(number, 64, 64))
    monkeypatch.chdir(tmp_path)
    tracked = ["--track", "track_high_thresh=0.1", "new_track_thresh=0.1", "cmc_method=none"]
    for name, weights in (("weights", "best.pt"), ("file", "model")):
        flags = ["--weights", str(exported / weights), "--source", "seq", "--project", ".", "--name", name, *tracked]
        assert main(["track", *flags]) == 0, capsys.readouterr().err
    ours, theirs = (next((tmp_path / name).glob("**/seq.txt")).read_text() for name in ("weights", "file"))
    assert [line.split(",")[:2] for line in ours.splitlines()] == [line.split(",")[:2] for line in theirs.splitlines()]
    assert ours


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda folder: Detector(folder / "model", cfg="yolov7-tiny"), "an exported file holds its network"),
        (lambda folder: Detector(folder / "missing.onnx"), "there is no such file"),
        (lambda folder: Detector(folder / "two"), "has 2 files that end in .onnx"),
        (lambda folder: Detector(folder / "model").predict(PICTURES, augment=True), "64×64 pixels, not"),
    ],
)
def test_refusals(use, message, exported, tmp_path):
    (tmp_path / "two").mkdir()
    for name in ("model/best.onnx", "two/a.onnx", "two/b.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(exported / "model" / "best.onnx", tmp_path / name)
    with pytest.raises(UserError, match=message):
        use(tmp_path)


def test_a_file_is_not_trained(exported, capsys):
    assert main(["train", "--weights", str(exported / "model" / "best.onnx"), "--data", "shapes"]) == 2
    assert (
        "can be run but neither trained nor changed\n  fix: name the weights it was made of" in capsys.readouterr().err
    )


def test_formats_are_told_by_their_endings(exported):
    assert format_of(exported / "model") == format_of("any.ONNX") == "onnx"
    assert format_of(exported / "best.pt") is None and format_of(exported / "images") is None
