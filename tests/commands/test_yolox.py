"""YOLOX as a user meets it: the table of its parts, published weights evaluated and asked about pictures."""

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from tests.detect.seeing import save_seeing
from tests.evaluate.plain_nms import plain_nms
from tests.sample_data import sample
from yolofast import Detector, build_model
from yolofast.cli import main
from yolofast.errors import UserError

GOLDEN = Path(__file__).parents[1] / "golden"
SIDE, NC = 96, 3


@pytest.mark.slow
def test_info_prints_every_module(capsys):
    assert main(["info", "--model", "yolox-l", "--nc", "7", "--freeze", "backbone", "neck"]) == 0
    out = capsys.readouterr().out
    for name, count in json.loads((GOLDEN / "yolox_architectures.json").read_text())["yolox-l.nc7"]["modules"].items():
        short = name.rpartition(".")[2]
        row = [line for line in out.splitlines() if line.split() and line.split()[0].endswith(f".{short}")]
        assert (len(row) == 1 and f"{count:,}" in row[0]) or name == "head"
    assert "54,152,612" in out and "head 7,553,572" in out and "7,553,572 (13.9%)" in out
    assert main(["info", "--model", "yolox-nano", "--freeze", "10"]) == 2
    assert "have no numbers" in capsys.readouterr().err


@pytest.mark.slow
def test_info_tells_the_cost_at_the_size_a_network_is_meant_for(capsys):
    assert main(["info", "--model", "yolox-nano"]) == 0
    assert "1.05 GFLOPs per image of 416×416" in capsys.readouterr().out
    assert main(["info", "--model", "yolox-nano", "--img", "320", "640"]) == 0
    assert "image of 320×640" in capsys.readouterr().out


