"""`dataset resize`: images smaller, labels as they were or scaled, and a data set that trains as before."""

import json

import cv2
import numpy as np
import pytest
from pycocotools import mask as published

from tests.dataset.formats.samples import OUTLINE, coco_files
from tests.dataset.make import coco, image, pixels, with_exif, write
from yolofast.cli import main
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.dataset.resize import Resizing
from yolofast.dataset.run_lengths import encoded_mask, resized_mask
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.image_index import fitted_size


@pytest.fixture
def coco_like(tmp_path, monkeypatch):
    """COCO as its users have it: lists, labels in text, the annotation file, sizes that differ."""
    monkeypatch.chdir(tmp_path)
    sizes = {"1": (640, 427), "2": (100, 80), "3": (333, 500)}
    for split, names in (("train2017", "12"), ("val2017", "3")):
        for name in names:
            image(tmp_path / f"coco/images/{split}/{name}.jpg", *sizes[name], seed=int(name))
            write(tmp_path / f"coco/labels/{split}/{name}.txt", "16 0.5 0.5 0.25 0.5\n15 0.1 0.1 0.125 0.125\n")
        write(tmp_path / f"coco/{split}.txt", "".join(f"./images/{split}/{name}.jpg\n" for name in names))
        listed = {int(name): (f"{name}.jpg", *sizes[name]) for name in names}
        boxes = [(int(name), 18, [10, 20, 30, 40], {"area": 1200, "iscrowd": 0}) for name in names]
        coco(tmp_path / f"coco/annotations/instances_{split}.json", listed, boxes, {18: "dog"})
    return tmp_path


def test_coco320_is_made_where_its_yaml_looks_for_it(coco_like, capsys):
    assert main(["dataset", "resize", "--data", "coco.yaml", "--img", "320", "--out", "coco320"]) == 0
    out = capsys.readouterr().out
    assert "3 images, 2 of them smaller than before" in out and "test is left out" in out
    for split, sizes in (("train", [(320, 213), (100, 80)]), ("val", [(213, 320)])):
        before, after = read_split("coco", split), read_split("coco320", split)
        assert after.sizes.tolist() == [list(size) for size in sizes]
        np.testing.assert_array_equal(before.boxes, after.boxes), "shares stay what they are"
        assert {str(after.path(i).parent) for i in range(len(after))} == {
            str(coco_like / f"coco320/images/{split}2017")
        }
        rounded = fitted_size(before.sizes, 320, 320)
        assert (after.sizes == np.minimum(rounded, before.sizes)).all(), "as training rounds"
    made = read_data_yaml("coco320/data.yaml")
    assert made.classes() == read_data_yaml("coco").classes() and made.entries("val") == ["images/val2017"]
    small = json.loads((coco_like / "coco320/annotations/instances_val2017.json").read_text())
    assert small["images"][0] | {"width": 213, "height": 320} == small["images"][0]
    across, down = 213 / 333, 320 / 500
    box = small["annotations"][0]["bbox"]
    assert box == pytest.approx([10 * across, 20 * down, 30 * across, 40 * down], abs=1e-3)
    assert small["annotations"][0]["area"] == pytest.approx(1200 * across * down, abs=1e-3)


def test_the_annotation_file_alone_is_found_too(coco_like):
    for labels in (coco_like / "coco320", coco_like / "coco/labels"):
        if labels.exists():
            labels.rename(coco_like / "gone")
    Resizing("coco", 320).make("coco320")
    index = read_split("coco320", "val")
    across, down = 1 / 333, 1 / 500
    np.testing.assert_allclose(index.boxes[0], [25 * across, 40 * down, 30 * across, 40 * down], atol=1e-5)
    assert index.names[index.labels[0]] == "dog"


def test_pixels_are_those_of_the_image_averaged(tmp_path):
    image(tmp_path / "x/images/train/a.png", 200, 100, seed=3)
    write(tmp_path / "x/labels/train/a.txt", "0 .5 .5 .5 .5\n")
    write(tmp_path / "x/data.yaml", "train: images/train\nnames: [cat]\n")
    Resizing(tmp_path / "x/data.yaml", 50).make(tmp_path / "out")
    small = cv2.imread(str(tmp_path / "out/images/train/a.png"))
    wanted = cv2.resize(pixels(200, 100, 3), (50, 25), interpolation=cv2.INTER_AREA)
    np.testing.assert_array_equal(small, wanted)


