"""How often to draw each image when rare and badly learnt classes should be seen more often (`--image-weights`)."""

import numpy as np
import numpy.typing as npt

from yolofast.image_index import ImageIndex

Floats64 = npt.NDArray[np.float64]


def class_weights(index: ImageIndex) -> Floats64:
    """[nc] one over the number of boxes of each class, scaled to a sum of 1; a class without boxes counts as if it had
    one.
    """
    counts = np.bincount(index.labels[~index.crowd], minlength=len(index.names))
    weights = 1.0 / np.maximum(counts, 1)
    return np.asarray(weights / weights.sum())


def image_weights(index: ImageIndex, class_weights: npt.ArrayLike, maps: npt.ArrayLike) -> Floats64:
    """[N] sum over an image's boxes of the class's weight · (1 - mAP)²; `maps` [nc] is the mAP of each class so far."""
    per_class = np.asarray(class_weights, np.float64) * (1.0 - np.asarray(maps, np.float64)) ** 2
    per_box = np.where(index.crowd, 0.0, per_class[index.labels])
    return np.bincount(index.image_of_box(), weights=per_box, minlength=len(index)).astype(np.float64)
