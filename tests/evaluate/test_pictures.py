import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch

from tests.evaluate.made_up import found, index, perturbed, random_boxes
from tests.patience import PATIENCE
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.matching import ground_truth
from yolofast.evaluate.mosaic_picture import save_mosaics
from yolofast.evaluate.plots import save_plots
from yolofast.evaluate.v7_metrics import V7Metrics
from yolofast.structures import Targets

FILES = {"PR_curve.png", "F1_curve.png", "P_curve.png", "R_curve.png", "confusion_matrix.png"}


def draw(folder, nc, images=20, names=None):
    rng = np.random.default_rng(0)
    split = index(random_boxes(rng, images, nc), [(320, 240)] * images, nc=nc)
    true = ground_truth(split, range(images))
    metrics, matrix = V7Metrics(), ConfusionMatrix(nc)
    for one in true:
        detections = perturbed(rng, one.boxes, one.labels, (320, 240), nc)
        metrics.add([detections], [one])
        matrix.add([detections], [one])
    return save_plots(folder, metrics.result(), matrix, names or split.names)


@pytest.mark.slow
def test_all_plots_are_drawn(tmp_path):
    files = draw(tmp_path / "run", 3, names=("$a$ and $b", "b", "c"))  # not formulas
    assert set(files) == FILES == {path.name for path in (tmp_path / "run").iterdir()}
    for file in files.values():
        picture = cv2.imread(str(file))
        assert min(picture.shape[:2]) > 500
        assert (picture < 128).any()


@pytest.mark.slow
def test_many_classes_and_nothing_at_all(tmp_path):
    assert set(draw(tmp_path, 60)) == FILES
    assert set(draw(tmp_path, 2, images=0)) == FILES


def mosaics(folder, images, detections, rows):
    targets = Targets.from_rows(torch.tensor(rows).reshape(-1, 6), len(images))
    return [cv2.imread(str(file)) for file in save_mosaics(folder, 3, images, targets, detections, ("cat", "dog"))]


def test_boxes_are_where_they_should_be(tmp_path):
    """Grey images in a 2 × 2 grid; the true box is on the first, the one found on the second."""
    images = torch.full((3, 3, 200, 160), 114, dtype=torch.uint8)
    seen = [found(), found((0.9, 1, 40, 100, 120, 150), (0.1, 0, 0, 0, 30, 30)), found()]
    labels, predictions = mosaics(tmp_path, images, seen, [[0.0, 0, 0.5, 0.5, 0.5, 0.25]])
    assert {path.name for path in tmp_path.iterdir()} == {"val_batch3_labels.jpg", "val_batch3_pred.jpg"}
    assert labels.shape == predictions.shape == (400, 320, 3)
    colourful = [np.argwhere(np.ptp(picture.astype(int), axis=2) > 60) for picture in (labels, predictions)]
    for places, (left, right, bottom) in zip(colourful, ((40, 120, 125), (200, 280, 150)), strict=True):
        assert abs(places[:, 1].min() - left) <= 3
        assert abs(places[:, 1].max() - right) <= 3
        assert abs(places[:, 0].max() - bottom) <= 3


def test_small_images_are_enlarged(tmp_path):
    """At 64 pixels a label would cover the picture; the box keeps its place."""
    images = torch.full((4, 3, 64, 64), 114, dtype=torch.uint8)
    labels, _ = mosaics(tmp_path, images, [found()] * 4, [[0.0, 0, 0.5, 0.5, 0.5, 0.5]])
    assert labels.shape == (512, 512, 3)
    places = np.argwhere(np.ptp(labels.astype(int), axis=2) > 60)
    assert abs(places[:, 1].max() - 192) <= 3 and abs(places[:, 0].max() - 192) <= 3


@pytest.mark.slow
def test_colours_and_floats(tmp_path):
    images = torch.zeros(20, 3, 320, 640)
    images[:, 0] = 1.0  # red
    labels, _ = mosaics(tmp_path, images, [found()] * 20, [])
    assert max(labels.shape[:2]) == 1920  # of 16, shrunk
    np.testing.assert_allclose(labels[100, 100], (0, 0, 255), atol=6)


@pytest.mark.slow
def test_evaluating_does_not_import_what_draws():
    modules = ("nms", "v7_metrics", "coco", "confusion", "plots", "mosaic_picture", "result_files", "image_faults")
    imports = ";".join(f"import yolofast.evaluate.{module}" for module in modules)
    code = f"import sys;{imports};sys.exit(bool({{'matplotlib', 'faster_coco_eval'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE, check=False).returncode == 0
