"""ByteTrack and BoT-SORT with many settings at once, on the same frames, to the same results.

A frame of twenty objects costs a tracker a hundred calls of NumPy, whose time is not that of the numbers. Here a state
holds the tracks of all settings, and each call works on all of them. The label of a track is the number of its setting:
trackers that keep classes apart keep settings apart. Only what differs between settings is done in another way:
thresholds are columns, boxes meet within their setting, and each setting's assignment is solved by itself. So a setting
gets the same tracks here as alone, under other ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.track.trackers.botsort import BotSort
from yolofast.track.trackers.bytetrack import DUPLICATE, ByteTrack
from yolofast.track.trackers.matching import MatchedPairs, overlap_of, solved, surely
from yolofast.track.trackers.settings import BotSortSettings, ByteTrackSettings
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame, Tracks

MAY_DIFFER = frozenset(
    {"track_thresh", "track_high_thresh", "track_low_thresh", "new_track_thresh", "match_thresh", "track_buffer"}
)
"""Other settings must be the same for all."""
_ABOVE_HIGH = 0.1
"""`new_track_thresh` where none is given."""

Own = ByteTrackSettings | BotSortSettings


class _Columns:
    """Settings of all, in the place of those of one: a value for each detection, track or setting."""

    def __init__(self, tracker: "ByteTrack", every: Sequence[Own]) -> None:
        self._tracker, self._first = tracker, every[0]
        self._high = np.array([one.track_high_thresh for one in every], np.float64)
        self._low = np.array([one.track_low_thresh for one in every], np.float64)
        born = [one.new_track_thresh for one in every]
        self._born = np.array(
            [high + _ABOVE_HIGH if one is None else one for one, high in zip(born, self._high.tolist(), strict=True)]
        )
        self._buffer = np.array([one.track_buffer for one in every], np.float64)
        self.match_thresh = np.array([one.match_thresh for one in every], np.float64)
        """[settings]"""
        self.of_detections = np.zeros(0, np.int64)
        """The setting of each detection of the frame."""

    @property
    def track_high_thresh(self) -> Floats:
        return self._high[self.of_detections]

    @property
    def track_low_thresh(self) -> Floats:
        return self._low[self.of_detections]

    @property
    def new_track_thresh(self) -> Floats:
        return self._born[self.of_detections]

    @property
    def track_buffer(self) -> Floats:
        """Of each track."""
        return self._buffer[self._tracker.state.labels]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)


class _Together(ByteTrack):
    """What both trackers do differently for many settings; detections come sorted by setting."""

    settings: Any

    def __init__(self, every: Sequence[Own], frame_rate: float) -> None:
        self._count = len(every)
        super().__init__(every[0], frame_rate=frame_rate, faithful=False, classes="each")
        self.settings = _Columns(self, every)

    def _step(self, frame: TrackerFrame) -> Tracks:
        self.settings.of_detections = frame.labels
        return super()._step(frame)

    def _pairs(self, frame: TrackerFrame) -> MatchedPairs:
        return within(self.motion.boxes(), self.state.labels, frame.boxes, frame.labels, self._count)

    def _match(
        self,
        stage: str,
        matches: Ints,
        pairs: MatchedPairs,
        cost: Floats,
        limit: Any,
        rows: Bools | None,
        columns: Bools,
    ) -> None:
        own = self.state.labels[pairs.rows]
        limits = limit[own] if isinstance(limit, np.ndarray) else np.full(len(own), limit)
        fit = columns[pairs.columns] & (cost <= limits)
        if rows is not None:
            fit &= rows[pairs.rows]
        possible = fit.nonzero()[0]
        gain = limits[possible] - cost[possible]
        found = possible[assign_each(pairs.rows[possible], pairs.columns[possible], gain, own[possible])]
        matches[pairs.rows[found]] = pairs.columns[found]

    def _in_one_place(self, boxes: Floats, count: int) -> MatchedPairs:
        labels = self.state.labels
        pairs = within(boxes[count:], labels[count:], boxes[:count], labels[:count], self._count)
        return pairs.where(pairs.overlap > DUPLICATE)


class ByteTracks(_Together):
    pass


class BotSorts(_Together, BotSort):
    pass


KINDS: dict[str, type[_Together]] = {"bytetrack": ByteTracks, "botsort": BotSorts}


@dataclass(frozen=True)
class _Packed:
    """Boxes by setting, [4, settings, most], padded with nan; and where each was."""

    boxes: Floats
    places: Ints


def _packed(boxes: Floats, own: Ints, count: int) -> _Packed:
    """In their order."""
    order = own.argsort(kind="stable")
    counts = np.bincount(own, minlength=count)
    sorted_own = own[order]
    slot = np.arange(len(own)) - (counts.cumsum() - counts)[sorted_own]
    most = int(counts.max(initial=0))
    packed, places = np.full((4, count, most), np.nan), np.zeros((count, most), np.int64)
    packed[:, sorted_own, slot] = boxes[order].T
    places[sorted_own, slot] = order
    return _Packed(packed, places)


def within(first: Floats, first_own: Ints, second: Floats, second_own: Ints, count: int) -> MatchedPairs:
    """As `overlapping`, for boxes of the same setting; ordered by setting, row, column."""
    if not len(first) or not len(second):
        nothing = np.zeros(0, np.int64)
        return MatchedPairs(nothing, nothing, np.zeros(0))
    rows, columns = _packed(first, first_own, count), _packed(second, second_own, count)
    one, two = rows.boxes[:, :, :, None], columns.boxes[:, :, None, :]
    touch = one[0] < two[2]
    touch &= one[2] > two[0]
    touch &= one[1] < two[3]
    touch &= one[3] > two[1]
    own, row, column = touch.nonzero()
    row, column = rows.places[own, row], columns.places[own, column]
    return MatchedPairs(row, column, overlap_of(first[row], second[column]))


def assign_each(rows: Ints, columns: Ints, gain: Floats, own: Ints) -> Ints:
    """As `assign`, each setting by itself; pairs are ordered by setting, row, column."""
    if not len(rows):
        return rows
    sure, left = surely(rows, columns, gain)
    for part in np.split(left, np.diff(own[left]).nonzero()[0] + 1) if len(left) else ():
        sure[part[solved(rows[part], columns[part], gain[part])]] = True
    return sure.nonzero()[0]
