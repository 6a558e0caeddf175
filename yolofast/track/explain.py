"""Why a detection became a track or was dropped, and what happened to each track: a frame's associations in sentences.

Trackers record their associations (`Tracker.stages`); costs, limits and who took part are theirs. What happens to the
detections that are left follows from the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from yolofast.track.pipeline import FollowedFrame
from yolofast.track.result_files import class_name
from yolofast.track.trackers.tracker import Tracker
from yolofast.track.trackers.tracks import AssociationStage, Floats, Tracks
from yolofast.words import counted

_STAGES = {
    "first": ("the first association", "sure detections with tracks, tracked and lost"),
    "second": ("the second association", "doubtful detections with tracks that have none yet"),
    "unconfirmed": ("the third association", "sure detections that are left with tracks seen only once"),
    "last observed": ("the association by last sight", "sure detections that are left with last places of tracks"),
    "all": ("the association", "detections with all tracks"),
}
"""What sentences call them, and who takes part."""


@dataclass(frozen=True)
class Fate:
    """Of a detection or a track."""

    kind: str
    """`detection` or `track`."""
    number: int
    """Of a detection its row, from 0; of a track its identity, 0 if it has none yet."""
    outcome: str
    """`matched`, `began a track`, `dropped`; of tracks `matched`, `lost`, `given up`."""
    stage: str | None
    """That decided it."""
    cost: float | None
    limit: float | None
    other: int | None
    """The track of a detection, the detection of a track."""
    box: tuple[float, ...]
    """x1 y1 x2 y2; of a track where it was expected, or last seen if it was given up before."""
    score: float | None
    """Of a detection; of a track its last one, None if it was not shown."""
    label: int
    name: str
    """Of the class."""
    state: str | None
    """Of a track before the frame: `tracked`, `lost` or `not shown`."""
    sentence: str


@dataclass(frozen=True)
class TrackExplanation:
    video: str
    frame: int
    time: float
    tracker: str
    settings: Mapping[str, Any]
    detections: tuple[Fate, ...]
    tracks: tuple[Fate, ...]
    stages: tuple[str, ...]
    """The associations of the frame in their order, and who takes part in each."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        parts = [f"{self.video}, frame {self.frame} ({self.time:.3f} s), {self.tracker}"]
        for title, fates in (("detections", self.detections), ("tracks before this frame", self.tracks)):
            parts += ["", f"{title}: {len(fates)}", *(f"  {fate.sentence}" for fate in fates)]
        if self.stages:
            parts += ["", *self.stages, "A cost is a distance: a pair may be matched up to the limit."]
        return "\n".join(parts)


def explain(
    one: FollowedFrame, tracker: Tracker, before: FollowedFrame | None, names: Sequence[str] = ()
) -> TrackExplanation:
    """`before` is the frame before."""
    settings = {key: value for key, value in vars(tracker.settings).items() if value is not None}
    explainer = _Explainer(one, tracker, before, names)
    rows = {int(id) for stage in one.stages for id in stage.ids if id > 0}
    others = [explainer.unlisted(id) for id in explainer.known if id not in rows]
    return TrackExplanation(
        one.place.video, one.place.number, one.place.time, tracker.name, settings,
        tuple(explainer.detection(row) for row in range(len(one.found))), (*explainer.tracks(), *others),
        tuple(f"{_named(stage)}: {_STAGES[stage.name][1]}" for stage in one.stages if stage.name in _STAGES),
    )  # fmt: skip


class _About(NamedTuple):
    """As in `Fate`."""

    box: tuple[float, ...]
    score: float | None
    label: int
    name: str
    state: str | None


