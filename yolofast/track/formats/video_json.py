"""Sequences in JSON: COCO with videos, as trackers are trained with, and TAO, which has a table of tracks too.

    videos       id, name or file_name
    images       id, video_id, file_name, and frame_id from 1 (COCO) or frame_index from 0 (TAO)
    annotations  image_id, track_id, category_id, bbox [x, y, w, h], and conf (the mark) or score
    tracks       id, category_id (TAO)

Results may be a list of annotations alone; their images are then those of the truth. Frames without an image are frames
in which nothing was looked for: TAO annotates one in thirty.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.dataset.coco_document import BadEntryError, pixel_box
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, nearest_file, shorten
from yolofast.files.budget import open_regular
from yolofast.files.known_numbers import as_id, known_number
from yolofast.track.formats.faults import refuse_faults
from yolofast.track.formats.mot import SeqInfo, sequence_of
from yolofast.track.formats.mot_text import Kind, check_rows
from yolofast.track.formats.sequence import MOST_FRAMES, UNKNOWN, Sequence, check_name, frames_allowed

_SHOULD = "give a file with videos, images, annotations and categories"
_COLUMNS = 9
_LONGEST = 10**9
"""Pixels."""


@dataclass
class _Video:
    name: str
    about: Mapping[str, Any]
    images: dict[int, str] = field(default_factory=dict)
    """File by frame."""
    size: tuple[int | None, int | None] = (None, None)
    rows: list[list[float]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Places of the rows among the annotations."""


@dataclass
class _Document:
    path: Path
    videos: dict[int, _Video]
    place: dict[int, tuple[int, int]]
    """Video and frame by image."""
    classes: dict[int, str]
    class_of_track: dict[int, int]


def read_video_json(
    path: str | Path,
    kind: Kind,
    *,
    images_of: str | Path | None = None,
    faults: list[Fault] | None = None,
    skip_bad: bool = False,
) -> dict[str, Sequence]:
    """By name of the video. `images_of` is the file that has videos and images, for results that are a list alone."""
    path = Path(path)
    content = read_json(path)
    if isinstance(content, list):
        if images_of is None:
            raise UserError("is a list of annotations without images", where=path, fix=f"{_SHOULD}, or its truth")
        document = _read_tables(read_json(Path(images_of)), Path(images_of))
        annotations = content
    else:
        document = _read_tables(content, path)
        annotations = _table(content, "annotations", path)
    found = _collect(document, annotations, kind, str(path))
    sequences = {}
    budget = frames_allowed(path)
    for video in document.videos.values():
        budget.spend(max(video.images, default=0))
        sequences[video.name] = _sequence(video, document, kind, str(path), found)
    if faults is not None:
        faults.extend(found)
    if not skip_bad:
        refuse_faults(found, str(path))
    return dict(sorted(sequences.items()))


def is_video_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def is_document(path: Path) -> bool:
    """Whether it is an object of images and annotations, not a list of results alone."""
    try:
        with open_regular(path) as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def has_tracks(path: Path) -> bool:
    """Whether it is TAO's."""
    content = read_json(path)
    return isinstance(content, dict) and isinstance(content.get("tracks"), list)


def read_json(path: Path) -> Any:
    """Raises `UserError` for what is not there, or not JSON."""
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except FileNotFoundError:
        raise UserError(f"does not exist{nearest_file(path)}", where=path, fix="give the file's path") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix="give a file that can be read") from None
    except json.JSONDecodeError as error:
        what = f"is not valid JSON: {error.msg}; it may have been cut off"
        raise UserError(what, where=path, line=error.lineno, fix="export it again") from None
    except (ValueError, RecursionError) as error:  # other bytes than text, or a number of thousands of digits
        raise UserError(f"is not valid JSON: {error}", where=path, fix="export it again") from None


def _table(content: Any, name: str, path: Path, *, needed: bool = True) -> list[dict[str, Any]]:
    value = content.get(name) if isinstance(content, dict) else None
    if value is None and not needed:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UserError(f"{name} is missing or not a list of objects", where=path, fix=_SHOULD)
    return value


def _id(entry: Mapping[str, Any], key: str, table: str, number: int, path: Path) -> int:
    found = as_id(entry.get(key))
    if found is None:
        what = f"{table}[{number}] has the {key} {shorten(entry.get(key))}"
        raise UserError(what, where=path, fix="correct the entry, or export the file again")
    return found


