import numpy as np
import pytest
import torch

from yolofast.detect.predictor import predict_augmented
from yolofast.evaluate.nms import non_max_suppression

STRIDE = 32


class Finder:
    """Finds the one bright rectangle of each image, and remembers what it was shown."""

    def __init__(self):
        self.shapes = []

    def __call__(self, images):
        assert all(side % STRIDE == 0 for side in images.shape[2:])
        self.shapes.append(tuple(images.shape[2:]))
        bright = images.mean(1) > 0.7
        rows = torch.zeros(len(images), 1, 7)
        for image, pixels in enumerate(bright):
            y, x = pixels.nonzero(as_tuple=True)
            left, right, top, bottom = x.min(), x.max() + 1, y.min(), y.max() + 1
            rows[image, 0, :4] = torch.stack((left + right, top + bottom, 2 * (right - left), 2 * (bottom - top))) / 2
            rows[image, 0, 4:] = torch.tensor((0.9 - 0.1 * len(self.shapes), 0.1, 0.8))
        return rows


@pytest.fixture
def images():
    """Each has a bright rectangle off its centre, in both directions."""
    made = torch.full((2, 3, 192, 320), 0.2)
    made[0, :, 20:80, 30:100] = 1.0
    made[1, :, 110:150, 200:310] = 1.0
    return made


def test_all_looks_agree_on_where_the_box_is(images):
    finder = Finder()
    found = predict_augmented(finder, images, STRIDE)
    assert finder.shapes == [(192, 320), (160, 288), (160, 224)]
    assert found.shape == (2, 3, 7)
    for image, box in enumerate(((65, 50, 70, 60), (255, 130, 110, 40))):
        np.testing.assert_allclose(found[image, 0, :4], box)
        np.testing.assert_allclose(found[image, 1:, :4], np.tile(box, (2, 1)), atol=2)  # less than a pixel, blurred
    np.testing.assert_allclose(found[0, :, 4], (0.8, 0.7, 0.6), rtol=1e-6)
    np.testing.assert_allclose(found[0, :, 5:], np.tile((0.1, 0.8), (3, 1)), rtol=1e-6)


def test_suppression_makes_one_of_them(images):
    result = non_max_suppression(predict_augmented(Finder(), images, STRIDE), 0.25, 0.45, multi_label=False)
    assert [len(one) for one in result] == [1, 1]
    assert result[0].labels.tolist() == [1]


def test_padding_has_the_grey_of_letterboxes(images):
    shown = []
    predict_augmented(lambda view: (shown.append(view), torch.zeros(2, 1, 7))[1], images, STRIDE, fill=114.0)
    assert shown[1][..., round(192 * 0.83) :, :].unique().tolist() == [114.0]
    assert shown[2][..., round(320 * 0.67) :].unique().tolist() == [114.0]
