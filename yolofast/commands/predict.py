"""`yolofast predict`: the detections in images, videos and streams, drawn, saved, and shown in a window."""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from yolofast.config.flags import from_args
from yolofast.config.predict import PredictConfig
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.detect.networks import weights_of
from yolofast.detect.results import crops, drawn, encoded, listed, plain_rows
from yolofast.evaluate.candidates import highest_score
from yolofast.evaluate.result_files import category_ids, image_id, label_text, result_rows
from yolofast.files.atomic_file import write_one_of_many, write_output
from yolofast.media.faults import Faults
from yolofast.media.frames import Frame
from yolofast.media.pictures import UniqueNames
from yolofast.media.sources import frame_batches, images_of
from yolofast.media.video_writer import VideoWriters
from yolofast.media.window import Window
from yolofast.pixels import Image
from yolofast.runs.folder import new_run_folder
from yolofast.structures import Detections
from yolofast.terminal.console import console
from yolofast.terminal.escaping import STEERING
from yolofast.track.storing import DetectionStore
from yolofast.track.timeline import FrameTimeline
from yolofast.words import counted

_WORTH_SHOWING = 0.001
"""A score below that is none."""
_LONGEST_FOLDER = 200
"""Bytes; file systems allow 255."""


def run(args: argparse.Namespace) -> None:
    config, out = from_args(PredictConfig, args), console()
    faults = Faults(partial(out.print, soft_wrap=True))
    # The source is checked before anything is read or made.
    batches = frame_batches(config.source, config.batch_size, every=config.vid_stride, on_fault=faults.add)
    weights = weights_of(config.weights, partial(out.print, soft_wrap=True))
    detector = ImageDetector(
        weights, cfg=config.cfg or None, size=config.img_size, device=config.device,
        precision=config.precision, head_config=config.head_config or None,
    )  # fmt: skip
    chosen = DetectionFilter(
        conf=config.conf_thres, iou=config.iou_thres, classes=config.classes or None, agnostic=config.agnostic_nms,
        most=config.max_det, augment=config.augment,
    )  # fmt: skip
    store = None
    if config.save_detections:
        store = DetectionStore(detector, chosen, FrameTimeline(images_of(config.source), every=config.vid_stride))
    make_folder = partial(new_run_folder, config.project, config.name, config.exist_ok)
    files = PredictFiles(config, detector.names, make_folder, store)
    window = Window(out.print) if config.view_img else None
    totals = _Totals(chosen.class_numbers(detector.names))
    if store is not None:
        seen = store.detect(batches, totals.look)
    else:
        ways = detector.detect_in_ways(batches, [chosen], totals.look)
        seen = ((frame, found) for frame, (found,) in ways)
    try:
        for frame, found in seen:
            faults.read()
            totals.add(found)
            picture = files.add(frame, found)
            out.print(f"{frame}: {listed(found, detector.names)}", soft_wrap=True)
            if window is not None and not window.show(frame.name, picture):
                break
    finally:  # also when interrupted: results are complete, and videos can be played
        seen.close()
        files.close()
    if not files.count and faults:
        raise faults.error()
    if faults:
        out.print(f"{counted(len(faults), 'source')} could not be read to the end")
    out.print(totals.in_words(config.conf_thres))
    out.print(f"results: {files.folder}", soft_wrap=True)


class _Totals:
    """What a run has seen in all, and while it has found nothing, how near it came."""

    def __init__(self, classes: list[int] | None) -> None:
        self._classes, self._started = classes, time.perf_counter()
        self._images = self._boxes = 0
        self._highest = 0.0

    def look(self, predictions: Tensor) -> None:
        if not self._boxes:  # of no interest afterwards
            self._highest = max(self._highest, highest_score(predictions, self._classes))

    def add(self, found: Detections) -> None:
        self._images += 1
        self._boxes += len(found)

    def in_words(self, conf: float) -> str:
        each = 1000 * (time.perf_counter() - self._started) / max(self._images, 1)
        boxes = "1 box" if self._boxes == 1 else f"{self._boxes:,} boxes"
        words = f"{counted(self._images, 'image')}, {boxes}, {each:.3g} ms each, reading and writing included"
        if self._boxes or not self._images:
            return words
        lower = f"; --conf {0.9 * self._highest:.2g} would show it" if self._highest >= _WORTH_SHOWING else ""
        return f"{words}\nnothing has a score above {conf:g}; the highest was {self._highest:.2g}{lower}"


