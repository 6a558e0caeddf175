"""`yolofast predict`: the detections in images, videos and streams, drawn, saved, and shown in a window."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

import cv2

from yolofast.commands.console import console
from yolofast.commands.predict_files import PredictFiles
from yolofast.config.flags import from_args
from yolofast.config.predict import PredictConfig
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.detect.networks import weights_of
from yolofast.errors import UserError
from yolofast.media.sources import frame_batches, images_of
from yolofast.pixels import Image
from yolofast.runs.folder import new_run_folder
from yolofast.track.formats.detections import LEAST_SCORE
from yolofast.track.timeline import Timeline
from yolofast.words import counted

_ESCAPE = 27
_MOST_STORED = 1000
"""Detections per image for `--save-detections`, unless `--max-det` is more."""


def run(args: argparse.Namespace) -> None:
    config, out = from_args(PredictConfig, args), console()
    faults: list[UserError] = []

    def on_fault(fault: UserError) -> None:
        faults.append(fault)
        out.print(f"warning: {fault}", soft_wrap=True)

    # The source is checked before anything is read or made.
    batches = frame_batches(config.source, config.batch_size, every=config.vid_stride, on_fault=on_fault)
    weights = weights_of(config.weights, partial(out.print, soft_wrap=True))
    detector = ImageDetector(
        weights, cfg=config.cfg or None, size=config.img_size, device=config.device,
        precision=config.precision, head_config=config.head_config or None,
    )  # fmt: skip
    timeline = Timeline(images_of(config.source) if config.save_detections else ())
    files = PredictFiles(
        config, detector.names, lambda: new_run_folder(config.project, config.name, config.exist_ok), timeline
    )
    stores = config.save_detections
    # More is found to be stored; the rest of the files gets what it would get without.
    chosen = DetectionFilter(
        conf=min(config.conf_thres, LEAST_SCORE) if stores else config.conf_thres, iou=config.iou_thres,
        classes=config.classes or None, agnostic=config.agnostic_nms,
        most=max(config.max_det, _MOST_STORED) if stores else config.max_det, augment=config.augment,
    )  # fmt: skip
    window = Window(out.print) if config.view_img else None
    try:
        for one in detector.detect_in(batches, chosen):
            drawn, shown = files.add(one.frame, one.detections)
            counts = Counter(detector.names[label] for label in shown.labels)
            listed = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
            out.print(f"{one.frame}: {listed}", soft_wrap=True)
            if window is not None and not window.show(one.frame.name, drawn):
                break
    finally:  # also when interrupted: results are complete, and videos can be played
        files.close()
    if not files.count and faults:
        raise UserError(f"nothing could be read: {faults[0].what}", where=faults[0].where, fix=faults[0].fix)
    if faults:
        out.print(f"{counted(len(faults), 'source')} could not be read to the end")
    out.print(f"results: {files.folder}", soft_wrap=True)


class Window:
    """`--view-img`: one window per source. Where none can be opened, one warning says so."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._why_not = say, why_no_window()
        if self._why_not:
            say(f"warning: --view-img shows nothing: {self._why_not}; results are saved as usual")

    def show(self, name: str, image: Image) -> bool:
        """False when the user ends it: `q` or Escape."""
        if self._why_not:
            return True
        try:
            cv2.imshow(name, image)
            return cv2.waitKey(1) & 0xFF not in (ord("q"), _ESCAPE)
        except cv2.error as error:
            self._why_not = error.err
            self._say(f"warning: --view-img shows nothing more: {error.err}")
            return True


def why_no_window() -> str:
    """Empty if there can be one."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform == "linux" and not has_screen:  # checked first, because OpenCV ends the process without one
        return "there is no display"
    try:
        cv2.namedWindow("yolofast")
        cv2.destroyWindow("yolofast")
    except cv2.error:
        return "this OpenCV cannot open windows: install opencv-python instead of opencv-python-headless"
    return ""
