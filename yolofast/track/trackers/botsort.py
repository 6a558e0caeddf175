"""BoT-SORT: ByteTrack's associations, with another filter, camera motion, and appearance beside overlap.

A track's look is a running mean of the features of its confident detections.
"""

import numpy as np

from yolofast.track.trackers.bytetrack import ByteState, ByteTrack
from yolofast.track.trackers.matching import MatchedPairs, every_pair
from yolofast.track.trackers.motion.box_filters import KalmanSides
from yolofast.track.trackers.settings import BotSortSettings
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame, normalised

_KEPT_FEATURE = 0.9


class BotSort(ByteTrack):
    name = "botsort"
    own_motion = KalmanSides
    gives_unconfirmed = True
    settings: BotSortSettings

    def _close(self, tracks: Floats, boxes: Floats) -> MatchedPairs:
        if self.settings.with_reid and self.settings.proximity_thresh >= 1:  # appearance alone may decide
            return every_pair(tracks, boxes, border=self._border)
        return super()._close(tracks, boxes)

    def _cost(self, pairs: MatchedPairs, frame: TrackerFrame) -> Floats:
        cost, own = super()._cost(pairs, frame), self.state.features
        if not self.settings.with_reid or frame.features is None or not own.shape[1]:
            return cost
        alike = (own[pairs.rows] * frame.features[pairs.columns]).sum(1)
        apart = np.maximum(0.0, 1 - alike) / 2
        apart[(apart > self.settings.appearance_thresh) | (1 - pairs.overlap > self.settings.proximity_thresh)] = 1.0
        apart[~_are_known(own)[pairs.rows]] = 1.0
        return np.asarray(np.minimum(cost, apart))

    def _look(self, rows: Ints, features: Floats) -> None:
        if not self.settings.with_reid:
            return
        self._widen_features(features.shape[1])
        old = self.state.features[rows]
        mixed = _KEPT_FEATURE * old + (1 - _KEPT_FEATURE) * features
        self.state.features[rows] = normalised(np.where(_are_known(old)[:, None], mixed, features))

    def _widen_features(self, width: int) -> None:
        if self.state.features.shape[1] != width:
            self.state.features = np.zeros((len(self.state.ids), width))

    def _born(self, born: Ints, frame: TrackerFrame) -> ByteState:
        state = super()._born(born, frame)
        if frame.features is not None and self.settings.with_reid:
            self._widen_features(frame.features.shape[1])
            state.features = frame.features[born]
        return state


def _are_known(features: Floats) -> Bools:
    """Tracks that have been looked at."""
    return np.asarray((features != 0).any(1))
