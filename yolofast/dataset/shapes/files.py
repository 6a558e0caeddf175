"""The files of the built-in data set: pictures, YOLO label files, COCO annotations and the data yaml.

A picture depends on the seed and its own number only. So any number of threads writes the same files, and a smaller
data set is the beginning of a larger one. Texts are written as bytes, so that lines end the same way on every system.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolofast.dataset.shapes.outline import NAMES
from yolofast.dataset.shapes.scene import DrawnScene, VisibleShape, draw_scene

VERSION = 2
"""Of the pictures: to be raised with any change that shows in them."""
HEADER = "# shapes, made by yolofast:"

# Far more than a data set has pictures, so that no picture is in two splits.
_FIRST_NUMBER = {"train": 0, "val": 2**32}
_JPEG_QUALITY = 90


def split_sizes(n: int) -> dict[str, int]:
    """Pictures per split: n to train on, a fifth as many (at least one) to validate."""
    return {"train": n, "val": max(n // 5, 1)}


def data_yaml_text(n: int, seed: int) -> str:
    """The first line says what was requested, so that a finished folder can be recognised by this file alone."""
    lines = [
        f"{HEADER} n {n}, seed {seed}, version {VERSION}",
        "path: .",
        "train: images/train",
        "val: images/val",
        f"nc: {len(NAMES)}",
        f"names: [{', '.join(NAMES)}]",
    ]
    return "\n".join(lines) + "\n"


def write_files(folder: Path, n: int, seed: int) -> None:
    """The whole data set, into an empty folder."""
    for split, count in split_sizes(n).items():
        _write_split(folder, split, count, seed)
    (folder / "data.yaml").write_bytes(data_yaml_text(n, seed).encode())


def is_complete(folder: Path, n: int, seed: int) -> bool:
    """Whether the folder holds this data set, none of its pictures missing or empty."""
    try:
        return (folder / "data.yaml").read_text("utf-8", "replace") == data_yaml_text(n, seed) and all(
            _pictures(folder / "images" / split) == count for split, count in split_sizes(n).items()
        )
    except OSError:
        return False


def is_shapes(folder: Path) -> bool:
    """Whether the folder was made by us, whatever was requested."""
    try:
        return (folder / "data.yaml").read_text("utf-8", "replace").startswith(HEADER)
    except OSError:
        return False


def scene(split: str, number: int, seed: int) -> DrawnScene:
    """Picture `number` of a split."""
    key = np.array([seed, _FIRST_NUMBER[split] + number], np.uint64)
    return draw_scene(np.random.Generator(np.random.Philox(key=key)))


def _write_split(folder: Path, split: str, count: int, seed: int) -> None:
    for kind in ("images", "labels"):
        (folder / kind / split).mkdir(parents=True)
    (folder / "annotations").mkdir(exist_ok=True)
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
    try:
        records = list(pool.map(partial(_write_picture, folder, split, seed), range(count)))
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupted run does not finish all pictures first
    text = json.dumps(_coco(records), separators=(",", ":"))
    (folder / "annotations" / f"instances_{split}.json").write_bytes(text.encode())


def _write_picture(folder: Path, split: str, seed: int, number: int) -> tuple[dict[str, Any], tuple[VisibleShape, ...]]:
    """Writes the picture and its labels; returns COCO's record of it, and its shapes."""
    drawn = scene(split, number, seed)
    height, width = drawn.image.shape[:2]
    name = f"{number:06d}"
    _, jpeg = cv2.imencode(".jpg", drawn.image, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
    (folder / "images" / split / f"{name}.jpg").write_bytes(jpeg.tobytes())
    rows = "".join(_label_row(shape, width, height) for shape in drawn.shapes)
    (folder / "labels" / split / f"{name}.txt").write_bytes(rows.encode())
    return {"id": number, "file_name": f"{name}.jpg", "width": width, "height": height}, drawn.shapes


def _label_row(shape: VisibleShape, width: int, height: int) -> str:
    left, top, box_width, box_height = shape.box
    centre = (left + box_width / 2) / width, (top + box_height / 2) / height
    numbers = (*centre, box_width / width, box_height / height)
    return f"{shape.label} {' '.join(f'{number:.6f}' for number in numbers)}\n"


def _coco(records: list[tuple[dict[str, Any], tuple[VisibleShape, ...]]]) -> dict[str, Any]:
    """Categories and images are numbered as in the YOLO files, from 0; annotations from 1, as COCO's tools need."""
    annotations = [
        {
            "image_id": image["id"],
            "category_id": shape.label,
            "bbox": shape.box,
            "area": shape.area,
            "segmentation": shape.polygons,
            "iscrowd": 0,
        }
        for image, shapes in records
        for shape in shapes
    ]
    return {
        "images": [image for image, _ in records],
        "annotations": [{"id": number, **annotation} for number, annotation in enumerate(annotations, 1)],
        "categories": [{"id": label, "name": name, "supercategory": "shape"} for label, name in enumerate(NAMES)],
    }


def _pictures(folder: Path) -> int:
    """How many are there and not empty."""
    with os.scandir(folder) as entries:
        return sum(entry.name.endswith(".jpg") and entry.stat().st_size > 0 for entry in entries)