class _Explainer:
    def __init__(
        self, one: FollowedFrame, tracker: Tracker, before: FollowedFrame | None, names: Sequence[str]
    ) -> None:
        self._one, self._tracker, self._names, self._stages = one, tracker, names, one.stages
        shown = zip(one.tracks.detections.tolist(), one.tracks.ids.tolist(), strict=True)
        self._id_of = {row: id for row, id in shown if row >= 0}
        self._shown, self._alive = {*one.tracks.ids.tolist()}, {*tracker.state.ids.tolist()}
        self.known: dict[int, _About] = {}
        """What is known of each identity from the frame before."""
        for state, some in () if before is None else (("tracked", before.tracks), ("lost", before.lost)):
            self._know(state, some)

    def detection(self, row: int) -> Fate:
        found = self._one.found
        label, score, box = int(found.labels[row]), float(found.scores[row]), _rounded(found.boxes[row])
        name = class_name(label, self._names)
        who = f"detection {row} ({score:.3f}{f' {name}' if self._names or label else ''}) at {_corners(box)}"
        about = _About(box, score, label, name, None)
        tried: list[str] = []
        for stage in self._stages:
            if not stage.columns[row]:
                continue
            mine = stage.pairs[:, 1] == row
            for pair in np.flatnonzero(mine & stage.matched):
                track, cost = int(stage.pairs[pair, 0]), float(stage.cost[pair])
                id = int(stage.ids[track]) or self._id_of.get(row, 0)
                sentence = f"{who} was matched to {_track(id)} in {_named(stage)}: {_compared(cost, stage.limit)}."
                sentence += self._why_hidden(id)
                return Fate("detection", row, "matched", stage.name, cost, stage.limit, id, *about, sentence)
            tried.append(self._why_not(stage, mine, 0))
        nearest, least = self._nearest(1, row)
        outcome, why = self._left_over(row)
        sentence = f"{who} {'was dropped' if outcome == 'dropped' else outcome}: {why}."
        sentence += "".join(f" In {reason}." for reason in tried)
        stage_name, limit = (None, None) if nearest is None else (nearest.name, nearest.limit)
        return Fate("detection", row, outcome, stage_name, least, limit, None, *about, sentence)

    def tracks(self) -> list[Fate]:
        if not self._stages:
            return []
        return [self._track_fate(row, int(id)) for row, id in enumerate(self._stages[0].ids.tolist())]

    def unlisted(self, id: int) -> Fate:
        """There was nothing to associate it with."""
        lost = id in self._alive
        outcome = "lost" if lost else "given up"
        why = "no detection took part in an association" if lost else "it was not seen for longer than its buffer"
        about = self.known[id]
        sentence = f"{_track(id)} ({about.state}), last at {_corners(about.box)}, was {outcome}: {why}."
        return Fate("track", id, outcome, None, None, None, None, *about, sentence)

    def _know(self, state: str, some: Tracks) -> None:
        columns = some.ids.tolist(), some.boxes, some.scores.tolist(), some.labels.tolist()
        for id, box, score, label in zip(*columns, strict=True):
            if id > 0:
                self.known[id] = _About(_rounded(box), score, label, class_name(label, self._names), state)

    def _about(self, row: int, id: int) -> _About:
        first = self._stages[0]
        label, seen = int(first.labels[row]), self.known.get(id)
        score, state = (None, "not shown") if seen is None else (seen.score, seen.state)
        return _About(_rounded(first.boxes[row]), score, label, class_name(label, self._names), state)

    def _track_fate(self, row: int, id: int) -> Fate:
        about, tried = self._about(row, id), list[str]()
        where = f"({about.state}), expected at {_corners(about.box)},"
        for stage in self._stages:
            if not stage.rows[row]:
                continue
            mine = stage.pairs[:, 0] == row
            for pair in np.flatnonzero(mine & stage.matched):
                detection, cost = int(stage.pairs[pair, 1]), float(stage.cost[pair])
                id = id or self._id_of.get(detection, 0)
                sentence = f"{_track(id)} {where} was matched to detection {detection} in {_named(stage)}: "
                sentence += f"{_compared(cost, stage.limit)}.{self._why_hidden(id)}"
                return Fate("track", id, "matched", stage.name, cost, stage.limit, detection, *about, sentence)
            tried.append(self._why_not(stage, mine, 1))
        nearest, least = self._nearest(0, row)
        lost = id in self._alive and id > 0
        outcome = "lost" if lost else "given up"
        end = "is kept as lost" if lost else "was given up"
        sentence = f"{_track(id)} {where} was not seen and {end}."
        sentence += "".join(f" In {reason}." for reason in tried) if tried else " It took part in no association."
        stage_name, limit = (None, None) if nearest is None else (nearest.name, nearest.limit)
        return Fate("track", id, outcome, stage_name, least, limit, None, *about, sentence)

    def _why_hidden(self, id: int) -> str:
        """A sentence, if a track was matched and yet is not among the results."""
        if id in self._shown:
            return ""
        if hasattr(self._tracker.settings, "min_hits"):
            return f" It is shown once it was matched in min_hits {self._tracker.settings.min_hits} frames in a row."
        return " It was dropped nevertheless: a lost track in the same place has lived longer."

    def _nearest(self, axis: int, number: int) -> tuple[AssociationStage | None, float | None]:
        """The pair that came closest to its limit, of those that took part."""
        best: tuple[AssociationStage | None, float | None] = (None, None)
        for stage in self._stages:
            mine = stage.pairs[:, axis] == number
            if mine.any():
                cost = float(stage.cost[mine].min())
                if best[0] is None or best[1] is None or cost - stage.limit < best[1] - best[0].limit:
                    best = stage, cost
        return best

    def _why_not(self, stage: AssociationStage, mine: Any, axis: int) -> str:
        """`axis` is that of the partners: 0 tracks, 1 detections."""
        partner = "track" if axis == 0 else "detection"
        if not mine.any():
            return f"{_named(stage)} it overlaps no {partner}"
        pair = int(np.flatnonzero(mine)[stage.cost[mine].argmin()])
        cost, other = float(stage.cost[pair]), int(stage.pairs[pair, axis])
        who = _track(int(stage.ids[other])) if axis == 0 else f"detection {other}"
        if cost > stage.limit:
            return f"{_named(stage)} the nearest is {who}: {_compared(cost, stage.limit)}"
        rival = np.flatnonzero((stage.pairs[:, axis] == other) & stage.matched)
        if not len(rival):
            return f"{_named(stage)} {who} would cost {cost:.3f}, but the pair was not chosen"
        taken, better = int(stage.pairs[rival[0], 1 - axis]), float(stage.cost[rival[0]])
        whom = f"detection {taken}" if axis == 0 else _track(int(stage.ids[taken]))
        return f"{_named(stage)} {who} would cost {cost:.3f}, but went to {whom} at {better:.3f}"

    def _left_over(self, row: int) -> tuple[str, str]:
        """What becomes of a detection that no track took, and why."""
        settings, score = self._tracker.settings, float(self._one.found.scores[row])
        x1, y1, x2, y2 = self._one.found.boxes[row]
        if (x1 >= x2 or y1 >= y2) and not any(stage.columns[row] for stage in self._stages):
            return "dropped", "its box has no area, so there is nothing to be followed"
        if hasattr(settings, "det_thresh"):
            return self._by_one_threshold(row, score, float(settings.det_thresh))
        high, low = float(settings.track_high_thresh), float(settings.track_low_thresh)
        born = high + 0.1 if settings.new_track_thresh is None else float(settings.new_track_thresh)
        high_name = "track_thresh" if hasattr(settings, "track_thresh") else "track_high_thresh"
        if score <= low:
            return "dropped", f"its score {score:.3f} is not above track_low_thresh {low:g}, so no association saw it"
        if score == high and self._tracker.faithful:
            return "dropped", f"its score is exactly {high_name} {high:g}, which the published code takes for neither"
        if score < high:
            what = f"its score {score:.3f} is below {high_name} {high:g}"
            return "dropped", f"{what}: such detections continue tracks, but begin none"
        if score < born:
            return "dropped", f"no track took it, and its score {score:.3f} is below new_track_thresh {born:g}"
        shown = "at once" if self._tracker.frame == 1 else "once another frame confirms it"
        return "began a track", f"no track took it, and its score {score:.3f} reaches {born:g}; it is shown {shown}"

    def _by_one_threshold(self, row: int, score: float, least: float) -> tuple[str, str]:
        settings = self._tracker.settings
        took_part = any(stage.columns[row] and stage.name != "second" for stage in self._stages)
        if took_part or (not self._stages and score >= least):
            hits = counted(int(getattr(settings, "min_hits", 1)), "frame")
            return "began a track", f"no track took it; it is shown after {hits} in a row"
        if hasattr(settings, "use_byte"):
            also = "" if settings.use_byte else ", and use_byte is off"
            return "dropped", f"its score {score:.3f} is below det_thresh {least:g}{also}"
        return "dropped", f"its score {score:.3f} stays below det_thresh {least:g}, even where tracks nearby raise it"


def _named(stage: AssociationStage) -> str:
    return _STAGES[stage.name][0] if stage.name in _STAGES else f"the association {stage.name}"


def _rounded(box: Floats) -> tuple[float, ...]:
    return tuple(round(value, 3) for value in box.tolist())


def _corners(box: Sequence[float]) -> str:
    return " ".join(f"{value:.1f}" for value in box)


def _track(id: int) -> str:
    return f"track {id}" if id else "a track without identity yet"


def _compared(cost: float, limit: float) -> str:
    return f"cost {cost:.3f}, {'within' if cost <= limit else 'above'} the limit {limit:.3f}"
