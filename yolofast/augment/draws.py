"""Random numbers of a batch, and the matrices and places on the canvas that are made of them.

A draw depends on nothing but its name: seed, epoch, position in the epoch, and which draw it is. A counter-based
generator (Philox4x32-10, Salmon et al., SC 2011) turns those four numbers into a draw without any state. So the number
of workers, their order, the device and a resume cannot change what is drawn, and a whole batch is drawn at once.
NumPy's own Philox has a state per generator, which would mean one object per sample.

A canvas is where the tiles of a mosaic are before the transform. Pixel centres have whole coordinates. Axes: n views,
T tiles.
"""

import numpy as np
import numpy.typing as npt

from yolofast.image_index import Ints

Doubles = npt.NDArray[np.float64]
_Words = npt.NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def uniform(seed: int, epoch: int, positions: npt.ArrayLike, count: int, stream: int = 0) -> Doubles:
    """[B, count] draws in [0, 1) for each position of an epoch. Different streams are independent."""
    blocks = -(-count // 4)
    position = np.asarray(positions, dtype=np.uint64)[:, None]
    block = np.arange(blocks, dtype=np.uint64)[None]
    counter = np.broadcast_arrays(block, position & _WORD, np.uint64(epoch), np.uint64(stream))
    words = philox(counter, (np.uint64(seed) & _WORD, np.uint64(seed) >> _HALF))
    numbers = np.stack(words, axis=-1).reshape(len(position), blocks * 4)[:, :count]
    return numbers.astype(np.float64) * 2.0**-32


def philox(counter: "tuple[_Words, ...] | list[_Words]", key: tuple[np.uint64, np.uint64]) -> list[_Words]:
    """Four 32-bit words for each four-word counter."""
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        high, low = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (low >> _HALF) ^ c1 ^ k0, low & _WORD, (high >> _HALF) ^ c3 ^ k1, high & _WORD
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return [c0, c1, c2, c3]


class DrawTable:
    """Hands out columns of a batch's draws, in a fixed order, so that each draw keeps its number."""

    def __init__(self, draws: Doubles) -> None:
        self._draws, self._next = draws, 0

    def take(self, *shape: int) -> Doubles:
        """[B, *shape] draws in [0, 1) that are taken once only."""
        count = int(np.prod(shape))
        columns = self._draws[:, self._next : self._next + count]
        assert columns.shape[1] == count, "more draws are taken than were made"
        self._next += count
        return columns.reshape(len(columns), *shape)


def between(low: npt.ArrayLike, high: npt.ArrayLike, draws: Doubles) -> Doubles:
    """Draws in [0, 1) spread over [low, high)."""
    low = np.asarray(low, dtype=np.float64)
    spread: Doubles = low + (np.asarray(high) - low) * draws
    return spread


def whole(count: npt.ArrayLike, draws: Doubles) -> npt.NDArray[np.int64]:
    """Whole numbers 0 … count - 1."""
    limit = np.asarray(count, dtype=np.int64)
    return np.minimum((draws * limit).astype(np.int64), limit - 1)


def beta_8_8(draws: Doubles) -> Doubles:
    """Beta(8, 8) from 15 draws along the last axis: the middle one of 15 uniform numbers has exactly that law."""
    assert draws.shape[-1] == 15
    middle: Doubles = np.sort(draws, axis=-1)[..., 7]
    return middle


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

    `translate` is where the canvas's centre is moved to, as a share of the output; angles are degrees.
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
    """[…, 4] x1, y1, x2, y2 of the part of each tile on its canvas (x2, y2 exclusive); empty ones have no area."""
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
