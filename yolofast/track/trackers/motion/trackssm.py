"""TrackSSM in a tracker: the next box of each track from its last five, all tracks at once.

As published, every predicted box joins the history and a matched detection takes its place. So a lost track rolls on
along what was predicted; a tracker that believes in straight gaps (OC-SORT) has those boxes replaced by the line when
it is seen again. A model that is told intervals needs no such boxes: its history is what was seen, and it is asked for
the time of the frame, however long ago that was. Boxes of tracks that are matched are the detections.

Histories are shares of the image's sides, which therefore have to be known.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from yolofast.errors import UserError
from yolofast.extensions import found
from yolofast.track.trackers.motion.model import Gaps, Motion
from yolofast.track.trackers.state import array_of
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame

_ROWS = 5
_KEPT = _ROWS + 1
"""Boxes of a history, and the one before it."""
_SMALLEST = 1e-2
"""Pixels; a network may predict a box inside out."""
_MOST_STEPS = 30


class TrackSSMMotion(Motion):
    name = "trackssm"
    published: ClassVar[Mapping[str, Any]] = {"match_thresh": 0.8, "mot20": True}

    def __init__(self, settings: Any) -> None:
        if not settings.motion_weights:
            fix = "give motion_weights=FILE: a published file, or best.pt of `yolofast motion train`"
            raise UserError("motion is trackssm, but there are no weights", fix=fix)
        ask = found("yolofast.motion.predictor:predictor")  # torch is loaded by those who need it
        self._ask = ask(settings.motion_weights, sigmoid=settings.motion_sigmoid, device=settings.motion_device)
        super().__init__(settings)

    def clear(self) -> None:
        self._history = np.zeros((0, _KEPT, 4))
        """[n, 6, 4] centre and size in pixels, the newest last; short ones begin with copies of their first."""
        self._seconds = np.zeros((0, _KEPT))
        self._length = np.zeros(0, np.int64)
        """Of a history, up to 6."""
        self._box, self._seen = np.zeros((0, 4)), np.zeros((0, 4))
        """Where it is believed to be, and where it was last seen."""
        self._predicted = np.zeros(0, bool)
        """Whether the newest of the history is a prediction for this frame."""
        self._time, self._sides = 0.0, np.ones(2)
        self._foreseen: Floats | None = None
        """Answers that were asked for together with those of other videos."""

    def born(self, boxes: Floats, place: int) -> None:
        measured, count, old = _centred(boxes), len(boxes), len(self._box)
        self._history = np.concatenate((self._history, np.repeat(measured[:, None], _KEPT, axis=1)))
        self._seconds = np.concatenate((self._seconds, np.full((count, _KEPT), self._time)))
        self._length = np.concatenate((self._length, np.ones(count, np.int64)))
        self._box, self._seen = np.concatenate((self._box, measured)), np.concatenate((self._seen, measured))
        self._predicted = np.concatenate((self._predicted, np.zeros(count, bool)))
        if place < old:
            rows = np.arange(old + count)
            self.take(np.concatenate((rows[:place], rows[old:], rows[place:old])))

    def take(self, rows: Ints | Bools) -> None:
        self._history, self._seconds, self._length = self._history[rows], self._seconds[rows], self._length[rows]
        self._box, self._seen, self._predicted = self._box[rows], self._seen[rows], self._predicted[rows]
        if self._foreseen is not None:
            self._foreseen = self._foreseen[rows]

    def predict(self, frame: TrackerFrame, tracked: int, waiting: Bools | None) -> None:
        foreseen, self._foreseen = self._foreseen, None
        self._time = frame.time
        self._predicted[:] = False
        if frame.size is None:
            fix = "give size=(width, height) with each frame; stored detections name it, or a --source shows it"
            raise UserError("motion is trackssm, and the size of the images is not known", fix=fix)
        if not len(self._box):
            return
        self._sides = np.array(frame.size, np.float64)
        moving = np.arange(len(self._box)) if waiting is None else (~waiting).nonzero()[0]
        answers = self._asked(moving) if foreseen is None else foreseen[moving]
        if self._ask.shape.timed:
            self._box[moving] = answers
            return
        self._append(moving, answers)
        for _ in range(1, min(round(frame.frames), _MOST_STEPS)):  # frames may be missing
            self._append(moving, self._asked(moving))
        self._predicted[moving] = True

    def warp(self, matrix: Floats) -> None:
        """Histories move with what they show."""
        turn, scale = matrix[:, :2], np.sqrt(abs(np.linalg.det(matrix[:, :2])))
        for boxes in (self._history, self._box, self._seen):
            boxes[..., :2] = boxes[..., :2] @ turn.T + matrix[:, 2]
            boxes[..., 2:] *= scale

    def correct(self, rows: Ints, boxes: Floats, gaps: Gaps | None = None) -> None:
        measured = _centred(boxes)
        known = self._predicted[rows]
        self._append(rows[~known], measured[~known])
        self._history[rows, -1], self._box[rows], self._seconds[rows, -1] = measured, measured, self._time
        if gaps is not None and not self._ask.shape.timed:
            self._straighten(rows[gaps.places], gaps.frames[:, None])
        self._seen[rows] = measured

    def _straighten(self, rows: Ints, frames: Ints) -> None:
        """What was predicted for those frames becomes the line from where these were last seen to where they are."""
        for back in range(1, _KEPT):
            start, end = self._seen[rows], self._history[rows, -1]
            line = end + (start - end) * (np.minimum(back, frames) / frames)
            self._history[rows, -1 - back] = np.where(back < frames, line, self._history[rows, -1 - back])

    def boxes(self) -> Floats:
        half = np.maximum(self._box[:, 2:], _SMALLEST) / 2
        return np.concatenate((self._box[:, :2] - half, self._box[:, :2] + half), axis=1)

    def state_dict(self) -> dict[str, Any]:
        return {
            "history": self._history.copy(), "seconds": self._seconds.copy(), "length": self._length.copy(),
            "box": self._box.copy(), "seen": self._seen.copy(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any], count: int) -> None:
        history = array_of(state, "history", (count, _KEPT, 4), np.float64)
        seconds = array_of(state, "seconds", (count, _KEPT), np.float64)
        length = array_of(state, "length", (count,), np.int64)
        box, seen = (array_of(state, name, (count, 4), np.float64) for name in ("box", "seen"))
        self._history, self._seconds, self._length, self._box, self._seen = history, seconds, length, box, seen
        self._predicted = np.zeros(count, bool)

    def _append(self, rows: Ints, boxes: Floats) -> None:
        self._history[rows, :-1], self._seconds[rows, :-1] = self._history[rows, 1:], self._seconds[rows, 1:]
        self._history[rows, -1], self._seconds[rows, -1] = boxes, self._time
        self._length[rows] = np.minimum(self._length[rows] + 1, _KEPT)
        self._box[rows] = boxes

    def _asked(self, rows: Ints) -> Floats:
        return self._answers(rows, self._ask(self._question(rows)))

    def _question(self, rows: Ints) -> npt.NDArray[np.float32]:
        """[n, 5, 8 or 10]"""
        boxes = self._history[rows] / np.concatenate((self._sides, self._sides))
        columns = [boxes[:, 1:], np.diff(boxes, axis=1)]
        shape = self._ask.shape
        if shape.timed:
            ahead = np.repeat((self._time - self._seconds[rows, -1:]), _ROWS, axis=1)
            columns += [self._ask.in_octaves(one)[..., None] for one in (np.diff(self._seconds[rows], axis=1), ahead)]
        history = np.concatenate(columns, axis=2)
        if not shape.padded_in_front:  # as published: the last row is repeated, its change included
            known = np.minimum(self._length[rows], _ROWS)[:, None]
            places = np.minimum(_ROWS - known + np.arange(_ROWS), _ROWS - 1)
            history = history[np.arange(len(rows))[:, None], places]
        return history.astype(np.float32)

    def _answers(self, rows: Ints, shares: npt.NDArray[np.float32]) -> Floats:
        """Where the tracks will be, in pixels; where they were, if that is not finite."""
        answers = shares.astype(np.float64) * np.concatenate((self._sides, self._sides))
        wrong = ~np.isfinite(answers).all(axis=1)
        answers[wrong] = self._history[rows[wrong], -1]
        return answers


def foresee_together(asked: Iterable[tuple[Motion | None, float, tuple[int, int]]]) -> None:
    """One question for the tracks of several videos that will be predicted next, each at a time and an image size."""
    learned = [(one, time, size) for one, time, size in asked if isinstance(one, TrackSSMMotion)]
    if len(learned) < 2 or any(one._ask is not learned[0][0]._ask for one, _, _ in learned):
        return
    questions = []
    for one, time, size in learned:
        one._time, one._sides = time, np.array(size, np.float64)
        questions.append(one._question(np.arange(len(one._box))))
    shares = learned[0][0]._ask(np.concatenate(questions))
    ends = np.cumsum([len(rows) for rows in questions])
    for (one, _, _), own in zip(learned, np.split(shares, ends[:-1]), strict=True):
        one._foreseen = one._answers(np.arange(len(own)), own)


def _centred(boxes: Floats) -> Floats:
    size = boxes[:, 2:] - boxes[:, :2]
    return np.concatenate((boxes[:, :2] + size / 2, size), axis=1)
