"""Why identities switched, as far as boxes can say: who was in the way, how long nothing was seen, how far it moved.

A cause is what was there when it happened, not a proof. Where several were, the first of this order is named: the two
exchanged their results, another object in the way, a gap, a jump; else another result took over in plain sight.
"""

from dataclasses import dataclass

import numpy as np

from yolofast.track.formats.sequence import Floats, Sequence
from yolofast.track.score.events import FrameEvent
from yolofast.track.score.prepare import Prepared

EXCHANGE, COVERED, GAP, JUMP, OTHER = "exchange", "covered", "gap", "jump", "plain sight"
CAUSES = {
    EXCHANGE: "another object has its former result now",
    COVERED: "another object covered at least 30 % of it since it was matched last",
    GAP: "it was not matched for some frames before",
    JUMP: "its box moved so far that it hardly overlaps itself",
    OTHER: "none of these: another result took over",
}
_COVERED = 0.3
_JUMP = 0.3
"""Overlap of an object's box with its own of the match before; less is a jump."""
_MOST_FRAMES = 60
"""Of a gap that are looked at for objects in the way: its ends matter."""


@dataclass(frozen=True)
class Switch:
    event: FrameEvent
    cause: str
    gap: int
    """Frames between the two matches."""
    covered: float
    """Largest share of the object that another covered, since the match before."""
    covered_by: int | None
    overlap: float
    """Of its boxes then and now."""
    moved: float
    """Pixels between their centres."""
    former: str
    """What became of the result that had followed it."""


def explain(event: FrameEvent, given: Prepared) -> Switch:
    assert event.last_frame is not None and event.from_id is not None
    then, now = (box_of(given.truth, frame, event.truth_id) for frame in (event.last_frame, event.frame))
    covered, by = _covered(event, given.truth)
    gap = event.frame - event.last_frame - 1
    overlap = overlap_of_two(then, now)
    former = box_of(given.results, event.frame, event.from_id)
    met = {EXCHANGE: event.exchanged, COVERED: covered >= _COVERED, GAP: gap > 0, JUMP: overlap < _JUMP, OTHER: True}
    return Switch(
        event,
        next(cause for cause, is_met in met.items() if is_met),
        gap,
        covered,
        by,
        overlap,
        float(np.linalg.norm(_centre(now) - _centre(then))),
        _fate(event, given, former, now),
    )


def _fate(event: FrameEvent, given: Prepared, former: Floats, now: Floats) -> str:
    if event.exchanged:
        return f"follows object {event.rival}"
    if len(former):
        return f"{np.linalg.norm(_centre(former) - _centre(now)):.0f} pixels away"
    frames = given.results.frame[given.results.id == event.from_id]
    later = frames[frames > event.frame]
    return f"ended in frame {frames.max()}" if not len(later) else f"back in frame {later.min()}"


def box_of(sequence: Sequence, frame: int, identity: int) -> Floats:
    """[4], or empty if it is not there."""
    low, high = np.searchsorted(sequence.frame, [frame, frame + 1])
    here = np.flatnonzero(sequence.id[low:high] == identity)
    box: Floats = sequence.box[low + here[0]] if len(here) else np.zeros(0)
    return box


def _covered(event: FrameEvent, truth: Sequence) -> tuple[float, int | None]:
    """Of the frames from the match before to this one: how much another object covered it at most, and which."""
    assert event.last_frame is not None
    frames = range(event.last_frame, event.frame + 1)
    if len(frames) > _MOST_FRAMES:
        frames = [*frames[: _MOST_FRAMES // 2], *frames[-_MOST_FRAMES // 2 :]]  # type: ignore[assignment]
    most: tuple[float, int | None] = 0.0, None
    for frame in frames:
        low, high = np.searchsorted(truth.frame, [frame, frame + 1])
        box, id = truth.box[low:high], truth.id[low:high]
        own = np.flatnonzero(id == event.truth_id)
        if not len(own) or high - low < 2:
            continue
        shared = _shared(box, box[own[0]]) / max(1e-9, _area(box[own[0]]))
        shared[own[0]] = 0
        at = int(shared.argmax())
        if shared[at] > most[0]:
            most = float(shared[at]), int(id[at])
    return most


def _shared(boxes: Floats, box: Floats) -> Floats:
    sides = np.minimum(boxes[..., 2:], box[2:]) - np.maximum(boxes[..., :2], box[:2])
    shared: Floats = sides.clip(min=0).prod(axis=-1)
    return shared


def overlap_of_two(one: Floats, other: Floats) -> float:
    shared = float(_shared(one, other))
    return shared / max(1e-9, _area(one) + _area(other) - shared)


def _area(box: Floats) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def _centre(box: Floats) -> Floats:
    centre: Floats = (box[:2] + box[2:]) / 2
    return centre
