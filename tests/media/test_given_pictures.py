"""Pictures in every form that Python programs hold them in."""

import io

import numpy as np
import PIL.Image
import pytest
import torch

from yolofast.errors import UserError
from yolofast.media.given_pictures import pictures_of
from yolofast.media.pictures import read_picture

BGR = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
RGB = BGR[..., ::-1]
GREY = BGR[..., 0]
ALPHA = np.full((5, 7, 1), 128, np.uint8)
PIL_RGB = PIL.Image.fromarray(np.ascontiguousarray(RGB))


def png(image):
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array)).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("given", "channels"),
    [
        (BGR, None),
        (BGR, "bgr"),
        (RGB, "rgb"),
        (np.concatenate([BGR, ALPHA], 2), None),
        (np.concatenate([RGB, ALPHA], 2), "rgb"),
        (BGR / 255, None),
        ((RGB / 255).astype(np.float16), "rgb"),
        (tensor(RGB), None),
        (tensor(BGR), "bgr"),
        (tensor(RGB) / 255, None),
        (PIL_RGB, None),
        (PIL_RGB, "bgr"),
        (PIL_RGB.convert("RGBA"), None),
        (png(PIL_RGB), None),
        (bytearray(png(PIL_RGB)), "bgr"),
    ],
)
def test_colours_arrive_as_they_are(given, channels):
    (image,) = pictures_of(given, channels)
    assert image.dtype == np.uint8 and image.flags.c_contiguous
    np.testing.assert_array_equal(image, BGR)


@pytest.mark.parametrize(
    "given", [GREY, GREY[..., None], torch.from_numpy(GREY), torch.from_numpy(GREY)[None], PIL.Image.fromarray(GREY)]
)
def test_grey_has_three_equal_colours(given):
    (image,) = pictures_of(given)
    np.testing.assert_array_equal(image, np.stack([GREY] * 3, 2))


def test_an_axis_more_is_several_images():
    for batch in (np.stack([BGR, BGR[::-1]]), torch.stack([tensor(RGB), tensor(RGB[::-1])])):
        first, second = pictures_of(batch)
        np.testing.assert_array_equal(first, BGR)
        np.testing.assert_array_equal(second, BGR[::-1])


def test_a_tensor_of_bfloat16_and_one_with_a_gradient():
    for given in (tensor(RGB).bfloat16() / 255, (tensor(RGB) / 255).requires_grad_()):
        (image,) = pictures_of(given)
        assert np.abs(image.astype(int) - BGR).max() <= 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((3, 8, 9), np.uint8), r"transpose\(1, 2, 0\)"),
        (np.zeros((2, 3, 8, 9), np.uint8), r"transpose\(0, 2, 3, 1\)"),
        (torch.zeros(8, 9, 3), r"permute\(2, 0, 1\)"),
        (torch.zeros(2, 8, 9, 3), r"permute\(0, 3, 1, 2\)"),
        (np.zeros((8, 9, 2), np.uint8), r"an array \[8, 9, 2\]"),
        (np.zeros(8, np.uint8), r"an array \[8\]"),
        (np.full((8, 9, 3), 200.0), "divide by 255"),
        (np.full((8, 9, 3), -1.0), "from -1 to -1"),
        (np.full((8, 9, 3), np.nan), "from nan to nan"),
        (np.zeros((8, 9, 3), np.uint16), "of uint16"),
        (np.zeros((8, 9, 3), bool), "of bool"),
        (np.zeros((0, 9, 3), np.uint8), "no pixels"),
        (PIL.Image.new("I;16", (4, 4)), "mode I;16"),
        (b"", "not an image"),
        (b"hello", "not an image"),
        (None, "an image is NoneType"),
        ({"a": 1}, "an image is dict"),
    ],
)
def test_what_is_refused_says_what_to_write(given, message):
    with pytest.raises(UserError, match=message):
        pictures_of(given)


def test_an_order_that_does_not_exist():
    with pytest.raises(UserError, match="channels is 'gbr'"):
        pictures_of(BGR, "gbr")


def test_a_file_that_cannot_be_read_says_what_to_look_at(tmp_path):
    with pytest.raises(UserError, match=r"cannot be read: Is a directory\n  fix: check the file and the disk"):
        read_picture(tmp_path)
