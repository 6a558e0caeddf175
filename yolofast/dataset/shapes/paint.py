"""What fills the shapes and what is behind them: patterns of two colours, and backgrounds with clutter.

Patterns are computed with whole numbers, so that every machine paints the same pixels.
"""

import math

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.dataset.shapes.outline import FULL, Mask

Pixels = npt.NDArray[np.uint8]
"""[height, width, 3], or one colour: blue, green, red."""
_Whole = npt.NDArray[np.int32]

_ONE = 1024  # cosines and sines are multiples of 1/1024
_CANDIDATE_COLOURS = 4
_OWN_COLOUR_SHARE, _ONE_COLOUR_SHARE = 0.85, 0.3
# Of each class, in the order of the outlines.
_OWN_COLOURS = (
    (60, 60, 220), (60, 200, 60), (230, 120, 50), (60, 220, 230), (210, 70, 210), (220, 220, 70), (50, 140, 240),
    (235, 235, 235),
)  # fmt: skip


def blend(under: Pixels, over: Pixels, share: Mask) -> Pixels:
    """`over` where the share is FULL, `under` where it is 0."""
    weight = share.astype(np.uint16)[..., None]
    return ((under * (FULL - weight) + over * weight + FULL // 2) // FULL).astype(np.uint8)


def texture(rng: np.random.Generator, height: int, width: int, behind: Pixels, label: int) -> Pixels:
    """One of six patterns of two colours: most often the class's own first, else unlike `behind`, the mean colour of
    what will be covered. So colours are a hint, as they are for real things, but not enough to go by."""
    patterns = (_plain, _stripes, _checker, _dots, _gradient, _noise)
    mix = patterns[rng.integers(len(patterns))](rng, height, width)
    first = _own_colour(rng, label) if rng.random() < _OWN_COLOUR_SHARE else _unlike(rng, behind)
    second = first if rng.random() < _ONE_COLOUR_SHARE else _unlike(rng, behind)
    return blend(first, second, mix)


def background(rng: np.random.Generator, height: int, width: int) -> Pixels:
    """Two similar colours that flow into one another, most often with lines across; all of it rather grey."""
    first = rng.integers(0, 256, 3)
    second = np.clip(first + rng.integers(-70, 71, 3), 0, 255)
    patterns = (_gradient, _clouds, _noise)
    mix = patterns[rng.integers(len(patterns))](rng, height, width)
    image = blend(first.astype(np.uint8), second.astype(np.uint8), mix)
    for _ in range(max(0, int(rng.integers(-8, 20)))):
        _draw_line(rng, image)
    grey = int(image.mean(dtype=np.float64))
    return ((image.astype(np.int32) + 2 * grey) // 3).astype(np.uint8)


def _own_colour(rng: np.random.Generator, label: int) -> Pixels:
    colour = np.array(_OWN_COLOURS[label]) + rng.integers(-25, 26, 3)
    return np.clip(colour, 0, 255).astype(np.uint8)


def _unlike(rng: np.random.Generator, colour: Pixels) -> Pixels:
    """The most different of a few random colours: contrast without a rule that a network could learn instead."""
    candidates = rng.integers(0, 256, (_CANDIDATE_COLOURS, 3))
    farthest = np.abs(candidates - colour).sum(1).argmax()
    return np.asarray(candidates[farthest], np.uint8)


def _draw_line(rng: np.random.Generator, image: Pixels) -> None:
    """A long one: short ones that cross would be crosses."""
    height, width = image.shape[:2]
    angle, length = rng.random() * 2 * math.pi, (0.4 + rng.random()) * width
    x, y = (int(at) for at in rng.integers(0, (width, height)))
    end = x + round(math.cos(angle) * length), y + round(math.sin(angle) * length)
    colour = tuple(int(level) for level in rng.integers(0, 256, 3))
    cv2.line(image, (x, y), end, colour, int(rng.integers(1, 4)), cv2.LINE_AA)


def _plain(rng: np.random.Generator, height: int, width: int) -> Mask:
    return np.zeros((height, width), np.uint8)


def _gradient(rng: np.random.Generator, height: int, width: int) -> Mask:
    along, _ = _turned_axes(rng, height, width)
    along = along - along.min()
    return np.asarray(along.astype(np.int64) * FULL // max(1, int(along.max())), np.uint8)


def _noise(rng: np.random.Generator, height: int, width: int) -> Mask:
    """Grains of two pixels: finer ones would not survive the JPEG."""
    grains = rng.integers(0, FULL + 1, (-(-height // 2), -(-width // 2)), dtype=np.uint8)
    return grains.repeat(2, 0).repeat(2, 1)[:height, :width]


def _clouds(rng: np.random.Generator, height: int, width: int) -> Mask:
    coarse = rng.integers(0, FULL + 1, rng.integers(3, 12, 2), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR_EXACT), np.uint8)


def _stripes(rng: np.random.Generator, height: int, width: int) -> Mask:
    along, _ = _turned_axes(rng, height, width)
    return _two_colours(along // (_period(rng, height, width) // 2) % 2 == 1)


def _checker(rng: np.random.Generator, height: int, width: int) -> Mask:
    along, across = _turned_axes(rng, height, width)
    half = _period(rng, height, width) // 2
    return _two_colours((along // half + across // half) % 2 == 1)


def _dots(rng: np.random.Generator, height: int, width: int) -> Mask:
    along, across = _turned_axes(rng, height, width)
    period = _period(rng, height, width)
    x, y = ((axis % period - period // 2).astype(np.int64) for axis in (along, across))
    return _two_colours(x * x + y * y < period * period // 9)


def _two_colours(second: npt.NDArray[np.bool_]) -> Mask:
    return second.astype(np.uint8) * np.uint8(FULL)


def _period(rng: np.random.Generator, height: int, width: int) -> int:
    """Of a repeating pattern, in pixels · _ONE: three to seven times across the shape, never finer than 4 pixels."""
    return max(4, max(height, width) // int(rng.integers(3, 8))) * _ONE


def _turned_axes(rng: np.random.Generator, height: int, width: int) -> tuple[_Whole, _Whole]:
    """Distances of each pixel along and across a random direction, in pixels · _ONE."""
    angle = rng.random() * 2 * math.pi
    cos, sin = round(math.cos(angle) * _ONE), round(math.sin(angle) * _ONE)
    x, y = np.arange(width, dtype=np.int32), np.arange(height, dtype=np.int32)[:, None]
    return x * cos + y * sin, y * cos - x * sin
