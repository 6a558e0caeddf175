"""Milliseconds per frame of every tracker, without a detector, on one thread.

`OMP_NUM_THREADS=1 python -m benchmarks.bench_track`. Beside them runs a ByteTrack written as is usual: an object per
track, an 8×8 Kalman filter each, and a matrix of all pairs. All get the same frames. What counts is the processor time
of the thread, so that waiting for other programs does not. Several passes are made, one tracker after another, and a
frame takes what it took in the fastest, since others only slow it; medians over the frames are shown.
"""

import argparse
import itertools
import platform
import time

import numpy as np
import scipy
from scipy.optimize import linear_sum_assignment

from yolofast import build_tracker
from yolofast.track.trackers.table import TRACKERS
from yolofast.track.trackers.tracker import Tracker

OBJECTS = (10, 50, 200)
_POSITION, _VELOCITY = 1 / 20, 1 / 160


def crowd(objects: int, frames: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Objects that move through a square, as dense whatever their number; 5 % are missed, 10 % have low scores."""
    rng = np.random.default_rng(seed)
    side = np.sqrt(objects) * 130
    centres, speeds = rng.random((objects, 2)) * side, rng.normal(0, 3, (objects, 2))
    sizes = rng.random((objects, 2)) * 60 + 40
    made = []
    for _ in range(frames):
        centres = (centres + speeds) % side
        boxes = np.concatenate((centres - sizes / 2, centres + sizes / 2), axis=1) + rng.normal(0, 1, (objects, 4))
        scores = np.where(rng.random(objects) < 0.1, 0.3, 0.9) - rng.random(objects) * 0.1
        there = rng.random(objects) > 0.05
        made.append((boxes[there], scores[there]))
    return made


class _Track:
    move = np.eye(8) + np.eye(8, k=4)
    look = np.eye(4, 8)

    def __init__(self, measured: np.ndarray, name: int) -> None:
        self.name, self.missed, h = name, 0, measured[3]
        self.mean = np.concatenate((measured, np.zeros(4)))
        spread = [2 * _POSITION * h, 2 * _POSITION * h, 1e-2, 2 * _POSITION * h]
        self.cov = np.diag(np.square([*spread, 10 * _VELOCITY * h, 10 * _VELOCITY * h, 1e-5, 10 * _VELOCITY * h]))

    def predict(self) -> None:
        h = self.mean[3]
        noise = [_POSITION * h, _POSITION * h, 1e-2, _POSITION * h, _VELOCITY * h, _VELOCITY * h, 1e-5, _VELOCITY * h]
        self.mean = self.move @ self.mean
        self.cov = self.move @ self.cov @ self.move.T + np.diag(np.square(noise))

    def correct(self, measured: np.ndarray) -> None:
        h = self.mean[3]
        noise = np.diag(np.square([_POSITION * h, _POSITION * h, 1e-1, _POSITION * h]))
        spread = self.look @ self.cov @ self.look.T + noise
        gain = np.linalg.solve(spread, self.look @ self.cov).T
        self.mean = self.mean + gain @ (measured - self.look @ self.mean)
        self.cov = self.cov - gain @ spread @ gain.T
        self.missed = 0

    def box(self) -> np.ndarray:
        x, y, a, h = self.mean[:4]
        return np.array([x - a * h / 2, y - h / 2, x + a * h / 2, y + h / 2])


class PerObject:
    """ByteTrack's two associations, straightforward."""

    def __init__(self) -> None:
        self.tracks: list[_Track] = []
        self.count = 0

    def update(self, boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, np.ndarray]]:
        for track in self.tracks:
            track.predict()
        high, low = boxes[scores > 0.6], boxes[(scores > 0.1) & (scores < 0.6)]
        free = self._associate(self.tracks, high, scores[scores > 0.6], 0.9)
        left = [track for track in self.tracks if track.missed == 1]
        self._associate(left, low, np.ones(len(low)), 0.5)
        for box in high[free]:
            self.count += 1
            self.tracks.append(_Track(_measured(box), self.count))
        self.tracks = [track for track in self.tracks if track.missed <= 30]
        return [(track.name, track.box()) for track in self.tracks if not track.missed]

    def _associate(self, tracks: list[_Track], boxes: np.ndarray, scores: np.ndarray, limit: float) -> list[int]:
        overlap = np.array([[_iou(track.box(), box) for box in boxes] for track in tracks])
        cost = 1 - overlap.reshape(len(tracks), len(boxes)) * scores
        rows, columns = linear_sum_assignment(np.minimum(cost - limit, 0))
        taken = set()
        matched = {row: column for row, column in zip(rows, columns, strict=True) if cost[row, column] <= limit}
        for row, track in enumerate(tracks):
            if row in matched:
                track.correct(_measured(boxes[matched[row]]))
                taken.add(matched[row])
            else:
                track.missed += limit > 0.5  # once a frame
        return [column for column in range(len(boxes)) if column not in taken]


def _measured(box: np.ndarray) -> np.ndarray:
    width, height = box[2:] - box[:2]
    return np.array([box[0] + width / 2, box[1] + height / 2, width / height, height])


def _iou(one: np.ndarray, two: np.ndarray) -> float:
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((one[2] - one[0]) * (one[3] - one[1]) + (two[2] - two[0]) * (two[3] - two[1]) - shared)


def seconds_of(tracker: PerObject | Tracker, scene: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """Of each frame."""
    took = []
    for boxes, scores in scene:
        begun = time.thread_time()
        tracker.update(boxes, scores)
        took.append(time.thread_time() - begun)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--passes", type=int, default=10, help="of our trackers; the other one is slow and gets one")
    parser.add_argument("--faithful", action="store_true", help="as published, defects included")
    frames, passes, faithful = vars(parser.parse_args()).values()
    machine = (
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    )
    print(f"{machine}; {frames} frames, {passes} passes, processor time of a frame, medians in ms")
    print(f"| tracker | {' | '.join(f'{count} objects' for count in OBJECTS)} |\n|---|{'---|' * len(OBJECTS)}")
    scenes = {count: crowd(count, frames) for count in OBJECTS}
    took: dict[tuple[str, int], np.ndarray] = {}
    for _ in range(passes):  # one after another: a machine may be slow for a while
        for name, count in itertools.product(TRACKERS, OBJECTS):
            settings = {"cmc_method": "none"} if name == "botsort" else {}
            tracker = build_tracker(name, faithful=faithful, **settings)
            seconds = np.array(seconds_of(tracker, scenes[count]))
            took[name, count] = np.minimum(took.get((name, count), seconds), seconds)
    for count in OBJECTS:
        took["an object per track", count] = np.array(seconds_of(PerObject(), scenes[count]))
    rows: dict[str, list[float]] = {}
    for (name, _), seconds in took.items():
        rows.setdefault(name, []).append(float(np.median(seconds)) * 1e3)
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |")


if __name__ == "__main__":
    main()
