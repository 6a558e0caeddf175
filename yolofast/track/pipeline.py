"""Frames become tracks: read, detected, followed, each by a thread of its own, in the order of the frames.

Every video has a tracker of its own, while one network sees the frames of all. The camera's motion is found by another
thread, on the frame that was read for the detector, and handed to the tracker.
"""

import copy
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from yolofast.detect.detector import DetectionFilter, FrameDetections, ImageDetector
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.structures import Detections
from yolofast.track.formats.detections import LEAST_SCORE, USUAL_RATE, StoredDetections
from yolofast.track.timeline import Place, Timeline
from yolofast.track.trackers.camera_motion import CameraMotion
from yolofast.track.trackers.table import build_tracker
from yolofast.track.trackers.tracker import Tracker
from yolofast.track.trackers.tracks import Floats, Ints, Stage, Tracks

READING, DETECTING, CAMERA, TRACKING, DRAWING = "reading", "detector", "camera motion", "tracker", "drawing and writing"
_BATCHES_AHEAD, _FRAMES_AHEAD = 1, 8
_NMS_IOU = 0.7
Item = TypeVar("Item")
MakeTracker = Callable[[float], Tracker]
"""Of a video with this frame rate."""


@dataclass(frozen=True)
class Found:
    """The detections of a frame in double precision: a stored score of 0.6 must not become more than 0.6."""

    boxes: Floats
    scores: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(cls, detections: Detections) -> "Found":
        return cls(detections.boxes.astype(np.float64), detections.scores.astype(np.float64), detections.labels)

    def detections(self) -> Detections:
        return Detections(self.boxes.astype(np.float32), self.scores.astype(np.float32), self.labels)


@dataclass(frozen=True)
class Seen:
    """A frame on its way to the tracker."""

    place: Place
    frame: Frame | None
    """None where only its detections are stored."""
    found: Found
    warp: Floats | None = None
    """The camera's motion since the frame before."""
    features: npt.NDArray[np.float32] | None = None
    size: tuple[int, int] = (0, 0)
    """Width and height of the image; 0 where nothing says it."""


@dataclass(frozen=True)
class FollowedFrame:
    place: Place
    frame: Frame | None
    found: Found
    tracks: Tracks
    lost: Tracks
    """Where tracks are believed to be that the detections do not show."""
    stages: tuple[Stage, ...] = ()
    """How they were decided, where that was asked for."""
    size: tuple[int, int] = (0, 0)
    """Width and height of the image; 0 where nothing says it."""


@dataclass(frozen=True)
class TrackedFrame(FrameDetections):
    """What `Detector.track` yields: a frame, its detections, and the tracks that they became."""

    tracks: Tracks
    lost: Tracks
    """Where tracks are believed to be that the detections do not show."""
    place: Place
    """Which video it is of, its number there from 1, and its time in seconds."""

    @property
    def time(self) -> float:
        return self.place.time


class StageTimes:
    """How long each stage has worked, waiting not counted, and on how many frames."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.frames: Counter[str] = Counter()

    @contextmanager
    def of(self, stage: str, frames: int = 1) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - began
        self.frames[stage] += frames

    def of_reading(self, batches: Generator[list[Item]]) -> Generator[list[Item]]:
        try:
            while True:
                began = time.perf_counter()
                batch = next(batches, None)
                if batch is None:
                    return
                self.seconds[READING] += time.perf_counter() - began
                self.frames[READING] += len(batch)
                yield batch
        finally:
            batches.close()

    def rates(self) -> dict[str, float]:
        """Frames per second that each stage could do alone."""
        return {name: self.frames[name] / seconds for name, seconds in self.seconds.items() if seconds > 0}


def detected(
    detector: ImageDetector,
    batches: Generator[list[Frame]],
    chosen: DetectionFilter,
    timeline: Timeline,
    times: StageTimes,
) -> Generator[Seen]:
    """Reading overlaps with the network."""
    for frames in read_ahead(times.of_reading(batches), _BATCHES_AHEAD):
        with times.of(DETECTING, len(frames)):
            found = detector.detect([frame.image for frame in frames], chosen)
        for frame, detections in zip(frames, found, strict=True):
            height, width = frame.image.shape[:2]
            yield Seen(timeline.place(frame), frame, Found.of(detections), size=(width, height))


def recalled(
    stored: StoredDetections, batches: Generator[list[Frame]] | None, timeline: Timeline | None, times: StageTimes
) -> Generator[Seen]:
    """Stored detections take the network's place; `batches` are the images to draw on, if there are any."""
    starts = stored.starts()
    about: dict[str, Any] = {
        "video": stored.name, "frame_rate": stored.frame_rate, "length": stored.length, "live": False
    }  # fmt: skip

    def seen(number: int, frame: Frame | None) -> Seen:
        rows = slice(int(starts[number - 1]), int(starts[number]))
        return Seen(
            Place(number=number, time=float(stored.times[number - 1]), **about),
            frame,
            Found(stored.box[rows], stored.score[rows], np.maximum(stored.label[rows], 0)),
            None if stored.warps is None else stored.warps[number - 1],
            None if stored.features is None else stored.features[rows],
            (stored.width or 0, stored.height or 0) if frame is None else (frame.image.shape[1], frame.image.shape[0]),
        )

    if batches is None or timeline is None:
        yield from (seen(number, None) for number in range(1, stored.length + 1))
        return
    done = 0
    for frames in read_ahead(times.of_reading(batches), _BATCHES_AHEAD):
        for frame in frames:
            number = timeline.place(frame).number
            # Frames whose image is missing are tracked all the same.
            yield from (seen(other, None) for other in range(done + 1, min(number, stored.length + 1)))
            if number <= stored.length:
                yield seen(number, frame)
            done = number
    yield from (seen(number, None) for number in range(done + 1, stored.length + 1))


