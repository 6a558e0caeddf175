"""What a tracker gets of stored detections: suppressed as a run with the network suppresses them, or more strictly.

A file that says how it was made (`Making`) gives the very boxes that the network would give `track`. In others, and for
lower overlaps, boxes are suppressed here, by the rule of the network: the better one of two stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from yolofast.errors import UserError, nearest
from yolofast.track.formats.detections import StoredDetections
from yolofast.track.formats.sequence import Bools, Floats, Ints
from yolofast.track.trackers.matching import overlap_of

NMS_IOU = 0.7
"""People in a crowd overlap."""
MOST = 300
"""Detections of an image that a tracker gets."""


def tracks_across(class_handling: object) -> bool:
    """A thing is one thing, whichever classes it resembles, unless classes are tracked apart."""
    return class_handling != "each"


class StoredCandidates:
    """Stored detections of a video, for any number of choices among them."""

    def __init__(self, stored: StoredDetections) -> None:
        self.stored = stored

    def kept(
        self, *, conf: float | None = None, iou: float | None = None, most: int | None = None, across: bool = True
    ) -> Bools:
        """[n]; None: as a run with the network does it, of files that do not say how they were made all."""
        kept = self._left(iou, across)
        if conf is not None:
            kept &= self.stored.score >= conf
        if most is None and self.stored.made is not None:
            most = MOST
        return kept if most is None else kept & self._among_best(kept, most)

    def _left(self, iou: float | None, across: bool) -> Bools:
        stored, made = self.stored, self.stored.made
        if made is not None:
            iou = made.iou if iou is None else min(iou, made.iou)
            marks = stored.across if across else stored.within
            if marks is not None and iou in made.marked:
                return marks[:, made.marked.index(iou)].copy()
            if iou == made.iou and (made.overlaps == "across" or not across):
                return np.ones(len(stored), np.bool_)
        return ~self.suppressed(iou, across=across)

    def suppressed(self, threshold: float | None, *, across: bool) -> Bools:
        """[n] whether a better candidate, which is kept itself, overlaps it by more than `threshold`.

        In rounds over all frames at once: what has no better rival left is kept, its rivals go.
        """
        gone = np.zeros(len(self.stored), np.bool_)
        if threshold is None:
            return gone
        better, worse, overlap = self._rivals_across if across else self._rivals_within
        close = overlap > threshold
        better, worse = better[close], worse[close]
        open_ = np.ones(len(gone), np.bool_)
        while len(worse):
            doubtful = np.zeros(len(gone), np.bool_)
            doubtful[worse] = True
            gone[worse[open_[better] & ~doubtful[better]]] = True
            open_ = ~gone
            going_on = doubtful[better] & ~gone[better] & ~gone[worse]
            if not going_on.any():
                break
            better, worse = better[going_on], worse[going_on]
        return gone

    @cached_property
    def _rivals_across(self) -> tuple[Ints, Ints, Floats]:
        return self._rivals(np.zeros(len(self.stored), np.int64))

    @cached_property
    def _rivals_within(self) -> tuple[Ints, Ints, Floats]:
        return self._rivals(self.stored.label)

    def _rivals(self, kinds: Ints) -> tuple[Ints, Ints, Floats]:
        """Candidates of one frame and kind that overlap: the better one, the other one, how much."""
        found = self.stored
        order = np.lexsort((-found.score, kinds, found.frame))
        group = np.stack((found.frame[order], kinds[order]))
        ends = np.append(np.flatnonzero((np.diff(group) != 0).any(0)) + 1, len(order))
        last = ends[np.searchsorted(ends, np.arange(len(order)), side="right")] if len(order) else ends[:0]
        behind = last - np.arange(len(order)) - 1
        first = np.repeat(np.arange(len(order)), behind)
        second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(behind) - behind, behind)
        better, worse = order[first], order[second]
        overlap = overlap_of(found.box[better], found.box[worse])
        touch = overlap > 0
        return better[touch], worse[touch], overlap[touch]

    def _among_best(self, kept: Bools, most: int) -> Bools:
        places = np.flatnonzero(kept)
        places = places[np.lexsort((-self.stored.score[places], self.stored.frame[places]))]
        frames = self.stored.frame[places]
        rank = np.arange(len(places)) - np.searchsorted(frames, frames)
        best = np.zeros(len(kept), np.bool_)
        best[places[rank < most]] = True
        return best


def of_classes(stored: StoredDetections, classes: Iterable[int | str] | None) -> StoredDetections:
    """Only these, by number or name. Others suppress nothing, as with a network that is asked for some classes."""
    if classes is None:
        return stored
    labels = sorted({_label(one, stored) for one in classes})
    some = stored.kept(np.isin(stored.label, labels))
    if some.made is None or some.made.overlaps != "both":
        return some
    if len(labels) > 1:
        chosen = StoredCandidates(some)
        marks = [~chosen.suppressed(overlap, across=True) for overlap in some.made.marked]
        return replace(some, across=np.stack(marks, axis=1))
    return replace(some, across=some.within)


def refuse_without_features(stored: StoredDetections) -> None:
    if stored.features is None and len(stored):
        what = f"with_reid is true, but the detections of {stored.name} hold no features"
        raise UserError(what, fix="make them with track --save-detections --track with_reid=true, or leave it out")


def refuse_higher(stored: StoredDetections, overlaps: Sequence[object], flag: str) -> None:
    """What was suppressed when detections were made cannot come back."""
    made = stored.made
    highest = max((one for one in overlaps if isinstance(one, int | float)), default=0.0)
    if made is not None and highest > made.iou:
        what = f"{flag} is {highest:g}, but the detections of {stored.name} were suppressed at {made.iou:g}"
        raise UserError(what, fix=f"give at most that, or make them again: predict --save-detections --iou {highest:g}")


def _label(given: int | str, stored: StoredDetections) -> int:
    if isinstance(given, int):
        return given
    if given not in stored.names:
        known = ", ".join(stored.names) or "no names, only numbers"
        what = f"{stored.name} has no class {given!r}{nearest(given, stored.names)}"
        raise UserError(what, fix=f"its detections know {known}")
    return stored.names.index(given)