class PredictFiles:
    """The folder is made with the first image, so that a run without images leaves no folder."""

    def __init__(
        self, config: PredictConfig, names: tuple[str, ...], make_folder: Callable[[], Path],
        store: DetectionStore | None,
    ) -> None:  # fmt: skip
        self._store = store
        self._config, self._names, self._make_folder = config, names, make_folder
        self._file_names, self._videos = UniqueNames(), VideoWriters()
        self._rows: list[dict[str, Any]] = []
        self._coco: list[dict[str, Any]] = []
        self._category_ids = category_ids(names)
        self._folder: Path | None = None
        self.count = 0

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = self._make_folder()
        return self._folder

    def add(self, frame: Frame, detections: Detections) -> Image:
        """Writes the files that the settings name; returns the image with its boxes."""
        config, stem = self._config, self._file_names.of(frame.name)
        own = stem if frame.video is None else f"{stem}_{frame.number}"
        height, width = frame.image.shape[:2]
        self.count += 1
        if config.save_txt:
            text = label_text(detections, width, height, scores=config.save_conf)
            write_one_of_many(self.folder / "labels" / f"{own}.txt", text.encode())
        if config.save_crop:
            self._save_crops(own, frame.image, detections)
        if config.save_json:
            place = {"file": frame.name} if frame.video is None else {"file": frame.name, "frame": frame.number}
            self._rows += [{**place, **row} for row in plain_rows(detections, self._names)]
        if config.save_coco:
            self._coco += result_rows(detections, image_id(own), self._category_ids)
        return self._save_drawn(frame, stem, detections)

    def close(self) -> None:
        """Closes the videos and writes the lists."""
        self._videos.close()
        if self._store is not None and self.count:
            self._store.write(self.folder / "detections")
        if self._config.save_json and self.count:
            write_output(self.folder / "predictions.json", (json.dumps(self._rows, indent=1) + "\n").encode())
        if self._config.save_coco and self.count:
            write_output(self.folder / "coco_predictions.json", json.dumps(self._coco).encode())

    def _save_drawn(self, frame: Frame, stem: str, detections: Detections) -> Image:
        if self._config.nosave and not self._config.view_img:
            return frame.image
        picture = drawn(frame.image, detections, self._names, self._config.line_width)
        if self._config.nosave:
            return picture
        if frame.video is None:
            write_one_of_many(self.folder / f"{stem}.jpg", encoded(picture, ".jpg"))
        else:
            self._videos.write(self.folder / f"{stem}.mp4", picture, frame.video)
        return picture

    def _save_crops(self, own: str, image: Image, detections: Detections) -> None:
        pairs = zip(crops(image, detections), detections.labels.tolist(), strict=True)
        for number, (crop, label) in enumerate(pairs):
            folder = self.folder / "crops" / folder_name(label, self._names)
            write_one_of_many(folder / f"{own}_{number}.jpg", encoded(crop, ".jpg"))


def folder_name(label: int, names: tuple[str, ...]) -> str:
    """The name of a class as that of a folder: in its place, and not longer than a disk allows."""
    plain = STEERING.sub("_", names[label]).replace("/", "_")
    short = plain.encode("utf-8", "replace")[:_LONGEST_FOLDER].decode("utf-8", "ignore")
    if plain in (".", ".."):
        return "_" * len(plain)
    return plain if short == plain else f"{short}_{label}"