def _read_tables(content: Any, path: Path) -> _Document:
    videos: dict[int, _Video] = {}
    names: set[str] = set()
    for number, entry in enumerate(_table(content, "videos", path)):
        key = _id(entry, "id", "videos", number, path)
        name = str(entry.get("name") or entry.get("file_name") or key)
        check_name(name, path)
        if key in videos or name in names:
            what = f"videos[{number}] is there already: {name}"
            raise UserError(what, where=path, fix="name each video once")
        videos[key] = _Video(name, entry)
        names.add(name)
    categories = enumerate(_table(content, "categories", path, needed=False))
    classes = {_id(entry, "id", "categories", i, path): str(entry.get("name", entry["id"])) for i, entry in categories}
    tracks = enumerate(_table(content, "tracks", path, needed=False))
    class_of_track = {
        _id(entry, "id", "tracks", i, path): _id(entry, "category_id", "tracks", i, path) for i, entry in tracks
    }
    return _Document(path, videos, _places(_table(content, "images", path), videos, path), classes, class_of_track)


def _places(images: list[dict[str, Any]], videos: dict[int, _Video], path: Path) -> dict[int, tuple[int, int]]:
    """Also fills in the images of the videos."""
    first = 0 if any(as_id(image.get("frame_id")) == 0 for image in images) else 1
    places: dict[int, tuple[int, int]] = {}
    for number, image in enumerate(images):
        key, video = (_id(image, name, "images", number, path) for name in ("id", "video_id"))
        if video not in videos:
            raise UserError(f"images[{number}] is of video {video}, which is not there", where=path, fix=_SHOULD)
        if "frame_id" in image:
            frame = _id(image, "frame_id", "images", number, path) + 1 - first
        else:
            frame = _id(image, "frame_index", "images", number, path) + 1
        if not 1 <= frame <= MOST_FRAMES or key in places or frame in videos[video].images:
            what = f"images[{number}]: frame {frame} of {videos[video].name} is there already, or not from 1"
            raise UserError(what, where=path, fix="give each image an id and a frame of its own")
        places[key] = video, frame
        videos[video].images[frame] = str(image.get("file_name") or image.get("filename") or "")
        sides = image.get("width"), image.get("height")
        if all(type(side) is int and 0 < side <= _LONGEST for side in sides):
            videos[video].size = sides
    return places


def _collect(document: _Document, annotations: list[Any], kind: Kind, where: str) -> list[Fault]:
    """Rows of the videos, as those of a MOT file; what cannot be one is a fault."""
    faults = []
    for number, entry in enumerate(annotations):
        try:
            video, row = _row(document, entry, kind)
        except BadEntryError as error:
            what, fix = f"annotation {number}: {error}", "correct the annotation, or remove it"
            faults.append(Fault(kind=FaultKind.BAD_ANNOTATION, where=where, what=what, fix=fix))
            continue
        document.videos[video].rows.append(row)
        document.videos[video].numbers.append(number)
    return faults


def _row(document: _Document, entry: Any, kind: Kind) -> tuple[int, list[float]]:
    if not isinstance(entry, dict):
        raise BadEntryError(f"is {shorten(entry)}, not an object")
    image = as_id(entry.get("image_id"))
    if image is None or image not in document.place:
        raise BadEntryError(f"image_id {shorten(entry.get('image_id'))} is not among the images")
    identity = as_id(entry.get("instance_id", entry.get("track_id")))
    if identity is None and kind != "detections":
        raise BadEntryError(f"track_id is {shorten(entry.get('track_id'))}")
    track = as_id(entry.get("track_id"))
    given = entry.get("category_id", document.class_of_track.get(track) if track is not None else None)
    label = as_id(given)
    video, frame = document.place[image]
    value = entry.get("conf", 1.0) if kind == "truth" else entry.get("score", entry.get("conf", 1.0))
    visibility = entry.get("visibility", 1.0)
    if not all(isinstance(one, bool) or known_number(one) is not None for one in (value, visibility)):
        raise BadEntryError(f"score or visibility is {shorten(value)}, {shorten(visibility)}")
    row = [frame, UNKNOWN if identity is None else identity, *pixel_box(entry), value,
           UNKNOWN if label is None else label, visibility]  # fmt: skip
    return video, row


def _sequence(video: _Video, document: _Document, kind: Kind, where: str, faults: list[Fault]) -> Sequence:
    length = max(video.images, default=0)
    rows = np.array(video.rows, np.float64).reshape(-1, _COLUMNS)
    found = check_rows(rows, where, kind, length, numbers=video.numbers, unit="annotation")
    faults.extend(
        fault for fault in found.faults if fault.kind is not FaultKind.FRAME_ORDER
    )  # order means nothing here
    rate = known_number(video.about.get("frame_rate", video.about.get("fps")))
    given = (video.about.get("width"), video.about.get("height"))
    sides = [
        one if type(one) is int and 0 < one <= _LONGEST else own for one, own in zip(given, video.size, strict=True)
    ]
    info = SeqInfo(
        length=length,
        frame_rate=rate if rate is not None and rate > 0 else None,
        width=sides[0],
        height=sides[1],
    )
    files = tuple(video.images.get(frame, "") for frame in range(1, length + 1))
    return sequence_of(video.name, found, kind, info, files=files, classes=document.classes)
