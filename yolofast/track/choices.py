"""What a run of tracking is made of: the detections that count, the tracker, and what tells how things look."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.errors import UserError
from yolofast.pixels import Image
from yolofast.structures import Detections
from yolofast.track.appearance import NeckFeatures, OnnxReid
from yolofast.track.formats.detections import LEAST_SCORE, USUAL_RATE
from yolofast.track.pipeline import MakeTracker, See
from yolofast.track.trackers.table import build_tracker, kind_of
from yolofast.track.trackers.tracker import Tracker
from yolofast.track.trackers.tracks import Floats

_NMS_IOU = 0.7
_NECK_GATES = {"proximity_thresh": 1.0, "appearance_thresh": 0.1}
"""Of BoT-SORT: features of a neck are closer together than those of a network trained to tell people apart."""


def tracking_filter(class_handling: str, given: Mapping[str, Any]) -> DetectionFilter:
    """Trackers need doubtful detections too, and overlaps of people in a crowd.

    A thing is one thing, whichever classes it resembles, unless classes are tracked apart.
    """
    usual = {"conf": LEAST_SCORE, "iou": _NMS_IOU, "agnostic": class_handling != "each"}
    return DetectionFilter(**{**usual, **given})


def tracker_maker(
    name: str, *, faithful: bool, class_handling: str, settings: Mapping[str, Any], reid: bool = False
) -> MakeTracker:
    """Settings are checked now. `reid`: a network for appearance is given, so the tracker has to use it; without it
    appearance is the detector's own."""
    if reid:
        if not any(field.name == "with_reid" for field in fields(kind_of(name).settings)):
            raise UserError(f"{name} does not look at appearance", fix="use botsort, boosttrack or boosttrack++")
        settings = {"with_reid": True, **settings}
    elif name == "botsort" and settings.get("with_reid") and not faithful:
        settings = {**_NECK_GATES, **settings}

    def make(frame_rate: float) -> Tracker:
        return build_tracker(name, frame_rate=frame_rate, faithful=faithful, classes=class_handling, **settings)

    make(USUAL_RATE)
    return make


def eye_of(detector: ImageDetector, chosen: DetectionFilter, tracker: Tracker, reid: str | Path | None) -> See:
    """What sees images: the detector, and what tells how things look if the tracker asks for it.

    That is a network of the user, or the detector's own neck in the same pass.
    """
    chosen.class_numbers(detector.names)  # an unknown class is reported before anything is read
    if not getattr(tracker.settings, "with_reid", False):
        return lambda images: [(found, None) for found in detector.detect(images, chosen)]
    if reid is None:
        neck = NeckFeatures(detector)
        return lambda images: list(neck.detect(images, chosen))
    network = OnnxReid(reid)

    def see(images: list[Image]) -> list[tuple[Detections, Floats | None]]:
        found = detector.detect(images, chosen)
        return list(zip(found, network.features(images, [one.boxes for one in found]), strict=True))

    return see
