"""A split may be a part of what its COCO file lists; only images the file does not know are worth a word."""

import json
import os

import cv2
import numpy as np
import pytest

from yolofast.dataset.check import check_data
from yolofast.dataset.faults import FaultKind


@pytest.fixture
def data(tmp_path):
    images = tmp_path / "images" / "train"
    images.mkdir(parents=True)
    for name in ("a", "b", "c"):
        pixels = np.random.default_rng(ord(name)).integers(0, 255, (40, 40, 3), np.uint8)
        cv2.imwrite(str(images / f"{name}.png"), pixels)
    listed = [{"id": i, "file_name": f"{name}.png", "width": 40, "height": 40} for i, name in enumerate("ab")]
    boxes = [{"id": i, "image_id": i, "category_id": 0, "bbox": [5, 5, 20, 20], "iscrowd": 0} for i in range(2)]
    document = {"images": listed, "categories": [{"id": 0, "name": "cat"}], "annotations": boxes}
    (tmp_path / "labels.json").write_text(json.dumps(document))
    (tmp_path / "train.txt").write_text("./images/train/a.png\n")
    (tmp_path / "data.yaml").write_text("train: train.txt\nannotations: {train: labels.json}\nnames: [cat]\n")
    return tmp_path / "data.yaml"


def test_images_the_file_lists_may_be_left_out(data):
    (split,) = check_data(data, ["train"])
    (fault,) = split.faults
    assert fault.kind is FaultKind.NOT_IN_ANNOTATIONS and fault.where.endswith("c.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_place_of_a_list_does_not_hang(data):
    (data.parent / "train.txt").unlink()
    os.mkfifo(data.parent / "train.txt")
    (split,) = check_data(data, ["train"])
    assert "pipe" in split.faults[0].what
