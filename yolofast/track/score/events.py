"""What happened to whom and when: identities that switched, objects that were missed, tracks that broke.

They are the events CLEAR counts, at an overlap of 0.5: as many as IDSW, CLR_FN and Frag say.
"""

from typing import Literal, NamedTuple

import numpy as np

from yolofast.track.formats.sequence import Ints
from yolofast.track.score.clear import Matches
from yolofast.track.score.prepare import Prepared

Kind = Literal["switched", "missed", "fragmented"]
_MATCH = 0.5


class FrameEvent(NamedTuple):
    sequence: str
    frame: int
    kind: Kind
    truth_id: int
    """The object it happened to, as the truth calls it."""
    from_id: int | None
    """The result that followed it before; None if none did yet."""
    to_id: int | None
    """The result that follows it now; None if it was missed."""
    last_frame: int | None
    """When it was matched last."""
    rival: int | None
    """The other object of the truth: whom the former result follows now, or the new one followed before; of a missed
    object, who has the result that overlaps it by half. None if there is no such object."""
    exchanged: bool = False
    """Whether the former result follows the rival now."""


def events_of(name: str, given: Prepared, matches: Matches) -> list[FrameEvent]:
    """By frame, then by object."""
    found = [*_changes(name, given, matches), *_missed(name, given, matches)]
    return sorted(found, key=lambda event: (event.frame, event.truth_id, event.kind))


def _changes(name: str, given: Prepared, matches: Matches) -> list[FrameEvent]:
    frame = given.truth.frame[matches.truth]
    truth = given.truth_ids[given.truth_id[matches.truth]]
    result = given.result_ids[given.result_id[matches.result]]
    whose = _Owners(frame, truth, result)
    found = []
    kinds: tuple[tuple[Kind, Ints], ...] = (("switched", matches.switched), ("fragmented", matches.broken))
    for kind, places in kinds:
        for at in places.tolist():
            before, now, when = int(result[at - 1]), int(result[at]), int(frame[at])
            rival, exchanged = whose.rival(before, now, when, int(truth[at])) if before != now else (None, False)
            found.append(
                FrameEvent(name, when, kind, int(truth[at]), before, now, int(frame[at - 1]), rival, exchanged)
            )
    return found


class _Owners:
    """Whom each result follows, by frame."""

    def __init__(self, frame: Ints, truth: Ints, result: Ints) -> None:
        order = np.lexsort((frame, result))
        self._frame, self._truth, self._result = frame[order], truth[order], result[order]

    def rival(self, before: int, now: int, frame: int, own: int) -> tuple[int | None, bool]:
        """And whether it has the former result now."""
        at = self._last(before, frame)
        if at is not None and self._frame[at] == frame:
            return int(self._truth[at]), True
        at = self._last(now, frame - 1)
        return (None if at is None or self._truth[at] == own else int(self._truth[at])), False

    def _last(self, result: int, frame: int) -> int | None:
        """The last match of a result up to a frame."""
        low, high = np.searchsorted(self._result, [result, result + 1])
        at = low + np.searchsorted(self._frame[low:high], frame, side="right") - 1
        return int(at) if at >= low else None


def _missed(name: str, given: Prepared, matches: Matches) -> list[FrameEvent]:
    matched = np.full(len(given.truth), -1)
    matched[matches.truth] = given.result_id[matches.result]
    order = np.lexsort((given.truth.frame, given.truth_id))
    last = _last_match(matched[order], given.truth_id[order])
    owner = np.full(len(given.results), -1)
    owner[matches.result] = given.truth_id[matches.truth]
    rival = _rivals(given, owner)
    found = []
    for place, before in zip(order.tolist(), last.tolist(), strict=True):
        if matched[place] >= 0:
            continue
        was = None if before < 0 else int(order[before])
        taken = int(rival[place])
        found.append(
            FrameEvent(
                name, int(given.truth.frame[place]), "missed", int(given.truth.id[place]),
                None if was is None else int(given.result_ids[matched[was]]), None,
                None if was is None else int(given.truth.frame[was]),
                None if taken < 0 else int(given.truth_ids[taken]),
            )
        )  # fmt: skip
    return found


def _last_match(matched: Ints, identity: Ints) -> Ints:
    """For each box, sorted by object and frame, the place of the object's last matched box; -1 if there is none."""
    places = np.where(matched >= 0, np.arange(len(matched)), -1)
    last = np.maximum.accumulate(places) if len(places) else places
    same = (last >= 0) & (identity[last] == identity) if len(places) else last >= 0
    return np.where(same, last, -1)


def _rivals(given: Prepared, owner: Ints) -> Ints:
    """For each box of the truth, the object whose result overlaps it most, if by half; -1 for none."""
    pairs = given.pairs.at_least(_MATCH)
    order = np.argsort(pairs.overlap, kind="stable")
    rival = np.full(len(given.truth), -1)
    rival[pairs.truth[order]] = owner[pairs.result[order]]  # the largest overlap is written last
    return rival
