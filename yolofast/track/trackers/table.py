"""The trackers by name, and how one is built: a new one is a file here and a line in `TRACKERS`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from yolofast.errors import UserError, nearest, shorten
from yolofast.track.trackers.boosttrack import BoostTrack, BoostTrackSettings
from yolofast.track.trackers.bytetrack import BotSort, BotSortSettings, ByteTrack, ByteTrackSettings
from yolofast.track.trackers.ocsort import OcSort, OcSortSettings
from yolofast.track.trackers.tracker import CLASSES, Tracker


@dataclass(frozen=True)
class TrackerKind:
    build: type[Tracker]
    settings: type[Any]
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Those of a variant."""
    repaired: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults that differ from the published ones unless `faithful`."""


TRACKERS: dict[str, TrackerKind] = {
    "bytetrack": TrackerKind(ByteTrack, ByteTrackSettings),
    # A gate of 0.5 lets appearance speak only where boxes overlap by half anyway: no gap is ever bridged.
    "botsort": TrackerKind(BotSort, BotSortSettings, repaired={"proximity_thresh": 0.95, "appearance_thresh": 0.35}),
    "ocsort": TrackerKind(OcSort, OcSortSettings),
    "boosttrack": TrackerKind(BoostTrack, BoostTrackSettings),
    "boosttrack++": TrackerKind(BoostTrack, BoostTrackSettings, {"use_rich_s": True, "s_sim_corr": True}),
}


_COSTS = ("match_thresh", "iou_threshold")
_BELOW_ONE = "give a number from 0 to below 1: it is a cost or an overlap, and 1 means boxes that do not touch"


def build_tracker(
    name: str, *, frame_rate: float = 30.0, faithful: bool = False, classes: str = "vote", **settings: Any
) -> Tracker:
    """A tracker by its name, with settings by their published names.

    `classes`: "vote" associates whatever the class and lets the scores decide, "each" keeps classes apart, "agnostic"
    gives the label of the last detection.
    """
    kind = kind_of(name)
    if not isinstance(frame_rate, int | float) or not 0 < frame_rate < float("inf"):
        raise UserError(f"frame_rate is {shorten(frame_rate)}", fix="give frames per second above 0")
    if classes not in CLASSES:
        raise UserError(f"classes is {shorten(classes)}", fix=f"use one of {', '.join(CLASSES)}")
    known = {field.name: field for field in dataclasses.fields(kind.settings)}
    for setting, value in settings.items():
        if setting not in known:
            hint = nearest(setting, known)
            raise UserError(f"{name} has no setting {setting!r}{hint}", fix=f"use one of {', '.join(known)}")
        _check(name, setting, value, known[setting].default)
    chosen = kind.settings(**{**kind.defaults, **({} if faithful else kind.repaired), **settings})
    return kind.build(chosen, frame_rate=float(frame_rate), faithful=faithful, classes=classes)


def kind_of(name: object) -> TrackerKind:
    if not isinstance(name, str) or name not in TRACKERS:
        hint = nearest(name, TRACKERS) if isinstance(name, str) else ""
        raise UserError(f"tracker is {shorten(name)}{hint}", fix=f"use one of {', '.join(TRACKERS)}")
    return TRACKERS[name]


def _check(tracker: str, setting: str, value: Any, default: Any) -> None:
    """Of the kind the default is; numbers finite and not negative."""
    if isinstance(default, bool):
        right = isinstance(value, bool)
    elif isinstance(default, str):
        right = isinstance(value, str)
    else:
        most = 1.0 if setting in _COSTS else float("inf")
        right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < most
        right = right or (value is None and default is None)
    if not right:
        if setting in _COSTS:
            raise UserError(f"{setting} of {tracker} is {shorten(value)}", fix=_BELOW_ONE)
        wanted = "true or false" if isinstance(default, bool) else "a word" if isinstance(default, str) else "a number"
        raise UserError(f"{setting} of {tracker} is {shorten(value)}", fix=f"give {wanted}, such as {default}")
