"""The trackers by name, and how one is built: a new one is a file here and a line in `TRACKERS`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolofast.errors import UserError, nearest, shorten
from yolofast.track.trackers.boosttrack import BoostTrack
from yolofast.track.trackers.botsort import BotSort
from yolofast.track.trackers.bytetrack import ByteTrack
from yolofast.track.trackers.moving import MOTIONS
from yolofast.track.trackers.ocsort import OcSort
from yolofast.track.trackers.settings import BoostTrackSettings, BotSortSettings, ByteTrackSettings, OcSortSettings
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


_SCORES = ("track_thresh", "track_high_thresh", "track_low_thresh", "new_track_thresh", "det_thresh")
_BELOW_ONE = {
    "match_thresh": "the greatest cost of a match, 1 − IoU · score: higher accepts more, at 1 boxes need not touch",
    "iou_threshold": "the least overlap (IoU) of a match: higher accepts less, at 1 boxes have to be equal",
}


def build_tracker(
    name: str, *, frame_rate: float = 30.0, faithful: bool = False, classes: str = "vote", **settings: Any
) -> Tracker:
    """A tracker by its name, with settings by their published names.

    `classes`: "vote" associates whatever the class and lets the scores decide, "each" keeps classes apart, "agnostic"
    gives the label of the last detection.
    """
    kind, frame_rate = kind_of(name), _plain(frame_rate)
    settings = {setting: _plain(value) for setting, value in settings.items()}
    if not isinstance(frame_rate, int | float) or isinstance(frame_rate, bool) or not 0 < frame_rate < float("inf"):
        raise UserError(f"frame_rate is {shorten(frame_rate)}", fix="give frames per second above 0")
    if classes not in CLASSES:
        raise UserError(f"classes is {shorten(classes)}", fix=f"use one of {', '.join(CLASSES)}")
    if not isinstance(faithful, bool):
        raise UserError(f"faithful is {shorten(faithful)}", fix="give True or False")
    known = {field.name: field for field in dataclasses.fields(kind.settings)}
    for setting, value in settings.items():
        if setting not in known:
            hint = nearest(setting, known)
            raise UserError(f"{name} has no setting {setting!r}{hint}", fix=f"use one of {', '.join(known)}")
        _check(name, setting, value, known[setting].default)
    if settings.get("motion_weights") and "motion" not in settings:
        raise UserError(f"{name} has motion_weights, but not the motion they are for", fix="add motion=trackssm")
    motion = MOTIONS.get(settings.get("motion", ""))
    usual = kind.repaired if not faithful else {} if motion is None else motion.published
    usual = {setting: value for setting, value in usual.items() if setting in known}
    chosen = kind.settings(**{**kind.defaults, **usual, **settings})
    return kind.build(chosen, frame_rate=float(frame_rate), faithful=faithful, classes=classes)


def kind_of(name: object) -> TrackerKind:
    if not isinstance(name, str) or name not in TRACKERS:
        hint = nearest(name, TRACKERS) if isinstance(name, str) else ""
        raise UserError(f"tracker is {shorten(name)}{hint}", fix=f"use one of {', '.join(TRACKERS)}")
    return TRACKERS[name]


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's: a state is written with the settings."""
    return value.item() if isinstance(value, np.generic) else value


def _check(tracker: str, setting: str, value: Any, default: Any) -> None:
    """Of the kind the default is; numbers finite and not negative."""
    if setting == "asso_func" and value != "iou":
        raise UserError(f"asso_func of {tracker} is {shorten(value)}", fix="give iou: nothing else is computed")
    if isinstance(default, bool):
        right = isinstance(value, bool)
    elif isinstance(default, str):
        right = isinstance(value, str)
    else:
        most = 1.0 if setting in _BELOW_ONE else float("inf")
        right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < most
        right = right or (value is None and default is None)
        if right and value is not None and setting in _SCORES and value > 1:
            raise UserError(f"{setting} of {tracker} is {shorten(value)}", fix="give a score from 0 to 1")
    if not right:
        if setting in _BELOW_ONE:
            fix = f"give a number from 0 to below 1. It is {_BELOW_ONE[setting]}"
            raise UserError(f"{setting} of {tracker} is {shorten(value)}", fix=fix)
        wanted = "true or false" if isinstance(default, bool) else "a word" if isinstance(default, str) else "a number"
        raise UserError(f"{setting} of {tracker} is {shorten(value)}", fix=f"give {wanted}, such as {default}")