def test_a_turned_image_is_upright_and_its_labels_fit(tmp_path):
    image(tmp_path / "x/images/train/a.jpg", 100, 60)
    path = tmp_path / "x/images/train/a.jpg"
    path.write_bytes(with_exif(path.read_bytes(), 6))
    write(tmp_path / "x/data.yaml", "train: images/train\nnames: [cat]\n")
    Resizing(tmp_path / "x/data.yaml", 50).make(tmp_path / "out")
    assert cv2.imread(
        str(tmp_path / "out/images/train/a.jpg"), cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_COLOR
    ).shape == (50, 30, 3)


def test_files_of_one_name_and_splits_in_one_folder(tmp_path):
    """Roboflow's annotation files are called alike, and two lists may share a folder."""
    coco_files(tmp_path / "rf", "roboflow")
    write(tmp_path / "rf/data.yaml", "train: train\nval: valid\n")
    Resizing(tmp_path / "rf/data.yaml", 32).make(tmp_path / "out")
    train, val = (read_split(tmp_path / "out/data.yaml", split) for split in ("train", "val"))
    assert (len(train), len(val), len(train.labels), len(val.labels)) == (2, 1, 2, 1)
    outline = train.points[: train.point_starts[1]] * np.array([64, 48])
    np.testing.assert_allclose(outline.ravel(), OUTLINE, atol=0.02)
    for name in "ab":
        image(tmp_path / f"x/images/all/{name}.jpg")
    for split, name in (("train", "a"), ("val", "b")):
        write(tmp_path / f"x/{split}.txt", f"./images/all/{name}.jpg\n")
    write(tmp_path / "x/data.yaml", "train: train.txt\nval: val.txt\nnames: [cat]\n")
    Resizing(tmp_path / "x/data.yaml", 32).make(tmp_path / "again")
    data = read_data_yaml(tmp_path / "again/data.yaml")
    assert (data.entries("train"), data.entries("val")) == (["train.txt"], ["val.txt"])


def test_a_damaged_image_stops_it_and_nothing_is_left(tmp_path):
    for name in "ab":
        image(tmp_path / f"x/images/train/{name}.jpg", 200, 100)
    (tmp_path / "x/images/train/a.jpg").write_bytes(b"no image")
    write(tmp_path / "x/data.yaml", "train: images/train\nnames: [cat]\n")
    with pytest.raises(UserError, match=r"the train split has a fault"):
        Resizing(tmp_path / "x/data.yaml", 50).make(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]
    resizing = Resizing(tmp_path / "x/data.yaml", 50, skip_bad=True)
    resizing.make(tmp_path / "out")
    assert (resizing.images, resizing.remarks) == (1, ["1 images of train cannot be read, and are left out"])


@pytest.mark.parametrize("seed", range(4))
def test_masks_are_read_as_published(seed):
    rng = np.random.default_rng(seed)
    pixels_ = (cv2.resize(rng.random((6, 8)), (80, 60)) > 0.5).astype(np.uint8)
    packed = published.encode(np.asfortranarray(pixels_))
    own = encoded_mask(pixels_)
    assert published.frPyObjects(own, 60, 80)["counts"] == packed["counts"], "the list of lengths"
    text = {"size": packed["size"], "counts": packed["counts"].decode()}
    same, half = resized_mask(text, 80, 60), resized_mask(own, 40, 30)
    assert same == own
    wanted = cv2.resize(pixels_, (40, 30), interpolation=cv2.INTER_NEAREST)
    assert half == encoded_mask(wanted)


@pytest.mark.parametrize(
    "mask",
    [
        {},
        {"size": [2, 2], "counts": [1]},
        {"size": [2, 2], "counts": [5, -1]},
        {"size": [10**6, 10**6], "counts": [10**12]},
    ],
)
def test_what_is_no_mask_is_left_alone(mask):
    assert resized_mask(mask, 10, 10) is None
