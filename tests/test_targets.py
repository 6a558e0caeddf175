import math

import pytest
import torch

from tests.map_reader import rows_in_places
from yolofast import Targets, UserError


def row(image: float, label: float, *box: float) -> list[float]:
    return [image, label, *(box or (0.5, 0.5, 0.2, 0.2))]


def test_rows_go_to_their_images_in_order():
    """Images in any order, one without boxes; within an image the order of the rows stays."""
    rows = torch.tensor([row(2, 5), row(0, 1, 0.1, 0.2, 0.3, 0.4), row(2, 6), row(0, 3), row(2, 4)])
    targets = Targets.from_rows(rows, 4)
    assert targets.valid.sum(1).tolist() == [2, 0, 3, 0]
    assert targets.labels[0, :2].tolist() == [1, 3]
    assert targets.labels[2, :3].tolist() == [5, 6, 4]
    assert targets.boxes[0, 0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert (targets.labels[~targets.valid] == 0).all()
    assert (targets.boxes[~targets.valid] == 0).all()


def test_random_rows_against_a_loop():
    rows = torch.cat((torch.randint(5, (70, 1)), torch.randint(80, (70, 1)), torch.rand(70, 4)), dim=1)
    targets = Targets.from_rows(rows, 5)
    for image, places in enumerate(rows_in_places(rows, 5)):
        here = len(places)
        assert targets.valid[image].tolist() == [True] * here + [False] * (targets.valid.shape[1] - here)
        assert targets.labels[image, :here].tolist() == rows[places, 1].tolist()
        assert targets.boxes[image, :here].equal(rows[places, 2:])


@pytest.mark.parametrize(
    ("boxes", "places"), [(0, 16), (1, 16), (16, 16), (17, 32), (100, 128), (512, 512), (513, 1024)]
)
def test_places_come_in_few_sizes(boxes, places):
    targets = Targets.from_rows(torch.tensor([row(1, 0)]).expand(boxes, 6), 2)
    assert targets.boxes.shape == (2, places, 4)
    assert targets.valid.sum() == boxes
    assert targets.boxes.dtype == torch.float32
    assert targets.labels.dtype == torch.int64


def test_given_places_and_boxes_beyond_them():
    """Too many for the places: the first stay, and no other image is touched."""
    rows = torch.tensor([row(0, label) for label in range(5)] + [row(1, 7)])
    targets = Targets.from_rows(rows, 2, capacity=3)
    assert targets.labels.tolist() == [[0, 1, 2], [7, 0, 0]]
    assert targets.valid.tolist() == [[True] * 3, [True, False, False]]


def test_no_rows():
    targets = Targets.from_rows(torch.zeros(0, 6), 3)
    assert targets.boxes.shape == (3, 16, 4)
    assert not targets.valid.any()


@pytest.mark.parametrize("shape", [(6,), (2, 5), (2, 7), (1, 2, 6)])
def test_rows_of_the_wrong_shape(shape):
    with pytest.raises(UserError, match=r"(?s)target rows have shape .*image class cx cy w h"):
        Targets.from_rows(torch.zeros(shape), 1)


@pytest.mark.parametrize("image", [-1, 2, 17])
def test_rows_of_images_that_are_not_there(image):
    rows = torch.tensor([row(0, 0), row(1, 0), row(image, 0)])
    with pytest.raises(UserError, match=rf"target row 2 belongs to image {image} of a batch of 2"):
        Targets.from_rows(rows, 2)


def test_padded_labels():
    """YOLOX's: class, cx, cy, w, h in pixels, rows of zeros being empty."""
    labels = torch.zeros(2, 3, 5)
    labels[0, 0] = torch.tensor([4.0, 32, 16, 8, 4])
    labels[1, 0] = torch.tensor([0.0, 64, 32, 64, 32])
    labels[1, 1] = torch.tensor([2.0, 1, 1, 2, 2])
    targets = Targets.from_padded(labels, width=64, height=32)
    assert targets.valid.tolist() == [[True, False, False], [True, True, False]]
    assert targets.labels.tolist() == [[4, 0, 0], [0, 2, 0]]
    assert targets.boxes[0, 0].tolist() == [0.5, 0.5, 0.125, 0.125]
    assert targets.boxes[1, 0].tolist() == [1, 1, 1, 1]
    with pytest.raises(UserError, match="padded labels have shape"):
        Targets.from_padded(labels[0], 64, 32)


def test_check_accepts_what_losses_can_use():
    """Boxes on the border and without area are fine, and empty places are not looked at."""
    rows = torch.tensor([row(0, 0, 0.0, 1.0, 0.0, 0.0), row(0, 6, 1.0, 0.0, 1.0, 1.0)])
    targets = Targets.from_rows(rows, 2)
    targets.boxes[1, 3] = math.nan
    targets.labels[1, 4] = 99
    targets.check(nc=7)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (row(1, 7), "has a class that is not 0 to 6"),
        (row(1, -1), "has a class that is not 0 to 6"),
        (row(1, 3, math.nan, 0.5, 0.1, 0.1), "has a NaN or infinite coordinate"),
        (row(1, 3, 0.5, 0.5, math.inf, 0.1), "has a NaN or infinite coordinate"),
        (row(1, 3, 0.5, 0.5, 0.1, -0.1), "has a negative size"),
    ],
)
def test_check_names_the_image_and_the_row(fault, message):
    targets = Targets.from_rows(torch.tensor([row(0, 0), row(1, 2), fault, row(1, 1)]), 2)
    with pytest.raises(UserError, match=rf"image 1, box 1 {message}: class cx cy w h = "):
        targets.check(nc=7)


def test_check_of_shapes_that_do_not_fit():
    good = Targets.from_rows(torch.tensor([row(0, 0)]), 1)
    for bad in (
        Targets(good.boxes[..., :3], good.labels, good.valid),
        Targets(good.boxes, good.labels[:, :5], good.valid),
        Targets(good.boxes, good.labels, good.valid[0]),
    ):
        with pytest.raises(UserError, match="targets do not fit together"):
            bad.check(nc=1)


def test_to_moves_everything():
    moved = Targets.from_rows(torch.tensor([row(0, 0)]), 1).to("meta")
    assert {moved.boxes.device.type, moved.labels.device.type, moved.valid.device.type} == {"meta"}
