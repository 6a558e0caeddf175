"""Pictures of a run show what is in the tensors, disturb nothing, and may fail."""

import cv2
import numpy as np
import pytest
import torch

from tests.evaluate.made_up import index, random_boxes
from yolofast.detect.accumulator import Evaluated
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.drawing import curves_picture, panels_of
from yolofast.evaluate.v7_metrics import V7Metrics
from yolofast.structures import Batch, Detections, InputConvention, Targets
from yolofast.train import run_pictures
from yolofast.train.run_pictures import RunPictures, copy_of_first, picture_grid

NAMES = ("a", "b")


def batch_of(images, dtype=torch.uint8):
    """Red images (R, G, B) with one box of class 1 over their right half."""
    pixels = torch.zeros(images, 3, 256, 256, dtype=dtype)
    pixels[:, 0] = 255 if dtype is torch.uint8 else 1.0
    rows = torch.tensor([[i, 1, 0.75, 0.5, 0.5, 1.0] for i in range(images)])
    return Batch(pixels, Targets.from_rows(rows, images), np.arange(images))


def test_the_first_batches_are_drawn_when_the_epoch_is_over(tmp_path):
    pictures = RunPictures(tmp_path, NAMES)
    batch = batch_of(20)
    before = batch.images.clone()
    for number in range(5):
        pictures.trained_on(0, number, batch)
    assert not list(tmp_path.iterdir())
    batch.images.zero_()  # the loader uses its memory again
    pictures.epoch_over()
    pictures.trained_on(1, 0, batch)
    pictures.epoch_over()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"train_batch{n}.jpg" for n in range(3)]
    drawn = cv2.imread(str(tmp_path / "train_batch0.jpg"))
    assert drawn.shape == (4 * 256, 4 * 256, 3)  # sixteen of the twenty
    inside = drawn[128, 64].astype(int)  # left half: red as it was, blue comes first
    assert inside[2] > 240 and inside[:2].max() < 20
    edge = drawn[128, 126:131].astype(int)  # the left side of the box
    assert (edge[:, 2] < 200).any() and (before == batch_of(20).images).all()


def test_images_made_on_the_device_look_the_same(tmp_path):
    for name, dtype in (("levels", torch.uint8), ("shares", torch.float16)):
        (tmp_path / name).mkdir()
        pictures = RunPictures(tmp_path / name, NAMES, InputConvention())
        pictures.trained_on(0, 0, batch_of(2, dtype))
        pictures.epoch_over()
    levels, shares = ((tmp_path / name / "train_batch0.jpg").read_bytes() for name in ("levels", "shares"))
    assert levels == shares


@pytest.mark.slow
def test_one_warning_and_no_more(tmp_path):
    said = []
    pictures = RunPictures(tmp_path, NAMES, say=said.append)
    for name in ("train_batch0.jpg", "results.png"):  # where the pictures should go
        (tmp_path / name).mkdir()
    pictures.trained_on(0, 0, batch_of(1))
    pictures.trained_on(0, 1, batch_of(1))
    pictures.epoch_over()
    pictures.curves([])
    assert len(said) == 1 and said[0].startswith("warning: train_batch0.jpg could not be drawn, the run continues")
    assert (tmp_path / "train_batch1.jpg").is_file()  # the others are drawn all the same
    assert not list(tmp_path.glob(".*tmp"))


@pytest.mark.slow
def test_charts_that_other_processes_draw_are_the_same(tmp_path):
    """To the bit; a failure of theirs is the warning that it is in this process."""
    rows = [{"epoch": number, "train/box_loss": 1.0 / (1 + number)} for number in range(5)]
    split = index(random_boxes(np.random.default_rng(0), 8, 2), [(64, 64)] * 8, nc=2)
    drawn, said = {}, []
    for apart in (False, True):
        folder = tmp_path / str(apart)
        (folder / "F1_curve.png").mkdir(parents=True)
        pictures = RunPictures(folder, NAMES, say=said.append, apart=apart)
        pictures.labels(split)
        pictures.end_is_near()
        assert len(pictures._helpers) == 3 * apart
        pictures.curves(rows)
        pictures.scores(Evaluated(V7Metrics().result(), ConfusionMatrix(2), None, {}))
        pictures.finish()
        assert pictures._helpers == []
        drawn[apart] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert drawn[True] == drawn[False]
    names = {"labels.jpg", "results.png", "PR_curve.png", "P_curve.png", "R_curve.png", "confusion_matrix.png"}
    assert drawn[True].keys() == names
    here, there = said
    assert here.replace(str(tmp_path / "False"), "") == there.replace(str(tmp_path / "True"), "") != ""


@pytest.mark.slow
def test_where_no_process_can_be_started_charts_are_drawn_here(tmp_path, monkeypatch):
    def fail(modules):
        raise OSError("no room")

    monkeypatch.setattr(run_pictures, "Helper", fail)
    pictures = RunPictures(tmp_path, NAMES, say=pytest.fail, apart=True)
    pictures.end_is_near()
    pictures.curves([{"epoch": 0, "train/box_loss": 1.0}])
    pictures.finish()
    assert (tmp_path / "results.png").is_file()


def test_without_a_folder_nothing_is_kept():
    pictures = RunPictures()
    pictures.trained_on(0, 0, batch_of(1))
    assert pictures._copies == []
    pictures.curves([])


def test_copies_are_a_part_of_the_batch_with_its_way_back():
    batch = batch_of(4)
    batch = Batch(batch.images, batch.targets, batch.sources, np.ones((4, 2)), np.zeros((4, 2)))
    copy = copy_of_first(batch, 3)
    assert len(copy.images) == len(copy.sources) == len(copy.gain) == len(copy.pad) == 3
    assert torch.equal(copy.targets.boxes, batch.targets.boxes[:3])
    assert copy.images.data_ptr() != batch.images.data_ptr()


@pytest.mark.slow
def test_curves_of_few_and_of_missing_values():
    rows = [{"epoch": 0, "train/box_loss": 1.0}, {"epoch": 1, "train/box_loss": float("nan"), "metrics/mAP50(B)": 0.5}]
    for some in ([], rows[:1], rows):
        picture = cv2.imdecode(np.frombuffer(curves_picture(some), np.uint8), cv2.IMREAD_COLOR)
        assert picture.shape[1] == 360 * len(panels_of(some)[0]) and picture.std() > 0


def test_pictures_of_all_shapes_share_a_grid():
    images = [np.full((high, wide, 3), 200, np.uint8) for high, wide in ((40, 700), (900, 30), (64, 64))]
    grid = cv2.imdecode(np.frombuffer(picture_grid(images, [Detections.none()] * 3, NAMES, scores=True), np.uint8), 1)
    assert grid.shape == (1280, 1280, 3)
    assert abs(int(grid[10, 320, 0]) - 200) < 5 and abs(int(grid[320, 650, 0]) - 200) < 5
    assert abs(int(grid[300, 320, 0]) - 114) < 5  # below the wide one
