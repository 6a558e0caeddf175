"""`yolofast predict`: what a trained detector finds in pictures, drawn and written down."""

import argparse
import glob
import json
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolofast.commands.console import console
from yolofast.commands.latest_weights import weights_of
from yolofast.config.flags import from_args
from yolofast.config.predict import PredictConfig
from yolofast.dataset.listing import IMAGE_SUFFIXES
from yolofast.engine.detector import Detector, read_picture
from yolofast.engine.run_folder import new_run_folder
from yolofast.errors import UserError, shorten
from yolofast.evaluate.mosaic_picture import draw_boxes
from yolofast.pixels import Image
from yolofast.structures import Detections


def run(args: argparse.Namespace) -> None:
    config = from_args(PredictConfig, args)
    _refuse_unbuilt(config)
    pictures = pictures_of(config.source)
    detector = Detector(weights_of(config.weights), cfg=config.cfg or None, size=config.img_size, device=config.device)
    folder = new_run_folder(config.project, config.name, config.exist_ok)
    out, rows = console(), []
    for start in range(0, len(pictures), config.batch_size):
        some = pictures[start : start + config.batch_size]
        images = [read_picture(path) for path in some]
        found = detector.predict(
            images, conf=config.conf_thres, iou=config.iou_thres, classes=config.classes or None,
            agnostic=config.agnostic_nms, most=config.max_det,
        )  # fmt: skip
        for path, image, detections in zip(some, images, found, strict=True):
            out.print(f"{path}: {_summary(detections, detector.names)}", soft_wrap=True, markup=False)
            rows += _rows(path, detections, detector.names)
            _save(path, image, detections, detector.names, config, folder)
    if config.save_json:
        (folder / "predictions.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    out.print(f"results: {folder}", soft_wrap=True)


def _refuse_unbuilt(config: PredictConfig) -> None:
    asked = {"--augment": config.augment, "--view-img": config.view_img, "--save-coco": config.save_coco}
    for flag, is_asked in asked.items():
        if is_asked:
            raise UserError(f"{flag} is not built yet", fix="leave it away")


def pictures_of(source: str) -> list[Path]:
    """The pictures of a file, a folder, a glob, or (`-`) of names on standard input."""
    if not source:
        raise UserError("there is nothing to look at", fix="name a picture, a folder or a glob with --source")
    if source == "-":
        found = [Path(line.strip()) for line in sys.stdin if line.strip()]
    elif Path(source).is_dir():
        found = sorted(path for path in Path(source).iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    elif Path(source).is_file():
        found = [Path(source)]
    else:
        found = sorted(Path(name) for name in glob.glob(source, recursive=True))
    if not found:
        what = f"{shorten(source)} holds no picture"
        raise UserError(what, fix="name a picture, a folder or a glob; films and cameras are not built yet")
    return found


def _summary(detections: Detections, names: tuple[str, ...]) -> str:
    counts: dict[str, int] = {}
    for label in detections.labels:
        counts[names[label]] = counts.get(names[label], 0) + 1
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"


def _rows(path: Path, detections: Detections, names: tuple[str, ...]) -> list[dict[str, Any]]:
    columns = (detections.boxes.tolist(), detections.scores.tolist(), detections.labels.tolist())
    return [
        {
            "file": str(path),
            "class": label,
            "name": names[label],
            "score": round(score, 5),
            "box": [round(value, 2) for value in box],
        }
        for box, score, label in zip(*columns, strict=True)
    ]


def _save(
    path: Path, image: Image, detections: Detections, names: tuple[str, ...], config: PredictConfig, folder: Path
) -> None:
    if config.save_txt:
        (folder / "labels").mkdir(exist_ok=True)
        text = "".join(_label_rows(image, detections, config.save_conf))
        (folder / "labels" / f"{path.stem}.txt").write_text(text)
    if config.save_crop:
        _save_crops(path, image, detections, names, folder)
    if not config.nosave:
        drawn = image.copy()
        draw_boxes(drawn, detections, 1.0, names, scores=True)
        _write_picture(folder / path.with_suffix(".jpg").name, drawn)


def _label_rows(image: Image, detections: Detections, with_score: bool) -> list[str]:
    height, width = image.shape[:2]
    low, high = detections.boxes[:, :2], detections.boxes[:, 2:]
    size = np.array((width, height))
    columns = [detections.labels, *((low + high) / 2 / size).T, *((high - low) / size).T]
    columns += [detections.scores] if with_score else []
    return [
        " ".join([str(int(label)), *(f"{value:.6f}" for value in values)]) + "\n"
        for label, *values in zip(*columns, strict=True)
    ]


def _save_crops(path: Path, image: Image, detections: Detections, names: tuple[str, ...], folder: Path) -> None:
    for number, (box, label) in enumerate(zip(detections.boxes.tolist(), detections.labels.tolist(), strict=True)):
        left, top, right, bottom = (round(value) for value in box)
        crop = image[top : max(bottom, top + 1), left : max(right, left + 1)]
        target = folder / "crops" / names[label].replace("/", "_")
        target.mkdir(parents=True, exist_ok=True)
        if crop.size:
            _write_picture(target / f"{path.stem}_{number}.jpg", crop)


def _write_picture(path: Path, image: Image) -> None:
    path.write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
