"""`yolofast track --detections`: stored detections in the network's place, chosen as the flags say."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.config.track import TrackConfig
from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.files.threads import read_ahead
from yolofast.media.frames import Frame
from yolofast.track.formats.detections import StoredDetections
from yolofast.track.formats.faults import told
from yolofast.track.formats.read_detections import read_all_detections
from yolofast.track.formats.sequence import UNKNOWN
from yolofast.track.pipeline import BATCHES_AHEAD, ExactDetections, FollowedFrame, Follower, SeenFrame, StageTimes
from yolofast.track.selection import StoredCandidates, of_classes, refuse_higher, refuse_without_features, tracks_across
from yolofast.track.storing import as_resized
from yolofast.track.timeline import FramePlace, FrameTimeline, OpenSources
from yolofast.track.trackers.camera_motion import how_found
from yolofast.track.trackers.tracker import Tracker
from yolofast.words import counted

Say = Callable[[str], None]
_MANY_EMPTY = 300
"""Frames in a row without a detection or a track, ten seconds of usual videos: more than these are not listed. A row of
a file may say that it is of frame 10,000,000."""
_SURELY_OTHER = 0.02
"""Share by which lengths or rates differ of two videos that are not the same; containers only estimate both."""


def read_stored(config: TrackConfig, tracker: Tracker, say: Say) -> list[StoredDetections]:
    """Those of every video, as the tracker gets them."""
    assert config.detections is not None
    faults: list[Fault] = []
    images = None if config.images is None else Path(config.images)
    scores = None if config.score_range is None else (config.score_range[0], config.score_range[1])
    found = read_all_detections(
        config.detections, images=images, faults=faults, skip_bad=config.skip_bad, scores=scores
    )
    for remark in told(faults):
        say(f"remark: {remark}")
    if len(found) > 1 and (config.source or config.warps is not None):
        given = "--source" if config.source else "--warps"
        what = f"holds detections of {counted(len(found), 'video')}, but {given} is of one"
        raise UserError(what, where=config.detections, fix="name the file of that video")
    return [_chosen(one, config, tracker, say) for one in found.values()]


def _chosen(stored: StoredDetections, config: TrackConfig, tracker: Tracker, say: Say) -> StoredDetections:
    if getattr(tracker.settings, "with_reid", False):
        refuse_without_features(stored)
    refuse_higher(stored, [config.iou_thres], "--iou")
    every, across = stored, tracks_across(config.class_handling)
    if not across and stored.made is not None and stored.made.overlaps == "across":
        say(
            f"remark: detections of {stored.name} were suppressed across classes, so --class-handling each misses "
            "some; predict --save-detections stores both"
        )
    if config.frame_rate is not None:
        stored = stored.at_rate(config.frame_rate)
    stored = of_classes(stored, config.classes or None)
    choice = {"conf": config.conf_thres, "iou": config.iou_thres}
    kept = StoredCandidates(stored).kept(**choice, most=config.max_det, across=across)
    return _moving(stored.kept(kept).thinned(config.vid_stride), every, config, tracker, say)


def _moving(
    chosen: StoredDetections, stored: StoredDetections, config: TrackConfig, tracker: Tracker, say: Say
) -> StoredDetections:
    """With the camera's motion as a run with the network finds it: that looks away from what was detected.

    So it is of the detections that were looked away from, and of all frames. For others it is found anew, on the images
    if there are any.
    """
    how = how_found(tracker.cmc_method, faithful=tracker.faithful)
    if how is None or config.warps is not None:
        return chosen
    if chosen.warps is None:
        if not config.source and stored.made is not None and chosen.length > 1:
            say(f"remark: {chosen.name} has no camera motion stored: it is believed to stand still; --source shows it")
        return chosen
    made = stored.made
    if made is None or made.camera is None:
        return chosen  # given by someone who knows it
    usual = stored if made.overlaps != "both" else stored.kept(StoredCandidates(stored).kept())
    if how == made.camera and config.vid_stride == 1 and np.array_equal(chosen.box, usual.box):
        return chosen
    if config.source:
        return replace(chosen, warps=None)
    say(
        f"remark: the camera's motion of {chosen.name} was stored for other settings ({made.camera}), and is used; "
        "--source finds it for these"
    )
    return chosen


def recalled(
    stored: StoredDetections, batches: Generator[list[Frame]] | None, timeline: FrameTimeline | None, times: StageTimes,
    check: Callable[[FramePlace, Frame], None] = lambda place, frame: None,
) -> Generator[SeenFrame]:  # fmt: skip
    """Stored detections take the network's place; `batches` are the images to draw on, if there are any.

    `check` is told the first of these.
    """
    starts = stored.starts()
    about: dict[str, Any] = {
        "video": stored.name, "frame_rate": stored.used_rate, "length": stored.length, "live": False,
        "every": stored.every,
    }  # fmt: skip
    numbers, at = stored.looked_at(), 0
    made = stored.made

    def leave_out() -> int:
        """Up to the next frame with a detection, or the last: what no track is in and nobody asks for."""
        nonlocal at
        following = int(starts[numbers[at - 1]])
        until = int(stored.frame[following]) if following < len(stored.frame) else int(numbers[-1])
        empty = int(np.searchsorted(numbers, until)) - at
        if empty <= _MANY_EMPTY:
            return 0
        at += empty
        return empty

    def seen(number: int, frame: Frame | None) -> SeenFrame:
        rows = slice(int(starts[number - 1]), int(starts[number]))
        return SeenFrame(
            FramePlace(number=number, time=float(stored.times[number - 1]), **about),
            frame,
            ExactDetections(stored.box[rows], stored.score[rows], np.maximum(stored.label[rows], 0)),
            None if stored.warps is None else stored.warps[number - 1],
            None if stored.features is None else stored.features[rows],
            (stored.width or 0, stored.height or 0) if frame is None else (frame.image.shape[1], frame.image.shape[0]),
            None if frame is None or made is None or stored.warps is not None else as_resized(frame.image, made),
            leave_out=leave_out if batches is None else None,
        )

    def rest(before: float = np.inf) -> Generator[SeenFrame]:
        """Frames without an image."""
        nonlocal at
        while at < len(numbers) and numbers[at] < before:
            at += 1
            yield seen(int(numbers[at - 1]), None)

    if batches is None or timeline is None:
        yield from rest()
        return
    is_first = True
    for frames in read_ahead(times.of_reading(batches), BATCHES_AHEAD):
        for frame in frames:
            place = timeline.place(frame)
            if is_first:
                check(place, frame)
                is_first = False
            # Frames whose image is missing are tracked all the same.
            yield from rest(place.number)
            if at < len(numbers) and numbers[at] == place.number:
                at += 1
                yield seen(place.number, frame)
    yield from rest()


def frames_of_stored(
    stored: Iterable[StoredDetections],
    opened: OpenSources | None,
    follower: Follower,
    times: StageTimes,
    say: Say,
    on_empty: Callable[[StoredDetections], None],
) -> Generator[FollowedFrame]:
    """`on_empty` is told videos that have no frames."""
    for one in stored:
        if not one.length:
            on_empty(one)
        elif opened is not None:
            check = _same_video(one, say)
            yield from _classless(one, follower.follow(recalled(one, opened.batches, opened.timeline, times, check)))
        else:
            yield from _classless(one, follower.follow_here(recalled(one, None, None, times)))


def _same_video(stored: StoredDetections, say: Say) -> Callable[[FramePlace, Frame], None]:
    """Boxes of one video must not be drawn on another: compares what was stored with its first frame."""

    def check(place: FramePlace, frame: Frame) -> None:
        slack = max(stored.every - 1, _SURELY_OTHER * stored.length)
        if not stored.width or not stored.height:  # nothing is known of the video but how far its detections reach
            if place.length and place.length < stored.length - slack:
                what = f"ends after {counted(place.length, 'frame')}, but its detections reach to {stored.length:,}"
                say(f"warning: {frame.name} {what}; the boxes may be of another video")
            return
        height, width = frame.image.shape[:2]
        if (width, height) != (stored.width, stored.height):
            what = f"has {width}×{height} pixels, but the detections are of a video with"
            fix = "name the video that they were made of, or leave --source out"
            raise UserError(f"{what} {stored.width}×{stored.height}", where=frame.name, fix=fix)
        differences = []
        if place.length and abs(place.length - stored.length) > slack:
            differences.append(f"{counted(place.length, 'frame')}, not {stored.length:,}")
        if abs(place.frame_rate / stored.frame_rate - 1) > _SURELY_OTHER:
            differences.append(f"{place.frame_rate:g} frames a second, not {stored.frame_rate:g}")
        if differences:
            is_other = "the boxes may be of another video"
            say(f"warning: {frame.name} differs from the detections: {'; '.join(differences)}; {is_other}")

    return check


def _classless(stored: StoredDetections, frames: Generator[FollowedFrame]) -> Generator[FollowedFrame]:
    """Detections without classes become tracks without classes."""
    if len(stored) and (stored.label >= 0).any():
        yield from frames
        return
    for one in frames:
        tracks, lost = (replace(some, labels=np.full(len(some), UNKNOWN)) for some in (one.tracks, one.lost))
        yield replace(one, tracks=tracks, lost=lost)
