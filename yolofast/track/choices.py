"""What a run of tracking is made of: the detections that count, the tracker, and what tells how things look."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.errors import UserError, shorten
from yolofast.pixels import Image
from yolofast.track.appearance import NeckFeatures, OnnxReid
from yolofast.track.formats.detections import LEAST_SCORE, USUAL_RATE, Making
from yolofast.track.pipeline import MakeTracker, See, Sight
from yolofast.track.selection import MOST, NMS_IOU, tracks_across
from yolofast.track.trackers.table import build_tracker, kind_of
from yolofast.track.trackers.tracker import CLASSES, Tracker

_MOST_STORED = 1000
"""Detections of an image, unless more are asked for."""
_STRICTER = (0.6, 0.5, 0.4, 0.3)
"""Overlaps that detections are stored for too."""
_WHO_LOOKS = "use botsort, boosttrack or boosttrack++"
_RECORDED = ("file", "given")
_ELSEWHERE = {
    "classes": "--class-handling", "faithful": "--faithful", "frame_rate": "--frame-rate", "name": "--tracker",
}  # fmt: skip
"""What belongs to a run and not to a tracker's settings; in Python these are arguments of their own."""
_NECK_GATES = {"proximity_thresh": 1.0, "appearance_thresh": 0.1}
"""Of BoT-SORT: features of a neck are closer together than those of a network trained to tell people apart."""


def tracking_filter(class_handling: str, given: Mapping[str, Any]) -> DetectionFilter:
    """Trackers need doubtful detections too, and overlaps of people in a crowd."""
    usual = {"conf": LEAST_SCORE, "iou": NMS_IOU, "agnostic": tracks_across(class_handling), "most": MOST}
    return DetectionFilter(**{**usual, **given})


def storing_filters(chosen: DetectionFilter) -> tuple[DetectionFilter, ...]:
    """What is stored for any tracker: suppressed loosely, across classes and within them, and then more strictly.

    What a stricter rule leaves is not among what a looser one leaves: a box that suppressed others may go itself.
    """
    most = max(chosen.most, _MOST_STORED)
    loose = replace(chosen, conf=LEAST_SCORE, iou=max(chosen.iou, NMS_IOU), most=most)
    overlaps = [loose.iou, *(one for one in _STRICTER if one < loose.iou)]
    return tuple(replace(loose, iou=iou, agnostic=across) for iou in overlaps for across in (True, False))


def making_of(detector: ImageDetector, ways: Sequence[DetectionFilter], camera: str | None) -> Making:
    """Of one way to suppress boxes, or of those of `storing_filters`; `camera` says how its motion is found."""
    chosen, both = ways[0], len(ways) > 1
    return Making(
        weights=", ".join(detector.weights), size=detector.shape, conf=float(chosen.conf), iou=float(chosen.iou),
        overlaps="both" if both else "across" if chosen.agnostic else "within", most=int(chosen.most),
        marked=tuple(float(way.iou) for way in ways[::2]) if both else (), camera=camera,
        rounds_down=detector.predictor.inputs.whole,
    )  # fmt: skip


def tracker_maker(
    name: str, *, faithful: bool, class_handling: str, settings: Mapping[str, Any], reid: bool = False,
    warps: bool = False,
) -> MakeTracker:  # fmt: skip
    """Settings are checked now. `reid`: a network for appearance is given, so the tracker has to use it; without it
    appearance is the detector's own. `warps`: the camera's motion is given, too."""
    known = {field.name for field in fields(kind_of(name).settings)}
    for setting in settings.keys() & _ELSEWHERE.keys():
        raise UserError(f"{setting} is no setting of a tracker", fix=f"use {_ELSEWHERE[setting]}")
    if class_handling not in CLASSES:
        raise UserError(f"class_handling is {shorten(class_handling)}", fix=f"use one of {', '.join(CLASSES)}")
    if warps:
        if "cmc_method" not in known:
            raise UserError(f"{name} does not look at the camera's motion", fix=_WHO_LOOKS)
        settings = {"cmc_method": _RECORDED[0], **settings}
        if settings["cmc_method"] not in _RECORDED:
            what = f"warps are given, but cmc_method is {shorten(settings['cmc_method'])}"
            raise UserError(what, fix="leave one of them out")
    if reid:
        if "with_reid" not in known:
            raise UserError(f"{name} does not look at appearance", fix=_WHO_LOOKS)
        settings = {"with_reid": True, **settings}
    elif name == "botsort" and settings.get("with_reid") and not faithful:
        settings = {**_NECK_GATES, **settings}

    def make(frame_rate: float) -> Tracker:
        return build_tracker(name, frame_rate=frame_rate, faithful=faithful, classes=class_handling, **settings)

    make(USUAL_RATE)
    return make


def check_warps(tracker: Tracker, is_recorded: bool) -> None:
    """A tracker that waits for recorded warps needs some."""
    if tracker.cmc_method in _RECORDED and not is_recorded:
        raise UserError(
            f"cmc_method is {tracker.cmc_method}, but no warps are given", fix="add warps, or use sparseOptFlow"
        )


def eye_of(detector: ImageDetector, chosen: DetectionFilter, tracker: Tracker, reid: str | Path | None) -> See:
    """What sees images: the detector, and what tells how things look if the tracker asks for it.

    That is a network of the user, or the detector's own neck in the same pass.
    """
    chosen.class_numbers(detector.names)  # an unknown class is reported before anything is read
    has_looks = getattr(tracker.settings, "with_reid", False)
    network = OnnxReid(reid) if has_looks and reid is not None else None
    neck = NeckFeatures(detector) if has_looks and reid is None else None

    def see(images: list[Image]) -> list[Sight]:
        fitted = detector.fitted(images)
        if neck is not None:
            both = neck.detect(images, chosen, fitted)
            return [Sight(found, one.resized, looks) for (found, looks), one in zip(both, fitted, strict=True)]
        found = detector.detect(images, chosen, fitted)
        looks = [None] * len(found) if network is None else network.features(images, [one.boxes for one in found])
        return [Sight(*three) for three in zip(found, (one.resized for one in fitted), looks, strict=True)]

    return see
