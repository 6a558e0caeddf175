"""Boxes that move, and what a detector makes of them, without images: what a study of motion models tracks.

Places are functions of the time in seconds, so the same scene can be seen at any rate. Four kinds:

- linear: walkers who cross the picture at a steady pace, and grow or shrink a little as they come and go;
- crossing: pairs who walk towards each other on one line; two of three pass, the third turns round where they meet;
- dancing: a group of equals on a small stage, swinging fast in both directions, bending and spreading their arms;
- shake: the walkers, seen by a camera in a shaking hand.

The detector is off by a few percent of a box, misses objects for moments, sees little of those that others cover, is
less sure of them, and now and then sees something where nothing is.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.track.formats.mot import SEQINFO, write_mot, write_seqinfo
from yolofast.track.formats.sequence import Sequence, make_sequence
from yolofast.track.formats.sequences_yaml import FILE_NAME, write_sequences_yaml

Floats = npt.NDArray[np.float64]
KINDS = ("linear", "crossing", "dancing", "shake")
WIDTH, HEIGHT = 1280, 720
_STREAMS = {"paths": 0, "camera": 1, "detector": 2}
_WALKERS, _PAIRS, _DANCERS = 16, 9, 7
_SEEN_INSIDE = 0.3
"""Of a box: from there on it is part of the truth."""
_JITTER, _SIZE_JITTER = 0.03, 0.04
"""Standard deviations: of the centre as a share of the sides, of the logarithm of the sides."""
_MISSES_PER_SECOND, _MISS_SECONDS = 0.15, (0.1, 0.6)
_MISS, _HIDDEN, _MISS_IF_HIDDEN = 0.03, 0.7, 0.9
"""Chance of a miss; the covered share from which on an object is hidden; the chance that a hidden one is missed."""
_FALSE_PER_FRAME = 0.2


@dataclass(frozen=True)
class Clip:
    """A scene at one rate: its truth, and what a tracker is given, frame by frame."""

    truth: Sequence
    detections: list[tuple[Floats, Floats]]
    """Boxes x1 y1 x2 y2, and scores."""
    warps: list[Floats | None]
    """How the camera moved since the frame before; None: it stands still."""


def make_clip(kind: str, rate: float, seed: int, number: int, seconds: float = 20.0) -> Clip:
    times = np.arange(round(seconds * rate)) / rate
    boxes = _PATHS[kind](_draws(seed, number, "paths"), times, seconds)
    moved = np.zeros((len(times), 2))
    if kind == "shake":
        moved = _camera(_draws(seed, number, "camera"), times)
        boxes = boxes - np.tile(moved, 2)[:, None]
    warps: list[Floats | None] = [None] * len(times)
    if kind == "shake":
        steps = -np.diff(moved, axis=0, prepend=moved[:1])
        warps = [np.column_stack((np.eye(2), step)) for step in steps]
    name = f"{kind}-{rate:g}hz-{seed}-{number}"
    return _seen(name, boxes, rate, WIDTH, HEIGHT, warps, _draws(seed, number, "detector"))


def noisy_clip(truth: Sequence, rate: float, width: int, height: int, seed: int) -> Clip:
    """Real truth, seen by the same detector."""
    boxes = np.full((truth.length, len(truth.identities()), 4), np.nan)
    boxes[truth.frame - 1, np.searchsorted(truth.identities(), truth.id)] = truth.box
    return _seen(truth.name, boxes, rate, width, height, [None] * truth.length, _draws(seed, 0, "detector"))


def write_clips(folder: Path, clips: list[Clip]) -> Path:
    """The truth as MOTChallenge sequences, for training; returns their `sequences.yaml`."""
    for clip in clips:
        own = folder / clip.truth.name
        (own / "gt").mkdir(parents=True, exist_ok=True)
        write_mot(own / "gt" / "gt.txt", clip.truth, "truth")
        write_seqinfo(own / SEQINFO, clip.truth, "img1", ".jpg")
    return write_sequences_yaml(folder / FILE_NAME, ("object",), [clip.truth.name for clip in clips], "made of boxes")


def _seen(
    name: str, boxes: Floats, rate: float, width: int, height: int, warps: list[Floats | None],
    rng: np.random.Generator,
) -> Clip:  # fmt: skip
    """`boxes` are [frames, objects, 4], NaN where an object is not there."""
    limits = np.array([width, height, width, height], float)
    inside = np.clip(boxes, 0, limits)
    share = _area(inside) / np.maximum(_area(boxes), 1e-9)
    there = np.isfinite(boxes).all(axis=2) & (share >= _SEEN_INSIDE)
    covered = np.stack([_covered(frame, present) for frame, present in zip(boxes, there, strict=True)])
    frames, objects = there.nonzero()
    truth = make_sequence(
        name, frame=frames + 1, id=objects + 1, box=inside[there], label=np.zeros(len(frames)),
        visibility=1 - covered[there], length=len(boxes), frame_rate=rate, width=width, height=height,
    )  # fmt: skip
    missing = _missing(rng, len(boxes) / rate, rate, there.shape)
    detections = []
    for frame, present in enumerate(there):
        hidden = (covered[frame] > _HIDDEN) & (rng.random(len(present)) < _MISS_IF_HIDDEN)
        found = present & ~missing[frame] & ~hidden & (rng.random(len(present)) >= _MISS)
        scores = np.clip(rng.normal(0.85, 0.07, len(present)) - 0.5 * covered[frame], 0.05, 0.99)
        noisy = _jittered(rng, inside[frame])
        false = _false(rng, width, height)
        given = np.clip(np.concatenate((noisy[found], false)), 0, limits)
        sure = np.concatenate((scores[found], rng.uniform(0.1, 0.75, len(false))))
        solid = _area(given) > 1
        detections.append((given[solid], sure[solid]))
    return Clip(truth, detections, warps)


def _linear(rng: np.random.Generator, times: Floats, seconds: float) -> Floats:
    start, lasts = rng.uniform(-15, seconds - 4, _WALKERS), rng.uniform(10, 25, _WALKERS)
    sides, height, growth = (
        rng.permuted([0, 1] * (_WALKERS // 2)),
        rng.uniform(80, 200, _WALKERS),
        rng.uniform(0.7, 1.4, _WALKERS),
    )
    part = (times[:, None] - start) / lasts
    x = np.where(sides == 0, -60 + part * (WIDTH + 120), WIDTH + 60 - part * (WIDTH + 120))
    y = rng.uniform(0.3, 0.7, _WALKERS) * HEIGHT + part * rng.uniform(-150, 150, _WALKERS)
    tall = height * growth ** np.clip(part, 0, 1)
    return _boxes(x, y, tall * rng.uniform(0.35, 0.5, _WALKERS), tall, (part >= 0) & (part <= 1))


def _crossing(rng: np.random.Generator, times: Floats, seconds: float) -> Floats:
    parts = []
    for pair in range(_PAIRS):
        meet, speed, reach = rng.uniform(0.15, 0.85) * seconds, rng.uniform(40, 120), rng.uniform(2, 5)
        middle, y, tall = rng.uniform(0.3, 0.7) * WIDTH, rng.uniform(0.3, 0.7) * HEIGHT, rng.uniform(110, 220)
        since = times - meet
        turns = pair % 3 == 2
        for side in (-1, 1):
            walked = np.abs(since) * -1 if turns else since
            own = tall * rng.uniform(0.92, 1.08)
            gap = 0.3 * own * turns  # those who turn round do not stand in one another
            x = middle - side * (speed * walked - gap)
            drift = y + 10 * side + 0 * since
            parts.append(
                _boxes(
                    x[:, None],
                    drift[:, None],
                    np.full((len(times), 1), 0.42 * own),
                    np.full((len(times), 1), own),
                    (np.abs(since) <= reach)[:, None],
                )
            )
    return np.concatenate(parts, axis=1)


def _dancing(rng: np.random.Generator, times: Floats, seconds: float) -> Floats:
    def swing(reach: tuple[float, float], rates: tuple[float, float]) -> Floats:
        size, rate, phase = (rng.uniform(*limits, _DANCERS) for limits in (reach, rates, (0, 1)))
        return size * np.sin(2 * np.pi * (times[:, None] * rate + phase))

    x = rng.uniform(0.15, 0.85, _DANCERS) * WIDTH + swing((60, 180), (0.1, 0.3)) + swing((15, 50), (0.4, 1.0))
    y = rng.uniform(0.35, 0.65, _DANCERS) * HEIGHT + swing((10, 40), (0.3, 1.0))
    tall = 220 * (1 + swing((0.05, 0.2), (0.4, 1.0)))
    wide = 220 * (0.45 + swing((0.05, 0.15), (0.4, 1.2)))
    return _boxes(x, y, wide, tall, np.ones_like(x, bool))


_PATHS = {"linear": _linear, "crossing": _crossing, "dancing": _dancing, "shake": _linear}


def _camera(rng: np.random.Generator, times: Floats) -> Floats:
    """[frames, 2] pixels: three sines an axis, up to 25 pixels and 4 Hertz each."""
    size, rate, phase = rng.uniform(8, 25, (2, 3)), rng.uniform(0.5, 4, (2, 3)), rng.random((2, 3))
    moved: Floats = (size * np.sin(2 * np.pi * (times[:, None, None] * rate + phase))).sum(axis=2)
    return moved


def _boxes(x: Floats, y: Floats, wide: Floats, tall: Floats, there: npt.NDArray[np.bool_]) -> Floats:
    boxes = np.stack((x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2), axis=2)
    boxes[~there] = np.nan
    return boxes


def _covered(boxes: Floats, there: npt.NDArray[np.bool_]) -> Floats:
    """[objects] share of each that the nearest of those in front covers most of; in front is whose feet are lower."""
    share = np.zeros(len(boxes))
    for one in there.nonzero()[0]:
        front = there & (boxes[:, 3] > boxes[one, 3])
        if front.any():
            low = np.maximum(boxes[front, :2], boxes[one, :2])
            high = np.minimum(boxes[front, 2:], boxes[one, 2:])
            both = np.clip(high - low, 0, None).prod(axis=1)
            share[one] = both.max() / max(_area(boxes[one]), 1e-9)
    return share


def _missing(rng: np.random.Generator, seconds: float, rate: float, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Moments in which an object is not seen, whatever the rate."""
    missing, times = np.zeros(shape, bool), np.arange(shape[0]) / rate
    for one in range(shape[1]):
        for _ in range(rng.poisson(_MISSES_PER_SECOND * seconds)):
            begins = rng.uniform(0, seconds)
            missing[(times >= begins) & (times < begins + rng.uniform(*_MISS_SECONDS)), one] = True
    return missing


def _jittered(rng: np.random.Generator, boxes: Floats) -> Floats:
    sides = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2 + rng.normal(0, _JITTER, sides.shape) * sides
    half = sides * np.exp(rng.normal(0, _SIZE_JITTER, sides.shape)) / 2
    return np.concatenate((centre - half, centre + half), axis=1)


def _false(rng: np.random.Generator, width: int, height: int) -> Floats:
    count = int(rng.poisson(_FALSE_PER_FRAME))
    corner, sides = rng.random((count, 2)) * (width, height), rng.uniform(0.05, 0.3, (count, 2)) * height
    return np.concatenate((corner, corner + sides), axis=1)


def _area(boxes: Floats) -> Floats:
    area: Floats = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    return area


def _draws(seed: int, number: int, stream: str) -> np.random.Generator:
    return np.random.default_rng([seed, number, _STREAMS[stream]])