def test_there_are_no_anchors_to_fit(capsys):
    assert main(["anchors", "--cfg", "yolox-nano", "--data", "nowhere.yaml"]) == 2
    assert "YOLOX has no anchors" in capsys.readouterr().err


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A file as YOLOX writes it, of a network that learned nothing but sees something everywhere."""
    torch.manual_seed(0)
    model = build_model("yolox-nano", nc=NC).train()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = 1.0  # statistics of what it is shown, so that not everything looks alike
        shown = np.stack([picture(seed, SIDE, SIDE) for seed in range(16)])
        model(torch.from_numpy(shown).permute(0, 3, 1, 2).float())
        for raw, *convs in zip(
            model.eval()(torch.from_numpy(shown).permute(0, 3, 1, 2).float()),
            model.head.reg_preds, model.head.obj_preds, model.head.cls_preds, strict=True,
        ):  # fmt: skip
            for conv, part, spread in zip(convs, (slice(4), slice(4, 5), slice(5, None)), (0.3, 1.0, 1.0), strict=True):
                conv.weight *= spread / raw[..., part].std()
                conv.bias.zero_()
    path = tmp_path_factory.mktemp("published") / "latest_ckpt.pth"
    content = {"start_epoch": 300, "model": model.state_dict(), "optimizer": {"state": {}}, "best_ap": 0.3}
    torch.save(content, path)
    return path, model


def picture(seed, height, width):
    """Patches of every size, so that every level has something to see."""
    draw = np.random.default_rng(seed)
    image = np.zeros((height, width, 3))
    for side in (2, 5, 11, 23):
        image += cv2.resize(draw.normal(0, 30, (side, side, 3)), (width, height), interpolation=cv2.INTER_NEAREST)
    return (image + 114).clip(0, 255).astype(np.uint8)


def plain_detections(model, image, conf, iou):
    """YOLOX's inference, step by step: rows x1, y1, x2, y2, score, label in the picture's pixels."""
    height, width = image.shape[:2]
    ratio = min(SIDE / height, SIDE / width)
    canvas = np.full((SIDE, SIDE, 3), 114, np.uint8)
    small = cv2.resize(image, (int(width * ratio), int(height * ratio)), interpolation=cv2.INTER_LINEAR)
    canvas[: small.shape[0], : small.shape[1]] = small
    with torch.no_grad():
        maps = model(torch.from_numpy(canvas).permute(2, 0, 1)[None].float())
    rows = []
    for raw, stride in zip(maps, (8, 16, 32), strict=True):
        for y, x in np.ndindex(*raw.shape[2:4]):
            values = raw[0, 0, y, x].numpy()
            centre, size = (values[:2] + (x, y)) * stride, np.exp(values[2:4]) * stride
            rows.append(np.concatenate((centre, size, 1 / (1 + np.exp(-values[4:])))))
    (found,) = plain_nms(np.array([rows], np.float32), conf, iou, multi_label=False)
    # The published code divides by the ratio, although sizes were cut off to whole pixels.
    found[:, :4] /= np.tile((small.shape[1] / width, small.shape[0] / height), 2)
    found[:, :4] = found[:, :4].clip(0, np.tile((width, height), 2))
    return found


def assert_same(ours, expected):
    """Rows x1, y1, x2, y2, score, label, in any order: scores may tie. Within 0.2 pixels and 0.0002 of the score, as a
    network that learned nothing magnifies rounding; a picture prepared otherwise is off by tens."""
    assert len(ours) == len(expected) > 5
    scale = np.array([1, 1, 1, 1, 1e3, 1e3])
    apart = np.abs((ours[:, None] - expected) * scale).max(axis=2)
    assert apart.min(axis=0).max() < 0.2 and apart.min(axis=1).max() < 0.2


@pytest.mark.slow
def test_pictures_are_seen_as_published(published):
    path, model = published
    image = picture(1, 100, 150)
    detector = Detector(path, size=SIDE, device="cpu")
    assert detector.names == ("0", "1", "2")
    (found,) = detector.predict(image, conf=0.3, iou=0.45)
    expected = plain_detections(model, image, 0.3, 0.45)
    assert_same(np.column_stack((found.boxes, found.scores, found.labels)), expected)
    assert Detector(path, device="cpu").size == 416, "what the published nano is meant for"


@pytest.mark.slow
def test_val_sees_and_counts_as_published(published, tmp_path, capsys):
    """From a score of 0.01 on, each box for its best class, shrunk linearly, padded behind to a square."""
    path, model = published
    images = {"tall.png": picture(2, SIDE, 64), "wide.png": picture(3, 111, 237)}
    (tmp_path / "labels").mkdir()
    (tmp_path / "images").mkdir()
    for name, image in images.items():
        (tmp_path / "images" / name).write_bytes(cv2.imencode(".png", image)[1].tobytes())
        (tmp_path / "labels" / name).with_suffix(".txt").write_text("1 0.5 0.5 0.4 0.4\n")
    (tmp_path / "data.yaml").write_text(f"path: {tmp_path}\nval: images\ntrain: images\nnc: 3\nnames: [a, b, c]\n")
    args = ["--data", tmp_path / "data.yaml", "--weights", path, "--img", SIDE, "--cache", "off", "--device", "cpu"]
    args += ["--save-json", "--no-plots", "--precision", "fp32", "--project", tmp_path / "val"]
    assert main(["val", *map(str, args)]) == 0, capsys.readouterr().err
    rows = json.loads((tmp_path / "val" / "exp" / "predictions.json").read_text())
    ids = sorted({row["image_id"] for row in rows}, key=str)
    assert len(ids) == 2
    for image_id, image in zip(ids, images.values(), strict=True):
        own = [row for row in rows if row["image_id"] == image_id]
        boxes = np.array([row["bbox"] for row in own])
        boxes[:, 2:] += boxes[:, :2]
        labels = np.array([row["category_id"] for row in own]) - min(row["category_id"] for row in rows)
        expected = plain_detections(model, image, 0.01, 0.65)
        assert_same(np.column_stack((boxes, [row["score"] for row in own], labels)), expected)


def seen_as_labels(folder, detector, count=4):
    """Pictures narrower than what they are fitted into, labelled with what is seen there, at that scale."""
    for name in ("images", "labels"):
        (folder / name).mkdir()
    for seed in range(count):
        image = picture(seed, 96, 80)
        (folder / "images" / f"{seed}.png").write_bytes(cv2.imencode(".png", image)[1].tobytes())
        (found,) = detector.predict(image, conf=0.5, most=8)
        corners = found.boxes / (80, 96, 80, 96)
        middle, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        rows = np.column_stack((found.labels, middle, size))
        (folder / "labels" / f"{seed}.txt").write_text("".join("{:.0f} {:f} {:f} {:f} {:f}\n".format(*r) for r in rows))
    (folder / "data.yaml").write_text(f"path: {folder}\nval: images\ntrain: images\nnc: 3\nnames: [a, b, c]\n")
    return folder / "data.yaml"


@pytest.mark.slow
def test_val_repeats_what_training_said_of_two_sides(published, tmp_path, capsys):
    """Weights that hardly move: what differs afterwards is how the pictures are shown."""
    data = seen_as_labels(tmp_path, Detector(published[0], size=(64, 128), device="cpu"))
    (tmp_path / "still.yaml").write_text("plan: [{train: [head], batch_norm: eval}]")
    usual = ["--data", data, "--device", "cpu", "--cache", "off", "--no-plots", "--project", tmp_path / "runs"]
    words = ["--weights", published[0], "--img", 64, 128, "--epochs", 1, "--batch-size", 4, "--workers", 0, *usual]
    words += ["--plan", tmp_path / "still.yaml", "--set", "basic_lr_per_img=1e-9", "multi_scale=false", "nms=0.6"]
    assert main(["train", *map(str, words)]) == 0, capsys.readouterr().err
    assert "data.yaml --conf-thres 0.01 --iou-thres 0.6\n" in capsys.readouterr().out
    with (tmp_path / "runs" / "exp" / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    said = float(row["metrics/mAP50(B)"]), float(row["metrics/mAP50-95(B)"])
    weights = tmp_path / "runs" / "exp" / "weights"
    best, last = (Detector(weights / name, device="cpu") for name in ("best.pt", "last.pt"))
    assert best.shape == last.shape == (64, 128) and best.size == 128
    assert said[0] > 0.4, "what it sees is what is there"
    # best.pt is in half precision, and a network that learnt nothing magnifies rounding.
    again = last.val(data, iou=0.6, cache="off", plots=False, project=tmp_path / "val")
    assert again.shape == (64, 128)
    assert (again.metrics.map50, again.metrics.map) == pytest.approx(said, abs=1e-3)
    square = last.val(data, img_size=(128, 128), cache="off", plots=False, project=tmp_path / "val")
    assert square.metrics.map < said[1] - 0.1, "twice as large"
    assert main(["val", *map(str, ["--weights", weights / "best.pt", *usual])]) == 0
    assert "64×128 pixels" in capsys.readouterr().out


def test_two_sides_are_not_for_yolov7(tmp_path, capsys):
    save_seeing(tmp_path / "some.pt", img_size=64)
    with pytest.raises(UserError, match=r"height and width are for YOLOX\n.*size=96"):
        Detector(tmp_path / "some.pt", size=(64, 96))
    assert Detector(tmp_path / "some.pt", size=(96, 96)).shape == (96, 96)
    with pytest.raises(UserError, match="size is"):
        Detector(tmp_path / "some.pt", size=(64, 96, 32))


def test_published_nano_reaches_its_ap(tmp_path, capsys):
    """Without cutting boxes off at the image's edge, as the golden figures do, they are equal to five digits."""
    golden = json.loads((GOLDEN / "yolox_nano_coco200.json").read_text())["stats"]
    weights, data = sample("yolox_nano.pth"), sample("coco200/data.yaml")
    args = ["--weights", weights, "--data", data, "--cache", "off", "--device", "cpu", "--save-json", "--no-plots"]
    assert main(["val", *map(str, args), "--project", str(tmp_path)]) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "exp" / "coco.json").read_text())["all"]
    assert found["ap"] == pytest.approx(golden["AP"], abs=0.002)
    assert found["ap50"] == pytest.approx(golden["AP50"], abs=0.002)
    assert "person" in Detector(weights, device="cpu").names
