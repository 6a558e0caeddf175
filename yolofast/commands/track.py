"""`yolofast track`: identities through videos, streams and stored detections; results, video, counts, and why."""

import argparse
import json
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

from rich.console import Console

from yolofast.config.flags import from_args
from yolofast.config.track import TrackConfig
from yolofast.detect.detector import ImageDetector
from yolofast.detect.networks import weights_of
from yolofast.errors import UserError, shorten
from yolofast.media.faults import Faults
from yolofast.media.window import Window
from yolofast.runs.folder import new_run_folder
from yolofast.terminal.console import console, table
from yolofast.track.choices import check_warps, eye_of, making_of, tracker_maker, tracking_filter
from yolofast.track.counting import Shape, parse_shape
from yolofast.track.explain import explain
from yolofast.track.formats.detections import USUAL_RATE, Making, StoredDetections
from yolofast.track.formats.warps import read_warps
from yolofast.track.pipeline import (
    DRAWING,
    FollowedFrame,
    Follower,
    StageTimes,
    detected,
)
from yolofast.track.stored_run import frames_of_stored, read_stored
from yolofast.track.timeline import OpenSources, open_sources
from yolofast.track.track_run import TrackRun
from yolofast.track.trackers.camera_motion import how_found
from yolofast.track.trackers.settings import value_of
from yolofast.track.trackers.tracker import Tracker
from yolofast.words import counted

_FRAMES = "give a video, a folder of images, or detections of one"


def run(args: argparse.Namespace) -> None:
    config, out = from_args(TrackConfig, args), console()
    times = StageTimes()

    def say(text: str) -> None:
        if not config.json:
            out.print(text, soft_wrap=True)

    faults = Faults(say)
    # What is wrong with settings and sources is said before anything is read or made.
    shapes = shapes_of(config)
    make = tracker_maker(
        config.tracker, faithful=config.faithful, class_handling=config.class_handling,
        settings=settings_of_words(config.track), reid=config.reid is not None,
        warps=config.warps is not None,
    )  # fmt: skip
    warps = None if config.warps is None else read_warps(config.warps)
    opened = _opened(config, faults) if config.source else None
    follower = Follower(make, times, several=len(config.source) > 1, explained=config.explain, warps=warps)
    empty: list[StoredDetections] = []
    names, frames, made = _frames(config, opened, follower, make(USUAL_RATE), times, say, empty.append)
    if config.explain is not None:
        _explain(config, follower, frames, names, out, faults)
        return
    make_folder = partial(new_run_folder, config.project, config.name, config.exist_ok)
    files = TrackRun(config, names, shapes, make_folder, made)
    began = time.perf_counter()
    complete = False
    try:
        complete = _write_all(config, files, frames, faults, times, out)
    finally:  # also when interrupted: files of results so far are whole, and videos can be played
        frames.close()
        files.close(faults, complete=complete)
        if files.count and not complete:
            say(f"ended early: {files.so_far()}")
    seconds = time.perf_counter() - began
    for nothing in empty:
        say(f"warning: {nothing.name} has no frames: its results are empty")
        files.add_empty(nothing.name, nothing.frame_rate)
    if not files.count and not empty:
        raise faults.error() if faults else UserError("there are no frames", fix=_FRAMES)
    if opened is not None and opened.timeline.repaired:
        several = ", ".join(sorted(opened.timeline.repaired))
        out.print(f"remark: times of {several} did not ascend; frames are taken at the stated rate there")
    for name, (found, stated) in () if opened is None else opened.timeline.lengths.items():
        say(f"warning: {name} has images of {counted(found, 'frame')}, but its seqinfo.ini says seqLength={stated}")
    _summary(out, files, times, seconds)


def _opened(config: TrackConfig, faults: Faults) -> OpenSources:
    every = config.vid_stride if config.detections is None else 1  # stored detections say which frames they are of
    return open_sources(
        config.source, config.batch_size, every=every, frame_rate=config.frame_rate, on_fault=faults.add
    )


def _write_all(
    config: TrackConfig, files: TrackRun, frames: Iterable[FollowedFrame], faults: Faults, times: StageTimes,
    out: Console,
) -> bool:  # fmt: skip
    """Also shown in a window, if the settings say so; False if that was closed."""
    window = Window(out.print) if config.view_img else None
    with files.progress(out) as show:
        for one in frames:
            faults.read()
            with times.of(DRAWING):
                drawn = files.add(one, faults)
            show(one)
            if window is not None and drawn is not None and not window.show(one.place.video, drawn):
                return False
    return True


