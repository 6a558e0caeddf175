"""Frames become tracks: read, detected, followed, each by a thread of its own, in the order of the frames.

Every video has a tracker of its own, while one network sees the frames of all. The camera's motion is found by another
thread, on the frame as the detector has resized it, and handed to the tracker.
"""

import copy
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from yolofast.detect.detector import FrameDetections
from yolofast.detect.results import of_frame
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.pixels import Image
from yolofast.structures import Detections
from yolofast.track.formats.detections import USUAL_RATE
from yolofast.track.formats.warps import chained
from yolofast.track.timeline import FramePlace, FrameTimeline
from yolofast.track.trackers.camera_motion import ESTIMATED, Cameras
from yolofast.track.trackers.motion.trackssm import foresee_together
from yolofast.track.trackers.tracker import Tracker
from yolofast.track.trackers.tracks import AssociationStage, Floats, Ints, Tracks

READING, DETECTING, CAMERA, TRACKING, DRAWING = "reading", "detector", "camera motion", "tracker", "drawing and writing"
BATCHES_AHEAD, _FRAMES_AHEAD = 1, 8
Item = TypeVar("Item")
Features = npt.NDArray[np.float32] | npt.NDArray[np.float64]
"""[n, d] how each detection looks."""
MakeTracker = Callable[[float], Tracker]
"""Of a video with this frame rate."""


class Sight(NamedTuple):
    """What the detector makes of an image."""

    detections: Detections
    resized: Image
    """The image as large as the network takes it."""
    features: Floats | None


See = Callable[[list[Image]], list[Sight]]


@dataclass(frozen=True)
class ExactDetections:
    """The detections of a frame in double precision: a stored score of 0.6 must not become more than 0.6."""

    boxes: Floats
    scores: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def of(cls, detections: Detections) -> "ExactDetections":
        return cls(detections.boxes.astype(np.float64), detections.scores.astype(np.float64), detections.labels)

    def detections(self) -> Detections:
        return Detections(self.boxes.astype(np.float32), self.scores.astype(np.float32), self.labels)


@dataclass(frozen=True)
class SeenFrame:
    """A frame on its way to the tracker."""

    place: FramePlace
    frame: Frame | None
    """None where only its detections are stored."""
    found: ExactDetections
    warp: Floats | None = None
    """The camera's motion since the frame before."""
    features: Features | None = None
    size: tuple[int, int] = (0, 0)
    """Width and height of the image; 0 where nothing says it."""
    resized: Image | None = None
    """The image as the detector has resized it."""
    more: bool = False
    """Whether others follow that were detected together with it."""
    leave_out: Callable[[], int] | None = None
    """The next ones, where nothing was detected in a great many; how many it has left out."""


@dataclass(frozen=True)
class FollowedFrame:
    place: FramePlace
    frame: Frame | None
    found: ExactDetections
    tracks: Tracks
    lost: Tracks
    """Where tracks are believed to be that the detections do not show."""
    stages: tuple[AssociationStage, ...] = ()
    """How they were decided, where that was asked for."""
    size: tuple[int, int] = (0, 0)
    """Width and height of the image; 0 where nothing says it."""
    features: Features | None = None
    warp: Floats | None = None


@dataclass(frozen=True)
class TrackedFrame(FrameDetections):
    """What `Detector.track` yields: a frame, its detections, and the tracks that they became."""

    tracks: Tracks
    lost: Tracks
    """Where tracks are believed to be that the detections do not show."""
    place: FramePlace
    """Which video it is of, its number there from 1, and its time in seconds."""

    @property
    def number(self) -> int:
        """From 1, as in all files of results; `frame.number` is the place in the source, from 0."""
        return self.place.number

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
    see: See, batches: Generator[list[Frame]], timeline: FrameTimeline, times: StageTimes
) -> Generator[SeenFrame]:
    """Reading overlaps with the network."""
    for frames in read_ahead(times.of_reading(batches), BATCHES_AHEAD):
        with times.of(DETECTING, len(frames)):
            found = see([frame.image for frame in frames])
        for left, frame, (detections, resized, features) in zip(range(len(frames))[::-1], frames, found, strict=True):
            height, width = frame.image.shape[:2]
            yield SeenFrame(
                timeline.place(frame), frame, ExactDetections.of(detections), features=features, size=(width, height),
                resized=resized, more=left > 0,
            )  # fmt: skip


