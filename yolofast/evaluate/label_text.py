"""Detections as the text of a label file: class, centre and size as shares of the image, and if wanted the score."""

import numpy as np

from yolofast.structures import Detections


def label_text(detections: Detections, width: int, height: int, *, scores: bool) -> str:
    """For detections in pixels of an image of this size."""
    low, high = detections.boxes[:, :2], detections.boxes[:, 2:]
    size = np.array((width, height))
    columns = [detections.labels, *((low + high) / 2 / size).T, *((high - low) / size).T]
    columns += [detections.scores] if scores else []
    rows = zip(*columns, strict=True)
    return "".join(" ".join([str(int(label)), *(f"{value:.6f}" for value in values)]) + "\n" for label, *values in rows)
