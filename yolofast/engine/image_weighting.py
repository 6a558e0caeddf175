"""`--image-weights`: images with rare or badly learnt classes are drawn more often, anew after every evaluation."""

import dataclasses

import numpy as np

from yolofast.dataset.weights import Floats64, class_weights, image_weights
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.image_index import ImageIndex
from yolofast.loader.order import EpochOrder


class ImageWeighting:
    """`maps`, the classes' mAP so far, is all that a resumed run has to know."""

    def __init__(self, index: ImageIndex) -> None:
        self._index, self._class_weights = index, class_weights(index)
        self.maps: Floats64 = np.zeros(len(index.names))

    def learn(self, metrics: V7Result) -> None:
        self.maps = metrics.map_per_class(len(self._index.names))

    def weighted(self, order: EpochOrder) -> EpochOrder:
        """The order of the next epoch. Images without boxes are not drawn, unless there are no others."""
        weights = image_weights(self._index, self._class_weights, self.maps)
        if not weights.any():  # all is learnt perfectly, or there is nothing to learn
            weights = np.ones(len(self._index))
        return dataclasses.replace(order, weights=weights)