class Follower:
    """Trackers and camera motions, one for each video."""

    def __init__(
        self, make_tracker: MakeTracker, times: StageTimes, *, several: bool = False, explained: int | None = None,
        warps: Mapping[int, Floats] | None = None,
    ) -> None:  # fmt: skip
        """`several` videos are read in turn; otherwise one is over when the next begins.

        `warps` are recorded ones by frame, in place of what images or stored detections say.
        """
        self._make, self._times, self._several, self._explained = make_tracker, times, several, explained
        self._warps, self._warped_to = warps, 0
        any_rate = make_tracker(USUAL_RATE)
        self._method = any_rate.cmc_method
        self._cameras = Cameras(self._method, faithful=any_rate.faithful, several=several)
        self._trackers: dict[str, Tracker] = {}
        self.explained: dict[str, Tracker] = {}
        """As they were after the frame that is to be explained."""

    def follow(self, seen: Generator[SeenFrame]) -> Generator[FollowedFrame]:
        """The camera's motion, the tracker and the caller work at the same time."""
        moved = read_ahead(self._moved(read_ahead(seen, _FRAMES_AHEAD)), _FRAMES_AHEAD)
        return read_ahead(self._tracked(moved), _FRAMES_AHEAD)

    def follow_here(self, seen: Iterable[SeenFrame]) -> Generator[FollowedFrame]:
        """In the caller's thread, for what needs neither camera nor network."""
        return self._tracked(seen)

    def _moved(self, seen: Generator[SeenFrame]) -> Generator[SeenFrame]:
        for one in seen:
            if one.frame is None or one.warp is not None or self._method not in ESTIMATED:
                yield one
                continue
            with self._times.of(CAMERA):
                warp = self._cameras.warp(one.place.video, one.frame.image, one.found.boxes, one.resized)
            yield replace(one, warp=warp, resized=None)

    def _tracked(self, seen: Iterable[SeenFrame]) -> Generator[FollowedFrame]:
        for one in self._foreseen(seen) if self._several else seen:
            tracker = self._tracker(one.place)
            wanted = one.place.number == self._explained
            tracker.stages = [] if wanted else None
            found = one.found
            warp = one.warp if self._warps is None else self._recorded(self._warps, one.place.number)
            if self._method == "none":
                warp = None  # stored ones are for trackers that look at the camera
            with self._times.of(TRACKING):
                tracks = tracker.update(
                    found.boxes, found.scores, found.labels, warp=warp, time=one.place.time,
                    features=one.features if tracker.looks else None, size=one.size if all(one.size) else None,
                )  # fmt: skip
                lost = tracker.lost()
            if one.leave_out is not None and self._explained is None and not len(tracker.state.ids) and not len(found):
                tracker.frame += one.leave_out()  # they would be followed by nothing, one by one
            if wanted:
                self.explained[one.place.video] = copy.deepcopy(tracker)
            yield FollowedFrame(
                one.place, one.frame, found, tracks, lost, tuple(tracker.stages or ()), one.size, one.features, warp
            )

    def _foreseen(self, seen: Iterable[SeenFrame]) -> Generator[SeenFrame]:
        """Learned motion models predict once for all videos whose frames were detected together."""
        waiting: list[SeenFrame] = []
        for one in seen:
            if any(one.place.video == other.place.video for other in waiting):
                yield from self._foreseen_together(waiting)
                waiting = []
            waiting.append(one)
            if not one.more:
                yield from self._foreseen_together(waiting)
                waiting = []
        yield from waiting

    def _foreseen_together(self, frames: list[SeenFrame]) -> list[SeenFrame]:
        if len(frames) > 1:
            with self._times.of(TRACKING, 0):
                motions = ((getattr(self._tracker(one.place), "motion", None), one) for one in frames)
                foresee_together((motion, one.place.time, one.size) for motion, one in motions if all(one.size))
        return frames

    def _recorded(self, warps: Mapping[int, Floats], number: int) -> Floats | None:
        """The camera's motion since the frame before that was used."""
        first = self._warped_to + 1 if self._warped_to < number else number
        self._warped_to = number
        return chained(warps.get(one) for one in range(first, number + 1))

    def _tracker(self, place: FramePlace) -> Tracker:
        if place.video not in self._trackers:
            if not self._several:
                self._trackers.clear()
            self._trackers[place.video] = self._make(place.frame_rate)
        return self._trackers[place.video]


def tracked_frames(followed: Generator[FollowedFrame], names: tuple[str, ...]) -> Generator[TrackedFrame]:
    """For callers from Python, whose frames all have an image; `names` of the classes."""
    for one in followed:
        assert one.frame is not None
        found = of_frame(one.found.detections(), names, one.frame, keep=True)
        yield TrackedFrame(one.frame, found, one.tracks, one.lost, one.place)
