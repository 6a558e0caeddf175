"""`yolofast track`: identities through videos, streams and stored detections; results, video, counts, and why."""

import argparse
import dataclasses
import json
import time
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from yolofast.commands.console import console, table
from yolofast.commands.predict import Window
from yolofast.commands.track_files import TrackRun
from yolofast.config.flags import from_args
from yolofast.config.track import TrackConfig
from yolofast.dataset.faults import Fault
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.detect.networks import weights_of
from yolofast.errors import UserError, shorten
from yolofast.runs.folder import new_run_folder
from yolofast.track.counting import Shape, parse_shape
from yolofast.track.explain import explain
from yolofast.track.formats.detections import StoredDetections, read_all_detections
from yolofast.track.formats.faults import told
from yolofast.track.formats.sequence import UNKNOWN
from yolofast.track.pipeline import (
    DRAWING,
    FollowedFrame,
    Follower,
    StageTimes,
    detected,
    recalled,
    tracker_maker,
    tracking_filter,
)
from yolofast.track.timeline import OpenSources, open_sources
from yolofast.track.trackers.table import kind_of
from yolofast.words import counted

_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def run(args: argparse.Namespace) -> None:
    config, out = from_args(TrackConfig, args), console()
    times, faults = StageTimes(), list[UserError]()

    def on_fault(fault: UserError) -> None:
        faults.append(fault)
        if not config.json:
            out.print(f"warning: {fault}", soft_wrap=True)

    # What is wrong with settings and sources is said before anything is read or made.
    shapes = shapes_of(config)
    make = tracker_maker(
        config.tracker, faithful=config.faithful, class_handling=config.class_handling,
        settings=settings_of_words(config.track, config.tracker),
    )  # fmt: skip
    opened = None
    if config.source:
        opened = open_sources(
            config.source, config.batch_size, every=config.vid_stride, frame_rate=config.frame_rate, on_fault=on_fault
        )
    follower = Follower(make, times, several=len(config.source) > 1, explained=config.explain)
    names, frames = _frames(config, opened, follower, times, out)
    if config.explain is not None:
        _explain(config, follower, frames, names, out)
        return
    files = TrackRun(config, names, shapes, lambda: new_run_folder(config.project, config.name, config.exist_ok))
    began = time.perf_counter()
    window = Window(out.print) if config.view_img else None
    try:
        with files.progress(out) as show:
            for one in frames:
                with times.of(DRAWING):
                    drawn = files.add(one, faults)
                show(one)
                if window is not None and drawn is not None and not window.show(one.place.video, drawn):
                    break
    finally:  # also when interrupted: results so far are complete, and videos can be played
        frames.close()
        files.close(faults)
    seconds = time.perf_counter() - began
    if not files.count:
        raise _nothing(faults)
    if opened is not None and opened.timeline.repaired:
        several = ", ".join(sorted(opened.timeline.repaired))
        out.print(f"remark: times of {several} did not ascend; frames are taken at the stated rate there")
    _summary(out, files, times, seconds)


def _frames(
    config: TrackConfig, opened: OpenSources | None, follower: Follower, times: StageTimes, out: Console
) -> tuple[tuple[str, ...], Generator[FollowedFrame]]:
    """The names of the classes, and the frames with their tracks."""
    if config.detections is not None:
        faults: list[Fault] = []
        images = None if config.images is None else Path(config.images)
        found = read_all_detections(config.detections, images=images, faults=faults, skip_bad=config.skip_bad)
        if not config.json:
            for remark in told(faults):
                out.print(f"remark: {remark}", soft_wrap=True)
        stored = [one if config.frame_rate is None else one.at_rate(config.frame_rate) for one in found.values()]
        if opened is not None and len(stored) > 1:
            what = f"holds detections of {counted(len(stored), 'video')}, but one is given as --source"
            raise UserError(what, where=config.detections, fix="name the file of that video")
        names = next((one.names for one in stored if one.names), ())
        return names, _from_stored(stored, opened, follower, times, out)
    assert opened is not None
    detector = _detector(config, out)
    own: dict[str, Any] = {
        "conf": config.conf_thres, "iou": config.iou_thres, "classes": config.classes or None, "most": config.max_det,
        "augment": config.augment,
    }  # fmt: skip
    chosen: DetectionFilter = tracking_filter(config.class_handling, own)
    chosen.class_numbers(detector.names)
    return detector.names, follower.follow(detected(detector, opened.batches, chosen, opened.timeline, times))


