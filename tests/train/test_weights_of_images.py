"""Weights of classes and images, by hand."""

import numpy as np
import pytest

from tests.dataset.make import image, write
from yolofast.dataset.split import read_split
from yolofast.train.data import class_weights, image_weights


@pytest.fixture
def index(tmp_path):
    """Class 0 three times, class 1 once, class 2 never; the last image is background."""
    for i, rows in enumerate(("0 .5 .5 .5 .5\n0 .4 .4 .4 .4\n1 .5 .5 .5 .5", "0 .5 .5 .5 .5", "")):
        image(tmp_path / f"images/{i}.jpg")
        write(tmp_path / f"labels/{i}.txt", rows)
    write(tmp_path / "data.yaml", "train: images\nnc: 3")
    return read_split(tmp_path / "data.yaml", cache=False)


def test_class_weights(index):
    # 1/3, 1 and 1 (as if there were one), over their sum 7/3
    np.testing.assert_allclose(class_weights(index), [1 / 7, 3 / 7, 3 / 7])


def test_image_weights(index):
    # Class 0 is learnt by half, class 1 not at all: 1 · 0.25 and 2 · 1.
    np.testing.assert_allclose(image_weights(index, [1, 2, 4], [0.5, 0, 0]), [2 * 0.25 + 2, 0.25, 0])


def test_crowds_do_not_count(index):
    index.crowd[:] = [False, True, True, False]
    np.testing.assert_allclose(image_weights(index, [1, 2, 4], [0, 0, 0]), [1, 1, 0])
    np.testing.assert_allclose(class_weights(index), np.array([1 / 2, 1, 1]) / 2.5)
