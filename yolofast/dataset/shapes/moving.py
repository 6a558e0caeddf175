"""Shapes that move: they cross, cover one another, pass behind a wall, leave the picture and come back.

A frame is a function of the seed, the scene's number and the time in seconds. So the same motion can be seen at any
frame rate, with frames missing, and frames are drawn in any order. Paths are sums of a sine per axis; places are whole
pixels, so nothing is interpolated and every machine draws the same.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.dataset.shapes.outline import FULL, NAMES, Mask, rasterise
from yolofast.dataset.shapes.paint import Pixels, background, blend, texture
from yolofast.dataset.shapes.scene import LEAST_SIDE, LEAST_VISIBLE, overlap, without_specks

VERSION = 1
"""Of the frames: to be raised with any change that shows in them."""
_FIRST_NUMBER = 2**33
"""Far from the pictures of `shapes` and of its splits."""
_STREAMS, _DROPPED = 8, 4
"""Random numbers of a scene: motion, textures, backgrounds, the camera, and which frames are missing."""
_SMALLEST, _LARGEST = 0.18, 0.40
"""A shape's longest side as a share of the picture's shorter one."""
_REACH = (0.30, 0.75), (0.15, 0.45)
"""How far a path swings to each side, as a share of width and height: beyond half the shape leaves."""
_PERIODS = (5.0, 10.0)
"""Seconds of a swing to and fro."""
_WALL = (0.14, 0.24)
"""Width of the wall as a share of the picture's."""
_WALL_PLACE = (0.3, 0.7)
_SHAKES = 3
"""Sines of the camera's motion per axis, …"""
_SHAKE_RATES = (0.5, 4.0)
"""… their rates in Hertz."""


@dataclass(frozen=True)
class MovingShape:
    """What is visible of a shape in one frame."""

    id: int
    label: int
    box: tuple[int, int, int, int]
    """Left, top, width, height in pixels, tight around what is visible."""
    visibility: float
    """Visible share of the shape's pixels."""

    @property
    def counts(self) -> bool:
        """Whether a detector should find it: as much is visible as of the still shapes."""
        return self.visibility >= LEAST_VISIBLE and min(self.box[2:]) >= LEAST_SIDE


@dataclass(frozen=True)
class _Swing:
    """A coordinate over time."""

    middle: float
    reach: float
    period: float
    phase: float

    def at(self, seconds: float) -> float:
        return self.middle + self.reach * math.sin(2 * math.pi * (seconds / self.period + self.phase))


@dataclass(frozen=True)
class _Actor:
    label: int
    mask: Mask
    texture: Pixels
    x: _Swing
    y: _Swing

    @property
    def area(self) -> int:
        return int((self.mask > FULL // 2).sum())


class MovingScene:
    """Scene `number` of a seed. The motion is the same with and without `shake`."""

    def __init__(self, seed: int, number: int, width: int, height: int, objects: int, shake: float = 0.0) -> None:
        self.width, self.height = width, height
        moves, paints, fills, shakes = (_generator(seed, number, stream) for stream in range(_DROPPED))
        self._margin = math.ceil(shake)
        wide, high = width + 2 * self._margin, height + 2 * self._margin
        self._background = background(fills, high, wide)
        wall_width = round(_between(moves, _WALL) * width)
        self._wall_left = round(_between(moves, _WALL_PLACE) * width) - wall_width // 2
        self._wall = background(fills, high, wall_width)
        self._actors = [self._actor(moves, paints) for _ in range(objects)]
        self._camera = [[_shake(shakes, shake / _SHAKES) for _ in range(_SHAKES)] for _ in range(2)]

    def frame(self, seconds: float) -> tuple[Pixels, list[MovingShape]]:
        camera_x, camera_y = (round(sum(one.at(seconds) for one in axis)) for axis in self._camera)
        top, left = self._margin + camera_y, self._margin + camera_x
        image = self._background[top : top + self.height, left : left + self.width].copy()
        owner: npt.NDArray[np.uint8] = np.zeros(image.shape[:2], np.uint8)
        for number, actor in enumerate(self._actors, 1):
            high, wide = actor.mask.shape
            at_x = round(actor.x.at(seconds) - wide / 2) - camera_x
            at_y = round(actor.y.at(seconds) - high / 2) - camera_y
            there, part = overlap(owner.shape, actor.mask.shape, at_x, at_y)
            owner[there][actor.mask[part] > FULL // 2] = number
            image[there] = blend(image[there], actor.texture[part], actor.mask[part])
        there, part = overlap(owner.shape, self._wall.shape, self._wall_left - camera_x, -self._margin - camera_y)
        owner[there], image[there] = 0, self._wall[part]
        return image, self._visible(owner)

    def _actor(self, moves: np.random.Generator, paints: np.random.Generator) -> _Actor:
        label, turn, stretch = int(moves.integers(len(NAMES))), moves.random(), 0.75 + 0.5 * moves.random()
        size = _SMALLEST * (_LARGEST / _SMALLEST) ** moves.random() * min(self.width, self.height)
        mask = rasterise(label, size, turn, stretch)
        swings = [
            _Swing(
                side * _between(moves, (0.4, 0.6)), side * _between(moves, reach), _between(moves, _PERIODS),
                moves.random(),
            )
            for side, reach in zip((self.width, self.height), _REACH, strict=True)
        ]  # fmt: skip
        behind = self._background.mean((0, 1)).astype(np.uint8)
        high, wide = mask.shape
        return _Actor(label, mask, texture(paints, high, wide, behind, label), *swings)

    def _visible(self, owner: npt.NDArray[np.uint8]) -> list[MovingShape]:
        found = []
        for number, actor in enumerate(self._actors, 1):
            owned = owner == number
            if owned.any():
                left, top, part = without_specks(owned)
                if part.size:
                    box = left, top, part.shape[1], part.shape[0]
                    found.append(MovingShape(number, actor.label, box, int(part.sum()) / actor.area))
        return found


def frame_times(seed: int, number: int, frames: int, fps: float, drop: float) -> npt.NDArray[np.float64]:
    """Seconds of each frame: evenly spaced, or with a share of frames missing at random, never the first."""
    rng = _generator(seed, number, _DROPPED)
    kept: list[int] = [0]
    tick = 0
    while len(kept) < frames:
        tick += 1
        if rng.random() >= drop:
            kept.append(tick)
    return np.array(kept[:frames]) / fps


def _shake(rng: np.random.Generator, reach: float) -> _Swing:
    return _Swing(0.0, reach, 1 / _between(rng, _SHAKE_RATES), rng.random())


def _generator(seed: int, number: int, stream: int) -> np.random.Generator:
    key = np.array([seed, _FIRST_NUMBER + _STREAMS * number + stream], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _between(rng: np.random.Generator, limits: tuple[float, float]) -> float:
    return limits[0] + (limits[1] - limits[0]) * rng.random()
