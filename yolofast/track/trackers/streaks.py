"""What OC-SORT and BoostTrack share: a track is given out once it was matched `min_hits` times in a row, and forgotten
`max_age` frames after its last match.

States hold numbers of frames that stay while nothing happens, instead of counters: nothing is written for tracks to
which nothing happens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yolofast.track.trackers.tracker import ROUNDING, Defect, Tracker
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackColumns, TrackerFrame


@dataclass
class StreakState(TrackColumns):
    ids: Ints
    last: Ints
    last_clock: Floats
    """Frame and clock of the last match, or of the birth."""
    steady: Ints
    """The frame after which it was matched in every one."""
    given: Bools
    """Given out at least once."""
    scores: Floats
    labels: Ints
    votes: Floats


class StreakTracker(Tracker):
    state: StreakState

    def _nobody(self) -> dict[str, NDArray[Any]]:
        """The shared columns of no tracks."""
        none, whole = np.zeros(0), np.zeros(0, np.int64)
        return {
            "ids": whole, "last": whole, "last_clock": none, "steady": whole, "given": np.zeros(0, bool),
            "scores": none, "labels": whole, "votes": np.zeros((0, 0)),
        }  # fmt: skip

    def _newborn(self, born: Ints, scores: Floats, frame: TrackerFrame) -> dict[str, NDArray[Any]]:
        """The shared columns of tracks that begin with these detections."""
        now = np.full(len(born), self.frame)
        return {
            "ids": self._new_ids(len(born)), "last": now, "last_clock": np.full(len(born), frame.clock),
            "steady": now, "given": np.zeros(len(born), bool), "scores": scores[born],
            "labels": frame.labels[born], "votes": self._first_votes(born, frame),
        }  # fmt: skip

    def _missed_before(self, rows: Ints) -> Ints:
        """Which of these, that are seen now, were not in the last frame."""
        return (self.state.last[rows] < self.frame - 1).nonzero()[0]

    def _hit(self, rows: Ints, seen: Ints, again: Ints, scores: Floats, frame: TrackerFrame) -> None:
        """These were matched to these detections; `again`: those that had been missed."""
        state = self.state
        if len(again):
            state.steady[rows[again]] = self.frame - 1
        state.last[rows] = self.frame
        state.last_clock[rows] = frame.clock
        state.scores[rows] = scores[seen]
        if frame.labelled:
            self._vote(rows, seen, frame)

    def _drop_old(self, frame: TrackerFrame, oldest: float) -> Ints | None:
        """Before anything is matched: what was not seen for longer than `oldest`. Which ones are kept; None: all."""
        if Defect.LATE_REMOVAL in self.defects:
            return None
        old = self._are_old(frame, oldest)
        if old is None:
            return None
        kept = (~old).nonzero()[0]
        self.state.take(kept)
        return kept

    def _drop_late(self, frame: TrackerFrame, oldest: float) -> Ints | None:
        """Faithful: a track may be matched once more when it is too old. Which ones are kept; None: all."""
        if Defect.LATE_REMOVAL not in self.defects:
            return None
        old = self.state.last_clock < frame.clock - (oldest + ROUNDING)
        if not np.count_nonzero(old):
            return None
        kept = (~old).nonzero()[0]
        self.state.take(kept)
        return kept

    def _shown(self, least: int) -> Ints:
        """Which tracks are given out."""
        shown = self._are_shown(least)
        self.state.given |= shown
        return shown.nonzero()[0]

    def _lost(self, least: int) -> Ints:
        """Which were given out, and are not now: not seen, or seen again, but not yet so often in a row."""
        return (self.state.given & ~self._are_shown(least)).nonzero()[0]

    def _are_shown(self, least: int) -> Bools:
        shown: Bools = self.state.last == self.frame
        if self.frame > least:
            shown &= self.state.steady <= self.frame - least
        return shown
