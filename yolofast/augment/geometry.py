"""Matrices and places on the canvas, for a whole batch at once.

A canvas is where the tiles of a mosaic lie before the transform. Pixel centres have whole coordinates. Axes: n views,
T tiles.
"""

import numpy as np
import numpy.typing as npt

from yolofast.augment.draws import Doubles

Ints = npt.NDArray[np.int64]


def identity(count: int) -> Doubles:
    return np.tile(np.eye(3), (count, 1, 1))


def translation(x: npt.ArrayLike, y: npt.ArrayLike) -> Doubles:
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    matrix = identity(len(x))
    matrix[:, 0, 2], matrix[:, 1, 2] = x, y
    return matrix


def centred_transform(
    canvas_n2: npt.ArrayLike, width: int, height: int, angle: Doubles, scale: Doubles, shear_n2: Doubles,
    translate_n2: Doubles, perspective_n2: Doubles,
) -> Doubles:  # fmt: skip
    """YOLOv7: canvas to output, about the canvas's centre: M = T · S · R · P · C.

    `translate` is where the canvas's centre comes to lie, as a share of the output; angles are degrees.
    """
    canvas = np.asarray(canvas_n2, np.float64)
    to_centre = translation(-canvas[:, 0] / 2, -canvas[:, 1] / 2)
    perspective = identity(len(canvas))
    perspective[:, 2, :2] = perspective_n2
    slant = identity(len(canvas))
    slant[:, 0, 1], slant[:, 1, 0] = np.tan(np.radians(shear_n2)).T
    place = translation(translate_n2[:, 0] * width, translate_n2[:, 1] * height)
    matrix: Doubles = place @ slant @ rotation(angle, scale) @ perspective @ to_centre
    return matrix


def cornered_transform(
    width: int, height: int, angle: Doubles, scale: Doubles, shear_n2: Doubles, shift_n2: Doubles
) -> Doubles:
    """YOLOX: rotation and scale about the canvas's corner, then shear, then a shift by a share of the output."""
    matrix = rotation(angle, scale)
    slant = np.tan(np.radians(shear_n2))
    slanted = matrix.copy()
    slanted[:, 0] += slant[:, 1, None] * matrix[:, 1]
    slanted[:, 1] += slant[:, 0, None] * matrix[:, 0]
    slanted[:, 0, 2], slanted[:, 1, 2] = shift_n2[:, 0] * width, shift_n2[:, 1] * height
    return slanted


def rotation(angle: Doubles, scale: Doubles) -> Doubles:
    """Anticlockwise as seen, about the origin."""
    radians = np.radians(angle)
    cosine, sine = scale * np.cos(radians), scale * np.sin(radians)
    matrix = identity(len(radians))
    matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1] = cosine, sine, -sine, cosine
    return matrix


def four_corners(sizes_n42: Ints, centre_n2: Ints) -> Ints:
    """[n, 4, 2] where the tiles of a 4-mosaic have their upper left corner: all touch the centre."""
    x, y = (np.repeat(axis[:, None], 4, axis=1) for axis in centre_n2.T)
    left, above = np.array([True, False, True, False]), np.array([True, True, False, False])
    return np.stack((np.where(left, x - sizes_n42[..., 0], x), np.where(above, y - sizes_n42[..., 1], y)), axis=-1)


def nine_corners(sizes_n92: Ints, width: int, height: int) -> Ints:
    """[n, 9, 2] for a 9-mosaic on a canvas of three times the output: a spiral that starts in the middle field.

    Each tile touches one before it: middle, top, top right, right, bottom right, bottom, bottom left, left, top left.
    None covers another; as they differ in size, grey shows between them.
    """
    w, h = sizes_n92[..., 0], sizes_n92[..., 1]
    right, bottom = width + w[:, 0], height + h[:, 0]
    x = [
        np.full_like(right, width), np.full_like(right, width), width + w[:, 1], right, right,
        right - w[:, 5], right - w[:, 5] - w[:, 6], width - w[:, 7], width - w[:, 8],
    ]  # fmt: skip
    y = [
        np.full_like(bottom, height), height - h[:, 1], height - h[:, 2], np.full_like(bottom, height),
        height + h[:, 3], bottom, bottom, bottom - h[:, 7], bottom - h[:, 7] - h[:, 8],
    ]  # fmt: skip
    return np.stack((np.stack(x, axis=-1), np.stack(y, axis=-1)), axis=-1)


def clipped_rectangles(corner: Ints, sizes: Ints, canvas: npt.ArrayLike) -> Ints:
    """[…, 4] x1, y1, x2, y2 of what of each tile lies on its canvas (x2, y2 exclusive); empty ones have no area."""
    limit = np.asarray(canvas, dtype=np.int64)
    low = np.clip(corner, 0, limit)
    high = np.clip(corner + sizes, 0, limit)
    return np.concatenate((low, np.maximum(low, high)), axis=-1)


def apply(matrix: Doubles, points: Doubles, counts: Ints | int) -> tuple[Doubles, Doubles]:
    """x and y of [m, 2] points through [n, 3, 3] matrices, each matrix serving the next `counts` of them."""
    rows = np.repeat(matrix.reshape(-1, 9).T, counts, axis=1)
    x, y = points.T
    new_x, new_y = rows[0] * x + rows[1] * y + rows[2], rows[3] * x + rows[4] * y + rows[5]
    if matrix[:, 2, :2].any():
        depth = rows[6] * x + rows[7] * y + rows[8]
        return new_x / depth, new_y / depth
    return new_x, new_y
