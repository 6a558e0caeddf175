"""Boxes of many images into fixed shapes, in NumPy: torch would wake all its threads for arrays this small."""

import numpy as np
import numpy.typing as npt
import torch

from yolofast.image_index import starts_of
from yolofast.structures import Targets, bucketed


def padded_targets(rows: npt.NDArray[np.float32], images: int, capacity: int | None, *, pin: bool) -> Targets:
    """As `Targets.from_rows`, for rows in the order of their images; `pin` for a fast copy to a GPU."""
    image = rows[:, 0].astype(np.int64)
    counts = np.bincount(image, minlength=images)
    if capacity is None:
        capacity = bucketed(int(counts.max(initial=0)))
    place = np.arange(len(rows)) - starts_of(counts)[image]
    room = place < capacity  # boxes beyond are left out
    image, place, rows = image[room], place[room], rows[room]
    boxes = torch.empty(images, capacity, 4, pin_memory=pin)
    labels = torch.empty(images, capacity, dtype=torch.int64, pin_memory=pin)
    valid = torch.empty(images, capacity, dtype=torch.bool, pin_memory=pin)
    for tensor, values in ((boxes, rows[:, 2:]), (labels, rows[:, 1]), (valid, True)):
        array = tensor.numpy()
        array[...] = 0
        array[image, place] = values
    return Targets(boxes, labels, valid)
