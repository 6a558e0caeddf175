"""A COCO file with videos that is written as it grows, sequence by sequence: millions of boxes never wait in memory.

Images come first in the file, then annotations, which are collected in a file of their own until all images are known.
Image ids count from 0 in the order of the list file of the split, so results of `val --save-json` name the same images.
"""

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.files.atomic_file import name_beside, opened_new
from yolofast.track.nuscenes.boxes import CameraBoxes
from yolofast.track.nuscenes.tables import Images

_NO_IMAGE = -1
"""What COCO's files say before the first and after the last image."""
VISIBILITY = np.array((1.0, 0.2, 0.5, 0.7, 0.9))
"""The middle of each level's range, 0–40, 40–60, 60–80 and 80–100 %; 1 where it is not known."""


class CocoFile:
    def __init__(self, path: Path, names: Sequence[str]) -> None:
        categories = [{"id": number, "name": name} for number, name in enumerate(names, 1)]
        self._path, self._part = path, name_beside(path)
        self._file = path.open("w", encoding="utf-8", buffering=1 << 20)
        self._annotations = io.TextIOWrapper(opened_new(self._part), encoding="utf-8")
        self._file.write(f'{{"categories": {json.dumps(categories)},\n"images": [')
        self._videos: list[dict[str, Any]] = []
        self.images = self.boxes = self.tracks = 0

    def add(self, about: dict[str, Any], images: Images, found: CameraBoxes, instances: Sequence[str]) -> None:
        """`images` are those of the camera; `instances` the tokens of all."""
        video = len(self._videos) + 1
        self._videos.append({"id": video, **about})
        self._file.write(self._joined(self.images, _images(images, self.images, video)))
        boxes = _annotations(found, instances, self.boxes + 1, self.images - 1, video, self.tracks)
        self._annotations.write(self._joined(self.boxes, boxes))
        self.images += len(images.file)
        self.boxes += len(found.id)
        self.tracks += int(found.id.max(initial=0))

    def _joined(self, before: int, rows: list[str]) -> str:
        return "" if not rows else (",\n" if before else "\n") + ",\n".join(rows)

    def finish(self) -> None:
        self._annotations.close()
        self._file.write('\n],\n"annotations": [')
        with self._part.open(encoding="utf-8") as part:
            shutil.copyfileobj(part, self._file, 1 << 20)
        self._file.write(f'\n],\n"videos": {json.dumps(self._videos)}}}\n')
        self._part.unlink()

    def close(self) -> None:
        self._annotations.close()
        self._file.close()


def _images(images: Images, first: int, video: int) -> list[str]:
    last = first + len(images.file) - 1
    columns = zip(
        images.file.tolist(), images.token.tolist(), images.time.tolist(), images.is_key.tolist(),
        images.size.tolist(), strict=True,
    )  # fmt: skip
    return [
        f'{{"id": {first + place}, "video_id": {video}, "file_name": {json.dumps(file)}, "width": {size[0]}, '
        f'"height": {size[1]}, "frame_id": {place + 1}, "prev_image_id": {first + place - 1 if place else _NO_IMAGE}, '
        f'"next_image_id": {first + place + 1 if first + place < last else _NO_IMAGE}, "timestamp": {time}, '
        f'"is_key_frame": {"true" if is_key else "false"}, "token": {json.dumps(token)}}}'
        for place, (file, token, time, is_key, size) in enumerate(columns)
    ]


def _annotations(
    found: CameraBoxes, instances: Sequence[str], first: int, before: int, video: int, tracks: int
) -> list[str]:
    """`before` is added to frames for the ids of images, `tracks` to identities, which differ in the whole file."""
    boxes = found.boxes
    size = boxes.box[:, 2:] - boxes.box[:, :2]
    columns = (
        (found.frame + before), found.id, boxes.label + 1, boxes.box[:, :2].round(6), size.round(6),
        size.prod(axis=1).round(6), VISIBILITY[boxes.level], boxes.level, boxes.truncated.round(4),
        boxes.occluded.round(4), boxes.distance.round(2), boxes.instance,
    )  # fmt: skip
    return [
        f'{{"id": {first + place}, "image_id": {image}, "video_id": {video}, "category_id": {label}, '
        f'"bbox": [{x}, {y}, {width}, {height}], "area": {area}, "iscrowd": 0, "track_id": {tracks + id}, '
        f'"instance_id": {id}, "conf": 1, "visibility": {visibility}, "visibility_level": {level or "null"}, '
        f'"truncated": {truncated}, "occluded": {occluded}, "distance": {distance}, '
        f'"instance_token": {json.dumps(instances[instance])}}}'
        for place, (
            image, id, label, (x, y), (width, height), area, visibility, level, truncated, occluded, distance, instance
        ) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
    ]  # fmt: skip
