"""`yolofast predict`: what a trained detector finds in pictures, films and streams, drawn and written down.

`--view-img`: pictures in a window, where there can be one.
"""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial

import cv2
from rich.console import Console

from yolofast.commands.console import console
from yolofast.commands.predict_files import PredictFiles
from yolofast.config.flags import from_args
from yolofast.config.predict import PredictConfig
from yolofast.detect.detector import DetectionFilter, PictureDetector
from yolofast.detect.networks import weights_of
from yolofast.errors import UserError
from yolofast.media.sources import frame_batches
from yolofast.pixels import Image
from yolofast.runs.folder import new_run_folder
from yolofast.structures import Detections

_ESCAPE = 27


class Window:
    """One window per film or folder. Where none can be opened this is said once, and nothing is shown."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._why_not = say, why_no_window()
        if self._why_not:
            say(f"warning: --view-img shows nothing: {self._why_not}; the pictures are saved as usual")

    def show(self, name: str, image: Image) -> bool:
        """False when the user has seen enough: `q` or Escape."""
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
    if sys.platform == "linux" and not has_screen:  # asked first, because OpenCV ends the process without one
        return "there is no display"
    try:
        cv2.namedWindow("yolofast")
        cv2.destroyWindow("yolofast")
    except cv2.error:
        return "this OpenCV was built without windows: install opencv-python instead of opencv-python-headless"
    return ""


def run(args: argparse.Namespace) -> None:
    config, out = from_args(PredictConfig, args), console()
    faults: list[UserError] = []

    def on_fault(fault: UserError) -> None:
        faults.append(fault)
        out.print(f"warning: {fault}", soft_wrap=True)

    # What the source means is found out before anything is read or made.
    batches = frame_batches(config.source, config.batch_size, every=config.vid_stride, on_fault=on_fault)
    weights = weights_of(config.weights, partial(out.print, soft_wrap=True))
    detector = PictureDetector(
        weights, cfg=config.cfg or None, size=config.img_size, device=config.device,
        precision=config.precision, head_config=config.head_config or None,
    )  # fmt: skip
    files = PredictFiles(config, detector.names, lambda: new_run_folder(config.project, config.name, config.exist_ok))
    window = Window(out.print) if config.view_img else None
    try:
        for seen in detector.look_at(batches, _wanted(config)):
            _tell(out, str(seen.frame), seen.detections, detector.names)
            drawn = files.add(seen.frame, seen.detections)
            if window is not None and not window.show(seen.frame.name, drawn):
                break
    finally:  # also when interrupted: what was seen is kept, and films can be played
        files.close()
    if not files.count and faults:
        raise UserError(f"nothing could be looked at: {faults[0].what}", where=faults[0].where, fix=faults[0].fix)
    if faults:
        out.print(f"{len(faults)} {'source' if len(faults) == 1 else 'sources'} could not be read to the end")
    out.print(f"results: {files.folder}", soft_wrap=True)


def _wanted(config: PredictConfig) -> DetectionFilter:
    return DetectionFilter(
        conf=config.conf_thres,
        iou=config.iou_thres,
        classes=config.classes or None,
        agnostic=config.agnostic_nms,
        most=config.max_det,
        augment=config.augment,
    )


def _tell(out: Console, name: str, detections: Detections, names: tuple[str, ...]) -> None:
    counts: dict[str, int] = {}
    for label in detections.labels:
        counts[names[label]] = counts.get(names[label], 0) + 1
    found = ", ".join(f"{count} {one}" for one, count in counts.items()) or "nothing"
    out.print(f"{name}: {found}", soft_wrap=True)
