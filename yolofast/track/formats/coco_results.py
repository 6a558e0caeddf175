"""COCO results of videos: `[{"image_id": …, "category_id": …, "bbox": [x, y, w, h], "score": …}, …]`.

A COCO file with `images` says which frame of which video an image is. Without one, `street_7` is the eighth frame of
`street`, as `predict --save-coco` names frames, and numbers are those of the frames of one video.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, shorten
from yolofast.files.known_numbers import known_number
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.sequence import check_name, frames_allowed
from yolofast.track.formats.video_json import read_json

COCO_ENDING = ".json"
_NAMED = re.compile(r"(.*)_(\d{1,9})")
_NEEDED = '{"image_id": 1, "category_id": 0, "bbox": [x, y, w, h], "score": 0.9}'
_LAST_FRAME = 10_000_000


def read_coco_results(
    path: Path, *, images: Path | None = None, faults: list[Fault] | None = None, skip_bad: bool = False
) -> dict[str, dict[str, Any]]:
    """Of each video the columns frame, box, score and label, and its length if `images` says it."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise UserError("is not a list of COCO results", where=path, fix=f"write [{_NEEDED}, …]")
    frames = None if images is None else _frames(images)
    found: dict[str, list[tuple[int, list[float], float, int]]] = {}
    own: list[Fault] = []
    for number, row in enumerate(rows):
        place = _place(row, frames, path)
        if place is None or not _is_good(row):
            own.append(_fault(path, number, row, place is None))
            continue
        x, y, width, height = row["bbox"]
        box = [x, y, x + width, y + height]
        found.setdefault(place[0], []).append((place[1], box, float(row["score"]), row["category_id"]))
    if faults is not None:
        faults.extend(own)
    if not skip_bad:
        refuse_faults(own, str(path))
    lengths = {} if frames is None else _lengths(frames)
    budget, columns = frames_allowed(path), {}
    for video in {**found, **lengths}:
        columns[check_name(video, path)] = one = _columns(found.get(video, []), lengths.get(video))
        budget.spend(max(one["length"] or 0, int(one["frame"].max(initial=0))))
    return columns


def _columns(rows: list[tuple[int, list[float], float, int]], length: int | None) -> dict[str, Any]:
    """Numbers that do not begin at 1 are counted from the first, unless the length is known."""
    frame = np.array([row[0] for row in rows], np.int64)
    if length is None and len(frame) and frame.min() != 1:
        frame = frame - frame.min() + 1
    columns = {"box": [row[1] for row in rows], "score": [row[2] for row in rows], "label": [row[3] for row in rows]}
    return {"frame": frame, "length": length, **columns}


def _frames(path: Path) -> dict[Any, tuple[str, int]]:
    """Video and frame number of each image id."""
    content = read_json(path)
    rows = content.get("images") if isinstance(content, Mapping) else None
    if not isinstance(rows, list):
        raise UserError("has no images", where=path, fix="give the COCO file that the results belong to")
    videos = {
        one["id"]: Path(str(one.get("file_name", one.get("name", one["id"])))).stem
        for one in content.get("videos", [])
        if isinstance(one, Mapping) and "id" in one
    }
    frames: dict[Any, tuple[str, int]] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("id"), int | str):
            raise UserError(f"image {number} has no id", where=path, fix="give each image an id")
        frame = row.get("frame_id", row.get("frame_index", number + 1))
        if isinstance(frame, bool) or not isinstance(frame, int) or not 0 <= frame <= _LAST_FRAME:
            raise UserError(f"frame_id of image {row['id']} is {shorten(frame)}", where=path, fix="count from 1")
        video = videos.get(row.get("video_id"), str(row.get("video_id", path.stem)))
        frames[row["id"]] = (video, frame)
    from_zero = {video for video, number in frames.values() if number == 0}  # as some tools count
    return {id: (video, number + (video in from_zero)) for id, (video, number) in frames.items()}


def _lengths(frames: Mapping[Any, tuple[str, int]]) -> dict[str, int]:
    longest: dict[str, int] = {}
    for video, number in frames.values():
        longest[video] = max(longest.get(video, 0), number)
    return longest


def _place(row: Any, frames: Mapping[Any, tuple[str, int]] | None, path: Path) -> tuple[str, int] | None:
    """Video and frame of a result; None if it names none."""
    image = row.get("image_id") if isinstance(row, Mapping) else None
    if isinstance(image, bool) or not isinstance(image, int | str):
        return None
    if frames is not None:
        return frames.get(image)
    if isinstance(image, str):
        named = _NAMED.fullmatch(image)
        return None if named is None else (named[1], int(named[2]) + 1)
    return (path.stem, image) if 0 <= image <= _LAST_FRAME else None


def _is_good(row: Mapping[str, Any]) -> bool:
    box, score, label = row.get("bbox"), row.get("score"), row.get("category_id")
    numbers: list[Any] = [*box, score] if isinstance(box, list) and len(box) == 4 else [None]
    finite = all(known_number(one) is not None for one in numbers)
    whole = isinstance(label, int) and not isinstance(label, bool) and 0 <= label < 2**31
    return finite and whole and min(numbers[2:4]) >= 0


def _fault(path: Path, number: int, row: Any, is_place: bool) -> Fault:
    what = f"result {number}: {shorten(row)}"
    if is_place:
        fix = "name an image that the COCO file has, a frame's number, or video_7 for the eighth frame of a video"
        return Fault(kind=FaultKind.FRAME, where=str(path), what=f"{what} belongs to no frame", fix=fix)
    return Fault(kind=FaultKind.BAD_BOX, where=str(path), what=f"{what} cannot be used", fix=f"write {_NEEDED}")
