"""A network's detections kept for trackers: what each way to suppress boxes leaves, and the camera's motion.

The motion is found as BoT-SORT finds it by default, in a thread, so that stored detections give the tracks that the
video gives.
"""

from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from yolofast.detect.detector import DetectionFilter, ImageDetector, Look
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.media.pictures import placement
from yolofast.pixels import Image
from yolofast.structures import Detections, InputConvention
from yolofast.track.choices import making_of, storing_filters
from yolofast.track.formats.detections import ENDING, Making, StoredDetections, write_detections
from yolofast.track.formats.recorder import DetectionRecorder
from yolofast.track.selection import MOST
from yolofast.track.timeline import FramePlace, FrameTimeline
from yolofast.track.trackers.camera_motion import Cameras
from yolofast.track.trackers.settings import BotSortSettings
from yolofast.track.trackers.tracks import Floats

_FRAMES_AHEAD = 8


class _Sight(NamedTuple):
    frame: Frame
    found: tuple[Detections, ...]
    place: FramePlace
    warp: Floats | None


class DetectionStore:
    """All that a network sees in some videos, and what it shows of it."""

    def __init__(self, detector: ImageDetector, shown: DetectionFilter, timeline: FrameTimeline) -> None:
        self._detector, self._shown, self._timeline = detector, shown, timeline
        self._ways = storing_filters(shown)
        cameras = Cameras(BotSortSettings().cmc_method)
        self._cameras, self._made = cameras, making_of(detector, self._ways, cameras.how)
        self._recorders: dict[str, DetectionRecorder] = {}

    def detect(self, batches: Generator[list[Frame]], look: Look | None = None) -> Generator[tuple[Frame, Detections]]:
        """Frames with what is shown of them. The network, the camera's motion and the caller work at the same time."""
        seen = self._detector.detect_in_ways(batches, [self._shown, *self._ways], look)
        moved = read_ahead(self._moved(read_ahead(seen, _FRAMES_AHEAD)), _FRAMES_AHEAD)
        for one in moved:
            self._record(one)
            yield one.frame, one.found[0]

    def _moved(self, seen: Generator[tuple[Frame, tuple[Detections, ...]]]) -> Generator[_Sight]:
        for frame, found in seen:
            place = self._timeline.place(frame)
            # As a run with the network: what overlaps leave across classes, the best of it.
            boxes = found[1].boxes[:MOST].astype(np.float64)
            warp = self._cameras.warp(place.video, frame.image, boxes, as_resized(frame.image, self._made))
            yield _Sight(frame, found, place, warp)

    def _record(self, one: _Sight) -> None:
        place = one.place
        if place.video not in self._recorders:
            self._recorders[place.video] = DetectionRecorder(
                place.video, place.numbers_per_second, self._detector.names, every=place.every, made=self._made
            )
        height, width = one.frame.image.shape[:2]
        self._recorders[place.video].add_ways(place.number, place.time, (width, height), one.found[1:], one.warp)

    def stored(self) -> dict[str, StoredDetections]:
        """By video."""
        return {name: recorder.stored() for name, recorder in self._recorders.items()}

    def write(self, folder: Path) -> None:
        for name, stored in self.stored().items():
            write_detections(folder / f"{name}{ENDING}", stored)


def as_resized(image: Image, made: Making) -> Image:
    """As the network's input shows it, without what it is padded with."""
    height, width = image.shape[:2]
    size = placement(width, height, made.size, 1, InputConvention(whole=made.rounds_down)).size
    if size == (width, height):
        return image
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR), np.uint8)