def _frames(
    config: TrackConfig,
    opened: OpenSources | None,
    follower: Follower,
    tracker: Tracker,
    times: StageTimes,
    say: Callable[[str], None],
    on_empty: Callable[[StoredDetections], None],
) -> tuple[tuple[str, ...], Generator[FollowedFrame], Making | None]:
    """The names of the classes, the frames with their tracks, and how a network's detections are made."""
    if config.detections is not None:
        stored = read_stored(config, tracker, say)
        check_warps(tracker, config.warps is not None or all(one.warps is not None for one in stored))
        names = next((one.names for one in stored if one.names), ())
        return names, frames_of_stored(stored, opened, follower, times, say, on_empty), None
    assert opened is not None
    check_warps(tracker, config.warps is not None)
    detector = _detector(config, say)
    given = {"conf": config.conf_thres, "iou": config.iou_thres, "most": config.max_det}
    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    own |= {"classes": config.classes or None, "augment": config.augment}
    chosen = tracking_filter(config.class_handling, own)
    see = eye_of(detector, chosen, tracker, config.reid)
    followed = follower.follow(detected(see, opened.batches, opened.timeline, times))
    camera = how_found(tracker.cmc_method, faithful=tracker.faithful)
    return detector.names, followed, making_of(detector, [chosen], camera)


def _detector(config: TrackConfig, say: Callable[[str], None]) -> ImageDetector:
    weights = weights_of(config.weights, say)
    return ImageDetector(
        weights, cfg=config.cfg or None, size=config.img_size, device=config.device,
        precision=config.precision, head_config=config.head_config or None,
    )  # fmt: skip


def shapes_of(config: TrackConfig) -> list[Shape]:
    shapes = [parse_shape(text, number, line=True) for number, text in enumerate(config.line, 1)]
    shapes += [parse_shape(text, number, line=False) for number, text in enumerate(config.zone, 1)]
    names = [shape.name for shape in shapes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two lines or zones are named {shorten(name)}", fix="give each a name of its own")
    return shapes


def settings_of_words(words: tuple[str, ...]) -> dict[str, Any]:
    """`track_buffer=60 mot20=true` as values."""
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = (part.strip() for part in word.partition("="))
        key = key.replace("-", "_")
        if not equals or not key or not text:
            raise UserError(f"--track has {shorten(word)}", fix="write --track track_buffer=60 match_thresh=0.8")
        if key in settings:
            raise UserError(f"--track sets {key} twice", fix="set it once")
        settings[key] = value_of(key, text)
    return settings


def _explain(
    config: TrackConfig, follower: Follower, frames: Generator[FollowedFrame], names: tuple[str, ...], out: Console,
    faults: Faults,
) -> None:  # fmt: skip
    """For every video that has the frame."""
    before: dict[str, FollowedFrame] = {}
    reached: dict[str, int] = {}
    explained = []
    try:
        for one in frames:
            faults.read()
            video = one.place.video
            reached[video] = one.place.number
            if one.place.number == config.explain:
                tracker = follower.explained[video]
                explained.append(explain(one, tracker, before.get(video), names))
                if one.place.length is None or (len(config.source) <= 1 and config.detections is None):
                    break
            before[video] = one
    finally:
        frames.close()
    if not reached and faults:
        raise faults.error()
    if not explained:
        seen = ", ".join(f"{video} has {counted(last, 'frame')}" for video, last in reached.items()) or "there is none"
        raise UserError(f"there is no frame {config.explain}: {seen}", fix="give the number of a frame, from 1")
    if config.json:
        print(json.dumps([one.to_dict() for one in explained], indent=1))
        return
    out.print("\n\n".join(one.text() for one in explained), soft_wrap=True)


def _summary(out: Console, files: TrackRun, times: StageTimes, seconds: float) -> None:
    listing = table("video", ">frames", ">boxes", ">identities", "by class")
    for row in files.summary():
        listing.add_row(*row)
    out.print(listing)
    for text in files.nothing():
        out.print(f"remark: {text}", soft_wrap=True)
    for text in files.counted_shapes():
        out.print(text, soft_wrap=True)
    rates = ", ".join(f"{name} {rate:,.1f}" for name, rate in times.rates().items())
    if files.count:
        out.print(f"frames per second: {rates}; together {files.count / max(seconds, 1e-9):,.1f}", soft_wrap=True)
    out.print(f"results: {files.folder}", soft_wrap=True)
