"""Each object of the truth: how much of it was followed, by how many results, and its course as a row of a timeline."""

from dataclasses import dataclass

import numpy as np

from yolofast.pages.elements import Stretch, Timeline
from yolofast.track.formats.sequence import Ints
from yolofast.track.score.clear import Matches
from yolofast.track.score.prepare import Prepared

_ORDER = ("first result", "second result", "third result", "fourth result", "later results")
MISSED = "missed"
_STATES = (*_ORDER, MISSED)
_DRAWN = 700
"""Parts of a row that can be told apart on a screen; shorter stretches are drawn as part of the one before."""


@dataclass(frozen=True)
class FollowedObject:
    sequence: str
    id: int
    frames: Ints
    """In which it is there."""
    result: Ints
    """Who follows it in each of them, as the results call it; -1: nobody."""

    @property
    def matched(self) -> int:
        return int((self.result >= 0).sum())

    @property
    def share(self) -> float:
        return self.matched / len(self.result)

    @property
    def results(self) -> list[int]:
        """Different ones, in their order."""
        return list(dict.fromkeys(self.result[self.result >= 0].tolist()))

    @property
    def switches(self) -> int:
        followed = self.result[self.result >= 0]
        return int((np.diff(followed) != 0).sum())

    @property
    def longest(self) -> int:
        """Frames of the result that follows it most."""
        return int(np.unique(self.result[self.result >= 0], return_counts=True)[1].max()) if self.matched else 0

    @property
    def longest_miss(self) -> tuple[int, int]:
        """The first and the last frame of the longest time in which nobody follows it; (0, 0) if there is none."""
        missed = np.concatenate(([0], (self.result < 0).astype(np.int64), [0]))
        begins, ends = np.flatnonzero(np.diff(missed) == 1), np.flatnonzero(np.diff(missed) == -1)
        if not len(begins):
            return 0, 0
        at = int((ends - begins).argmax())
        return int(self.frames[begins[at]]), int(self.frames[ends[at] - 1])


def objects_of(name: str, given: Prepared, matches: Matches) -> list[FollowedObject]:
    """In the order of their ids."""
    result = np.full(len(given.truth), -1)
    result[matches.truth] = given.result_ids[given.result_id[matches.result]] if len(matches.truth) else -1
    order = np.lexsort((given.truth.frame, given.truth_id))
    parts = np.split(order, np.flatnonzero(np.diff(given.truth_id[order])) + 1) if len(order) else []
    return [FollowedObject(name, int(given.truth.id[part[0]]), given.truth.frame[part], result[part]) for part in parts]


def worst(objects: list[FollowedObject], most: int) -> list[FollowedObject]:
    """Those most of whose boxes have no result or another than the one that follows them longest."""
    return sorted(objects, key=lambda one: (one.longest - len(one.result), -one.switches, one.id))[:most]


def timeline(title: str, objects: list[FollowedObject], length: int, hint: str = "") -> Timeline:
    rows = tuple((f"object {one.id}", _stretches(one, length)) for one in objects)
    return Timeline(title, "frame", length, _STATES, rows, hint)


def _stretches(one: FollowedObject, length: int) -> tuple[Stretch, ...]:
    """Runs of frames with one result; the object's absence is a gap."""
    least = length / _DRAWN
    order = {result: _ORDER[min(place, len(_ORDER) - 1)] for place, result in enumerate(one.results)}
    cuts = np.flatnonzero((np.diff(one.result) != 0) | (np.diff(one.frames) != 1)) + 1
    found: list[Stretch] = []
    for part in np.split(np.arange(len(one.frames)), cuts):
        first, last, result = int(one.frames[part[0]]), int(one.frames[part[-1]]), int(one.result[part[0]])
        missed = result < 0
        if found and last - first + 1 < least and (missed or found[-1].state == order[result]):
            before = found.pop()
            found.append(Stretch(before.first, last, before.state, before.hint, before.thin))
            continue
        reach = f"frame {first}" if first == last else f"frames {first}–{last}"
        hint = f"{reach}: {MISSED}" if missed else f"{reach}: result {result}"
        found.append(Stretch(first, last, MISSED if missed else order[result], hint, thin=missed))
    return tuple(found)
