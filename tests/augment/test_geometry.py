"""Places of tiles worked out by hand, and matrices against OpenCV and products written out."""

import cv2
import numpy as np
import pytest

from yolofast.augment import draws as geometry


def test_four_tiles_meet_in_the_centre():
    sizes = np.array([[[100, 60], [80, 100], [100, 100], [30, 100]]])
    corners = geometry.four_corners(sizes, np.array([[70, 120]]))
    assert corners.tolist() == [[[-30, 60], [70, 20], [-30, 120], [70, 120]]]
    shown = geometry.clipped_rectangles(corners, sizes, (200, 200))
    # upper left cut on its left, upper right whole, lower left cut left and below, lower right cut below
    assert shown.tolist() == [[[0, 60, 70, 120], [70, 20, 150, 120], [0, 120, 70, 200], [70, 120, 100, 200]]]


def test_nine_tiles_of_one_size_are_a_grid_on_a_spiral():
    corners = geometry.nine_corners(np.full((1, 9, 2), 10), 10, 10)[0]
    fields = (corners // 10).tolist()
    assert fields == [[1, 1], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2], [0, 1], [0, 0]]


def test_nine_tiles_of_different_sizes():
    """The output is 100 × 80, so the middle field of the canvas starts at (100, 80)."""
    sizes = np.array([[[90, 80], [100, 50], [60, 70], [100, 40], [50, 80], [100, 30], [70, 80], [100, 60], [40, 20]]])
    corners = geometry.nine_corners(sizes, 100, 80)[0].tolist()
    assert corners == [
        [100, 80],  # middle
        [100, 30],  # top: above the middle, flush left with it
        [200, 10],  # top right: right of the top one, same lower edge
        [190, 80],  # right of the middle
        [190, 120],  # bottom right: below the right one
        [90, 160],  # bottom: below the middle, flush right with it
        [20, 160],  # bottom left: left of the bottom one
        [0, 100],  # left of the middle, flush with its lower edge
        [60, 80],  # top left: above the left one, touching the middle's column
    ]


def test_no_tile_of_nine_covers_another():
    generator = np.random.default_rng(0)
    for _ in range(200):
        sizes = generator.integers(1, 11, (1, 9, 2))
        corners = geometry.nine_corners(sizes, 10, 10)[0]
        seen = np.zeros((60, 60), int)
        for (x, y), (w, h) in zip(corners + 15, sizes[0], strict=True):
            seen[y : y + h, x : x + w] += 1
        assert seen.max() == 1
        assert seen.sum() == sizes.prod(axis=-1).sum()


def test_a_tile_outside_of_the_canvas_has_no_area():
    corners, sizes = np.array([[-50, 10], [200, 10], [10, -90], [10, 230]]), np.array([[40, 40]] * 4)
    x1, y1, x2, y2 = geometry.clipped_rectangles(corners, sizes, (200, 200)).T
    assert ((x2 - x1) * (y2 - y1)).tolist() == [0, 0, 0, 0]
    assert (x1 >= 0).all() and (x2 <= 200).all() and (y1 >= 0).all() and (y2 <= 200).all()


@pytest.mark.parametrize(("angle", "scale"), [(0.0, 1.0), (30.0, 1.0), (-75.0, 0.4), (180.0, 2.0)])
def test_rotation_is_opencvs(angle, scale):
    matrix = geometry.rotation(np.array([angle]), np.array([scale]))[0]
    assert np.allclose(matrix[:2], cv2.getRotationMatrix2D((0, 0), angle, scale))
    assert matrix[2].tolist() == [0, 0, 1]


def test_centred_transform_is_the_product_written_out():
    canvas, angle, scale, shear, at, tilt = (200, 120), 12.0, 1.3, (7.0, -4.0), (0.55, 0.4), (0.0003, -0.0002)
    to_centre = np.array([[1, 0, -100], [0, 1, -60], [0, 0, 1]])
    perspective = np.array([[1, 0, 0], [0, 1, 0], [*tilt, 1]])
    turn = np.vstack((cv2.getRotationMatrix2D((0, 0), angle, scale), (0, 0, 1)))
    slant = np.array([[1, np.tan(np.radians(7.0)), 0], [np.tan(np.radians(-4.0)), 1, 0], [0, 0, 1]])
    place = np.array([[1, 0, 0.55 * 100], [0, 1, 0.4 * 60], [0, 0, 1]])
    matrix = geometry.centred_transform(
        [canvas], 100, 60, np.array([angle]), np.array([scale]), np.array([shear]), np.array([at]), np.array([tilt])
    )[0]
    assert np.allclose(matrix, place @ slant @ turn @ perspective @ to_centre)


def test_centred_transform_keeps_the_centre_of_the_canvas():
    zero = np.zeros((1, 2))
    matrix = geometry.centred_transform(
        [(200, 200)], 100, 100, np.array([33.0]), np.array([0.7]), np.array([(5.0, 3.0)]), zero + 0.5, zero
    )
    assert np.allclose(geometry.apply(matrix, np.array([[100.0, 100.0]]), 1), [[50], [50]])


def test_cornered_transform_is_the_rows_written_out():
    angle, scale, shear, shift = 8.0, 0.6, (2.0, -1.5), (0.1, -0.05)
    turn = cv2.getRotationMatrix2D((0, 0), angle, scale)
    shear_x, shear_y = np.tan(np.radians(shear))
    expected = np.array(
        [
            [*(turn[0, :2] + shear_y * turn[1, :2]), 0.1 * 100],
            [*(turn[1, :2] + shear_x * turn[0, :2]), -0.05 * 60],
            [0, 0, 1],
        ]
    )
    matrix = geometry.cornered_transform(
        100, 60, np.array([angle]), np.array([scale]), np.array([shear]), np.array([shift])
    )[0]
    assert np.allclose(matrix, expected)


def test_points_through_matrices_are_opencvs():
    generator = np.random.default_rng(0)
    matrices = np.tile(np.eye(3), (3, 1, 1)) + generator.normal(0, 0.1, (3, 3, 3)) * [
        [1, 1, 50],
        [1, 1, 50],
        [0.001] * 3,
    ]
    counts = np.array([4, 1, 7])
    points = generator.uniform(0, 100, (12, 2))
    x, y = geometry.apply(matrices, points, counts)
    expected = [
        cv2.perspectiveTransform(part[None], matrix)[0]
        for part, matrix in zip(np.split(points, np.cumsum(counts)[:-1]), matrices, strict=True)
    ]
    assert np.allclose(np.stack((x, y), 1), np.concatenate(expected))
