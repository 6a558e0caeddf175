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