def _from_stored(
    stored: list[StoredDetections], opened: OpenSources | None, follower: Follower, times: StageTimes, out: Console
) -> Generator[FollowedFrame]:
    for one in stored:
        if not one.length:
            out.print(f"warning: {one.name} has no frames: skipped", soft_wrap=True)
        elif opened is not None:
            yield from _classless(one, follower.follow(recalled(one, opened.batches, opened.timeline, times)))
        else:
            yield from _classless(one, follower.follow_here(recalled(one, None, None, times)))


def _classless(stored: StoredDetections, frames: Generator[FollowedFrame]) -> Generator[FollowedFrame]:
    """Detections without classes become tracks without classes."""
    if len(stored) and (stored.label >= 0).any():
        yield from frames
        return
    for one in frames:
        tracks, lost = (replace(some, labels=np.full(len(some), UNKNOWN)) for some in (one.tracks, one.lost))
        yield replace(one, tracks=tracks, lost=lost)


def _detector(config: TrackConfig, out: Console) -> ImageDetector:
    weights = weights_of(config.weights, (lambda text: None) if config.json else partial(out.print, soft_wrap=True))
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


def settings_of_words(words: tuple[str, ...], tracker: str) -> dict[str, Any]:
    """`track_buffer=60 mot20=true` as values; what is a word for the tracker stays one: `cmc_method=none`."""
    texts = {one.name for one in dataclasses.fields(kind_of(tracker).settings) if isinstance(one.default, str)}
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = (part.strip() for part in word.partition("="))
        key = key.replace("-", "_")
        if not equals or not key or not text:
            raise UserError(f"--track has {shorten(word)}", fix="write --track track_buffer=60 match_thresh=0.8")
        if key in settings:
            raise UserError(f"--track sets {key} twice", fix="set it once")
        settings[key] = text if key in texts else _value(text)
    return settings


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _explain(
    config: TrackConfig, follower: Follower, frames: Generator[FollowedFrame], names: tuple[str, ...], out: Console
) -> None:
    """For every video that has the frame."""
    known: dict[str, list[int]] = {}
    reached: dict[str, int] = {}
    explained = []
    try:
        for one in frames:
            video = one.place.video
            reached[video] = one.place.number
            if one.place.number == config.explain:
                tracker = follower.explained[video]
                explained.append(explain(one, tracker, known.get(video, []), names))
                if one.place.length is None or (len(config.source) <= 1 and config.detections is None):
                    break
            known[video] = sorted({*one.tracks.ids.tolist(), *one.lost.ids.tolist()} - {0})
    finally:
        frames.close()
    if not explained:
        seen = ", ".join(f"{video} has {counted(last, 'frame')}" for video, last in reached.items()) or "there is none"
        raise UserError(f"there is no frame {config.explain}: {seen}", fix="give the number of a frame, from 1")
    if config.json:
        print(json.dumps([one.to_dict() for one in explained], indent=1))
        return
    out.print("\n\n".join(one.text() for one in explained), soft_wrap=True)


def _nothing(faults: list[UserError]) -> UserError:
    if faults:
        return UserError(f"nothing could be read: {faults[0].what}", where=faults[0].where, fix=faults[0].fix)
    return UserError("there are no frames", fix="give a video, a folder of images, or detections of one")


def _summary(out: Console, files: TrackRun, times: StageTimes, seconds: float) -> None:
    listing = table("video", ">frames", ">boxes", ">identities", "by class")
    for row in files.summary():
        listing.add_row(*row)
    out.print(listing)
    for text in files.counted_shapes():
        out.print(text, soft_wrap=True)
    rates = ", ".join(f"{name} {rate:,.1f}" for name, rate in times.rates().items())
    out.print(f"frames per second: {rates}; together {files.count / max(seconds, 1e-9):,.1f}", soft_wrap=True)
    out.print(f"results: {files.folder}", soft_wrap=True)
