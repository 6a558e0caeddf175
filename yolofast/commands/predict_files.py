"""The files of `yolofast predict`: drawn images and videos, labels, crops, lists of detections."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2

from yolofast.config.predict import PredictConfig
from yolofast.evaluate.mosaic_picture import draw_boxes
from yolofast.evaluate.result_files import label_text, result_rows
from yolofast.files.atomic_file import write_one_of_many, write_output
from yolofast.files.yaml_file import read_yaml
from yolofast.media.frames import Frame
from yolofast.media.pictures import UniqueNames
from yolofast.media.video_writer import VideoWriters
from yolofast.pixels import Image
from yolofast.resources import find_resource
from yolofast.structures import Detections
from yolofast.track.formats.detections import ENDING, LEAST_SCORE, DetectionRecorder, write_detections
from yolofast.track.timeline import Timeline

_UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
"""COCO numbers its 80 classes from 1 to 90 and omits these."""


def category_ids(names: tuple[str, ...]) -> list[int]:
    """COCO's own numbers for COCO's own classes, else the numbers of the classes."""
    coco = read_yaml(find_resource("data/coco.yaml", "data")).values["names"]
    if list(names) == list(coco.values() if isinstance(coco, dict) else coco):
        return [number for number in range(1, 91) if number not in _UNUSED]
    return list(range(len(names)))


def image_id(stem: str) -> int | str:
    """The number an image is named by, as in COCO's data sets, else its name."""
    return int(stem) if stem.isdecimal() else stem


class PredictFiles:
    """The folder is made with the first image, so that a run without images leaves no folder."""

    def __init__(
        self, config: PredictConfig, names: tuple[str, ...], make_folder: Callable[[], Path], timeline: Timeline
    ) -> None:
        self._timeline = timeline
        self._recorders: dict[str, DetectionRecorder] = {}
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

    def add(self, frame: Frame, detections: Detections) -> tuple[Image, Detections]:
        """Writes the files that the settings name; returns the image with its boxes, and what is on it."""
        if self._config.save_detections:
            self._record(frame, detections)
            detections = detections[detections.scores > self._config.conf_thres][: self._config.max_det]
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
            self._rows += _plain_rows(frame, detections, self._names)
        if config.save_coco:
            self._coco += result_rows(detections, image_id(own), self._category_ids)
        return self._save_drawn(frame, stem, detections), detections

    def close(self) -> None:
        """Closes the videos and writes the lists."""
        self._videos.close()
        for name, recorder in self._recorders.items():
            write_detections(self.folder / "detections" / f"{name}{ENDING}", recorder.stored())
        if self._config.save_json and self.count:
            write_output(self.folder / "predictions.json", (json.dumps(self._rows, indent=1) + "\n").encode())
        if self._config.save_coco and self.count:
            write_output(self.folder / "coco_predictions.json", json.dumps(self._coco).encode())

    def _record(self, frame: Frame, detections: Detections) -> None:
        place = self._timeline.place(frame)
        if place.video not in self._recorders:
            self._recorders[place.video] = DetectionRecorder(place.video, place.frame_rate, self._names)
        height, width = frame.image.shape[:2]
        found = detections[detections.scores >= LEAST_SCORE]
        self._recorders[place.video].add(
            place.number, place.time, (width, height), found.boxes, found.scores, found.labels
        )

    def _save_drawn(self, frame: Frame, stem: str, detections: Detections) -> Image:
        if self._config.nosave and not self._config.view_img:
            return frame.image
        drawn = frame.image.copy()
        line_width = self._config.line_width or round(0.001 * sum(drawn.shape[:2])) + 1
        draw_boxes(drawn, detections, 1.0, self._names, scores=True, line_width=line_width)
        if self._config.nosave:
            return drawn
        if frame.video is None:
            write_one_of_many(self.folder / f"{stem}.jpg", _jpeg(drawn))
        else:
            self._videos.write(self.folder / f"{stem}.mp4", drawn, frame.video)
        return drawn

    def _save_crops(self, own: str, image: Image, detections: Detections) -> None:
        for number, (box, label) in enumerate(zip(detections.boxes.tolist(), detections.labels.tolist(), strict=True)):
            left, top, right, bottom = (round(value) for value in box)
            crop = image[top : max(bottom, top + 1), left : max(right, left + 1)]
            if crop.size:
                folder = self.folder / "crops" / self._names[label].replace("/", "_")
                write_one_of_many(folder / f"{own}_{number}.jpg", _jpeg(crop))


def _plain_rows(frame: Frame, detections: Detections, names: tuple[str, ...]) -> list[dict[str, Any]]:
    columns = (detections.boxes.tolist(), detections.scores.tolist(), detections.labels.tolist())
    place = {} if frame.video is None else {"frame": frame.number}
    return [
        {
            "file": frame.name,
            **place,
            "class": label,
            "name": names[label],
            "score": round(score, 5),
            "box": [round(value, 2) for value in box],
        }
        for box, score, label in zip(*columns, strict=True)
    ]


def _jpeg(image: Image) -> bytes:
    return cv2.imencode(".jpg", image)[1].tobytes()
