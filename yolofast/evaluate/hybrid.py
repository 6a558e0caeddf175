"""Labels completed by detections (`--save-hybrid`), to be looked through and trained on.

Every label stays, with a score of 1. A detection joins them unless it overlaps a label of its class by more than the
threshold: then it is the same object. Suppressing labels and predictions together, as published, would also drop labels
that overlap one another.
"""

import numpy as np

from yolofast.evaluate.ground_truth import GroundTruth
from yolofast.evaluate.pairs import pair_up
from yolofast.structures import Detections


def with_labels(found: Detections, truth: GroundTruth, iou: float) -> Detections:
    """Labels first, then what was found elsewhere, best first; both in pixels of the same image."""
    pairs = pair_up([found], [truth], same_class=True)
    is_new = np.ones(len(found), np.bool_)
    is_new[pairs.detection[pairs.overlap > iou]] = False
    new = found[np.argsort(-found.scores, kind="stable")][is_new]
    return Detections(
        np.concatenate((truth.boxes, new.boxes)),
        np.concatenate((np.ones(len(truth.labels), np.float32), new.scores)),
        np.concatenate((truth.labels, new.labels)),
    )
