"""Scenes for trackers: golden detections, and moving boxes whose identities are known."""

from pathlib import Path

import numpy as np


def read_frames(path: Path, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Boxes x1 y1 x2 y2 and scores of each frame of a det.txt."""
    text = path.read_text().strip()
    rows = np.loadtxt(path, delimiter=",", ndmin=2) if text else np.zeros((0, 7))
    frames = (rows[rows[:, 0] == number] for number in range(1, count + 1))
    return [(np.concatenate((r[:, 2:4], r[:, 2:4] + r[:, 4:6]), axis=1), r[:, 6]) for r in frames]


def crossing(times: np.ndarray) -> list[np.ndarray]:
    """Boxes of four objects at these seconds, x1 y1 x2 y2, NaN where one is hidden.

    Two cross, one is hidden for 0.6 s while it moves, one stands still.
    """
    frames = []
    for time in times:
        centres = np.array([[100 + 50 * time, 100], [400 - 50 * time, 150], [100 + 30 * time, 300], [500, 400]])
        boxes = np.concatenate((centres - (40, 45), centres + (40, 45)), axis=1)
        if 2.05 < time < 2.65:
            boxes[2] = np.nan
        frames.append(boxes)
    return frames


def crowd(objects: int, frames: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Many that move, are missed now and then, and sometimes have low scores."""
    rng = np.random.default_rng(seed)
    side = np.sqrt(objects) * 130
    centres, speeds, sizes = rng.random((objects, 2)) * side, rng.normal(0, 3, (objects, 2)), rng.random((objects, 2))
    sizes = sizes * 60 + 40
    made = []
    for _ in range(frames):
        centres = (centres + speeds) % side
        boxes = np.concatenate((centres - sizes / 2, centres + sizes / 2), axis=1) + rng.normal(0, 1, (objects, 4))
        scores = np.where(rng.random(objects) < 0.1, 0.3, 0.9) - rng.random(objects) * 0.1
        there = rng.random(objects) > 0.05
        made.append((boxes[there], scores[there]))
    return made
