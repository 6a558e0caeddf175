"""YOLOv7's rule of which detections are right.

In order of falling score each detection looks at the true box of its class that it overlaps most. If the overlap is
more than 0.5 and no earlier detection took that box, it takes it, and is right at every threshold its overlap exceeds.
There is no second choice; COCO's rule has one.
"""

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.pairs import Flat

# Single precision as published, which decides what equals a threshold.
THRESHOLDS = np.linspace(0.5, 0.95, 10, dtype=np.float32)


def right_detections(flat: Flat) -> npt.NDArray[np.bool_]:
    """[D, 10] for pairs of the same class: right at each of the thresholds."""
    detection, truth, overlap = _best_of_each(flat)
    # Detections of an image are in order of their scores, so of each true box the first taker is the best one.
    _, first = np.unique(truth, return_index=True)
    right = np.zeros((len(flat.scores), len(THRESHOLDS)), dtype=np.bool_)
    right[detection[first]] = overlap[first, None] > THRESHOLDS
    return right


def _best_of_each(flat: Flat) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Of each detection that overlaps enough: itself, the true box it overlaps most (of equals the first), how far."""
    enough = flat.overlap > THRESHOLDS[0]
    detection, truth, overlap = flat.detection[enough], flat.truth[enough], flat.overlap[enough]
    order = np.lexsort((truth, -overlap, detection))
    detection, best = np.unique(detection[order], return_index=True)
    return detection, truth[order][best], overlap[order][best]
