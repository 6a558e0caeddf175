"""Which detections a caller may request of a detector."""

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing
from yolofast import Detector
from yolofast.detect.detector import DetectionFilter
from yolofast.errors import UserError

NAMES = ("cat", "dog", "3")


@pytest.mark.parametrize(
    ("classes", "numbers"),
    [
        (None, None),
        ([0, 2], [0, 2]),
        (["dog"], [1]),
        (["3", 1], [2, 1]),
        (np.array([1, 0]), [1, 0]),
        ("cat", [0]),
        ([], []),
    ],
)
def test_classes_by_number_or_name(classes, numbers):
    assert DetectionFilter(classes=classes).class_numbers(NAMES) == numbers


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        (3, "no class 3\\n  fix: the network knows 0 cat, 1 dog, 2 3"),
        (-1, "no class -1"),
        ("dgo", "no class 'dgo', did you mean 'dog'"),
        (1.5, "no class 1.5"),
        (None, "no class None"),
    ],
)
def test_classes_the_network_does_not_know(unknown, message):
    with pytest.raises(UserError, match=message):
        DetectionFilter(classes=[unknown]).class_numbers(NAMES)


def test_a_long_list_of_names_is_cut():
    with pytest.raises(UserError) as caught:
        DetectionFilter(classes=[99]).class_numbers([f"name{number}" for number in range(80)])
    assert "19 name19, … 79 name79" in str(caught.value)


@pytest.mark.parametrize(
    "setting", [{"conf": 1.5}, {"conf": -0.1}, {"iou": float("nan")}, {"iou": "0.5"}, {"most": 0}, {"most": 2.5}]
)
def test_values_that_cannot_be_right(setting):
    (name,) = setting
    with pytest.raises(UserError, match=f"{name} is .*\n  fix: give a"):
        DetectionFilter(**setting)


@pytest.mark.slow
def test_a_detector_refuses_them_too(tmp_path):
    weights = save_seeing(tmp_path / "some.pt", img_size=64)
    for size in (-5, 0, 31, 64.0, True):
        with pytest.raises(UserError, match=f"size is {size}"):
            Detector(weights, size=size)
    detector = Detector(weights, device="cpu")
    cv2.imwrite(str(tmp_path / "one.png"), picture(0))
    with pytest.raises(UserError, match="no class 99"):
        detector.predict(picture(0), classes=[99])
    with pytest.raises(UserError, match="no class 99"):
        detector.stream(tmp_path / "one.png", classes=[99])  # before the first picture is asked for
    (found,) = detector.predict(picture(0), classes=["dog"], conf=0)
    assert set(found.labels.tolist()) == {1}