class Follower:
    """Trackers and camera motions, one for each video."""

    def __init__(
        self, make_tracker: MakeTracker, times: StageTimes, *, several: bool = False, explained: int | None = None
    ) -> None:
        """`several` videos are read in turn; otherwise one is over when the next begins."""
        self._make, self._times, self._several, self._explained = make_tracker, times, several, explained
        self._cameras: dict[str, CameraMotion] = {}
        self._trackers: dict[str, Tracker] = {}
        self.explained: dict[str, Tracker] = {}
        """As they were after the frame that is to be explained."""

    def follow(self, seen: Generator[Seen]) -> Generator[FollowedFrame]:
        """The camera's motion, the tracker and the caller work at the same time."""
        moved = read_ahead(self._moved(read_ahead(seen, _FRAMES_AHEAD)), _FRAMES_AHEAD)
        return read_ahead(self._tracked(moved), _FRAMES_AHEAD)

    def follow_here(self, seen: Iterable[Seen]) -> Generator[FollowedFrame]:
        """In the caller's thread, for what needs neither camera nor network."""
        return self._tracked(seen)

    def _moved(self, seen: Generator[Seen]) -> Generator[Seen]:
        for one in seen:
            if one.frame is None or one.warp is not None:
                yield one
                continue
            camera = self._camera(one.place)
            if camera.method == "none":
                yield one
                continue
            with self._times.of(CAMERA):
                warp = camera.warp(one.frame.image, one.found.boxes)
            yield replace(one, warp=warp)

    def _camera(self, place: Place) -> CameraMotion:
        if place.video not in self._cameras:
            if not self._several:
                self._cameras.clear()
            tracker = self._make(place.frame_rate)
            method = getattr(tracker.settings, "cmc_method", "none")
            self._cameras[place.video] = CameraMotion(method, faithful=tracker.faithful)
        return self._cameras[place.video]

    def _tracked(self, seen: Iterable[Seen]) -> Generator[FollowedFrame]:
        for one in seen:
            tracker = self._tracker(one.place)
            wanted = one.place.number == self._explained
            tracker.stages = [] if wanted else None
            found = one.found
            with self._times.of(TRACKING):
                tracks = tracker.update(
                    found.boxes, found.scores, found.labels, warp=one.warp, features=one.features, time=one.place.time
                )
                lost = tracker.lost()
            if wanted:
                self.explained[one.place.video] = copy.deepcopy(tracker)
            yield FollowedFrame(one.place, one.frame, found, tracks, lost, tuple(tracker.stages or ()), one.size)

    def _tracker(self, place: Place) -> Tracker:
        if place.video not in self._trackers:
            if not self._several:
                self._trackers.clear()
            self._trackers[place.video] = self._make(place.frame_rate)
        return self._trackers[place.video]


def tracked_frames(followed: Generator[FollowedFrame]) -> Generator[TrackedFrame]:
    """For callers from Python, whose frames all have an image."""
    for one in followed:
        assert one.frame is not None
        yield TrackedFrame(one.frame, one.found.detections(), one.tracks, one.lost, one.place)


def tracking_filter(class_handling: str, given: Mapping[str, Any]) -> DetectionFilter:
    """Trackers need doubtful detections too, and overlaps of people in a crowd.

    A thing is one thing, whichever classes it resembles, unless classes are tracked apart.
    """
    usual = {"conf": LEAST_SCORE, "iou": _NMS_IOU, "agnostic": class_handling != "each"}
    return DetectionFilter(**{**usual, **given})


def tracker_maker(name: str, *, faithful: bool, class_handling: str, settings: Mapping[str, Any]) -> MakeTracker:
    """Settings are checked now."""

    def make(frame_rate: float) -> Tracker:
        return build_tracker(name, frame_rate=frame_rate, faithful=faithful, classes=class_handling, **settings)

    make(USUAL_RATE)
    return make
