"""Sequences written as JSON, as COCO with videos or as TAO.

Track ids are different in the whole file, as readers of such files expect: those of a sequence are kept where they are
free, and each annotation has its own as `instance_id`. Boxes without a class become class `object`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from yolofast.files.atomic_file import write_output
from yolofast.track.formats.mot_text import Kind
from yolofast.track.formats.sequence import UNKNOWN, Sequence

Style = Literal["coco-video", "tao"]
_NO_IMAGE = -1
"""What COCO's files say before the first and after the last image."""
_DECIMALS = 6


def write_video_json(path: str | Path, sequences: Mapping[str, Sequence], kind: Kind, style: Style) -> Path:
    names = _categories(sequences)
    nameless = next((label for label, name in names.items() if name == "object"), UNKNOWN)
    document: dict[str, list[dict[str, Any]]] = {
        "videos": [],
        "images": [],
        "annotations": [],
        "categories": [{"id": label, "name": name} for label, name in sorted(names.items())],
    }
    tracks: dict[int, dict[str, Any]] = {}
    taken = 0
    for video, sequence in enumerate(sequences.values(), 1):
        document["videos"].append(_video(video, sequence, style))
        images = _images(len(document["images"]), video, sequence, style)
        document["images"] += images.values()
        labels = np.where(sequence.label < 0, nameless, sequence.label)
        least = int(sequence.id.min()) if len(sequence) else taken + 1
        offset = max(0, taken + 1 - least)
        for annotation in _annotations(sequence, labels.tolist(), images, offset, kind):
            annotation |= {"id": len(document["annotations"]) + 1, "video_id": video}
            document["annotations"].append(annotation)
            track = annotation.get("track_id")
            if track is not None:
                about = {"id": track, "video_id": video, "category_id": annotation["category_id"]}
                taken = max(taken, track)
                tracks.setdefault(track, about)
    if style == "tao":
        document["tracks"] = list(tracks.values())
    return write_output(path, (json.dumps(document, allow_nan=False) + "\n").encode())


def _categories(sequences: Mapping[str, Sequence]) -> dict[int, str]:
    """Those that occur, and those that have names."""
    names = {label: name for one in sequences.values() for label, name in one.classes.items()}
    labels = {label for one in sequences.values() for label in np.unique(one.label).tolist()}
    names |= {label: f"class {label}" for label in labels if label >= 0 and label not in names}
    if any(label < 0 for label in labels) and "object" not in names.values():
        names[max(names, default=0) + 1] = "object"
    return names


def _video(number: int, sequence: Sequence, style: Style) -> dict[str, Any]:
    known = {"frame_rate": sequence.frame_rate, "width": sequence.width, "height": sequence.height}
    title = "name" if style == "tao" else "file_name"
    return {"id": number, title: sequence.name, **{key: value for key, value in known.items() if value is not None}}


def _images(before: int, video: int, sequence: Sequence, style: Style) -> dict[int, dict[str, Any]]:
    """By frame; frames that are known to have no image have none here."""
    frames = [
        (frame, sequence.files[frame - 1] if sequence.files else f"{sequence.name}/img1/{frame:06}.jpg")
        for frame in range(1, sequence.length + 1)
    ]
    there = [(frame, file) for frame, file in frames if file]
    size = {key: getattr(sequence, key) for key in ("width", "height") if getattr(sequence, key) is not None}
    images: dict[int, dict[str, Any]] = {}
    for place, (frame, file) in enumerate(there):
        number = before + place + 1
        image = {"id": number, "video_id": video, "file_name": file, **size}
        if style == "tao":
            image |= {"frame_index": frame - 1, "video": sequence.name}
        else:
            last = place == len(there) - 1
            image |= {
                "frame_id": frame,
                "prev_image_id": number - 1 if place else _NO_IMAGE,
                "next_image_id": _NO_IMAGE if last else number + 1,
            }
        images[frame] = image
    return images


def _annotations(
    sequence: Sequence, labels: list[int], images: Mapping[int, Mapping[str, Any]], offset: int, kind: Kind
) -> Iterator[dict[str, Any]]:
    corner, size = sequence.box[:, :2], sequence.box[:, 2:] - sequence.box[:, :2]
    boxes = np.hstack([corner, size]).round(_DECIMALS).tolist()
    columns = (sequence.frame, sequence.id, sequence.score, sequence.mark, sequence.visibility)
    rows = zip(*(column.tolist() for column in columns), labels, boxes, strict=True)
    for frame, identity, score, mark, visibility, label, box in rows:
        if frame not in images:
            continue
        found = {
            "image_id": images[frame]["id"],
            "category_id": label,
            "bbox": box,
            "area": round(box[2] * box[3], _DECIMALS),
            "iscrowd": 0,
        }
        if kind != "detections":
            found |= {"track_id": identity + offset, "instance_id": identity}
        found |= {"conf": int(mark), "visibility": visibility} if kind == "truth" else {"score": score}
        yield found
