"""A COCO annotation file: where it and its images are by convention, and its content as checked, typed values.

An entry that cannot be used is a fault that names it. A file that is not of this form at all is refused at once.
"""

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, shorten
from yolofast.files.budget import is_whole_text, open_regular
from yolofast.files.known_numbers import LONGEST_SIDE, as_id, stated_size

_TRIED_NAMES = 20
_HEAD, _BEFORE_JSON = 2**16, b" \t\r\n\xef\xbb\xbf"
"""What begins otherwise is no JSON, however long it is."""


@dataclass(frozen=True)
class CocoImage:
    id: int
    file_name: str
    size: tuple[int, int] | None
    """Width and height the boxes refer to, if the file says so."""
    video: int | None = None
    """The one it is a frame of, if the file says so."""


@dataclass(frozen=True)
class CocoDocument:
    images: list[CocoImage]
    categories: dict[int, str]
    """Id -> name, sorted by id."""
    annotations: list[dict[str, Any]]
    roots: frozenset[int] = frozenset()
    """Categories that say they are above the others: their supercategory is none."""


class BadEntryError(ValueError):
    """An annotation that cannot be used; the text says why."""


def open_coco(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD)
            return head + file.read() if head.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[", b"") else head
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix="check the path") from None


def load_json(path: Path) -> Any:
    """Raises `UserError` for what cannot be read, or is not JSON."""
    return _parsed(open_coco(path), path)


def _parsed(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        fix = "export it again"
        raise UserError(f"is not valid JSON: {error.msg}", where=path, line=error.lineno, fix=fix) from None
    except (ValueError, RecursionError) as error:  # other bytes than text, or a number of thousands of digits
        raise UserError(f"is not valid JSON: {error}", where=path, fix="export it again") from None


def parse_coco(content: bytes, path: Path) -> CocoDocument:
    return checked_coco(_parsed(content, path), path)


def checked_coco(document: Any, path: Path) -> CocoDocument:
    """Raises `UserError` for JSON that is not of this form."""
    if not isinstance(document, dict):
        raise UserError("is not a COCO annotation file", where=path, fix="it needs images, annotations and categories")
    images = [_image(entry, i, path) for i, entry in enumerate(_section(document, "images", path))]
    named = _section(document, "categories", path)
    categories = [_category(entry, i, path) for i, entry in enumerate(named)]
    above = (id_ for (id_, _), entry in zip(categories, named, strict=True) if entry.get("supercategory") == "none")
    annotations = _section(document, "annotations", path) if "annotations" in document else []
    _require_different_ids("images", [image.id for image in images], path)
    _require_different_ids("categories", [category for category, _ in categories], path)
    for i, annotation in enumerate(annotations):
        if not isinstance(annotation, dict):
            raise _refusal("annotations", i, f"is {shorten(annotation)}, not an object", path)
    return CocoDocument(images, dict(sorted(categories)), annotations, frozenset(above))


def _section(document: dict[str, Any], name: str, path: Path) -> list[Any]:
    value = document.get(name)
    if not isinstance(value, list):
        what = f"{name} is missing or not a list" if value is None else f"{name} is not a list"
        raise UserError(f"is not a COCO annotation file: {what}", where=path, fix="export it again as COCO detection")
    return value


def _image(entry: Any, number: int, path: Path) -> CocoImage:
    image = as_id(entry.get("id")) if isinstance(entry, dict) else None
    if image is None:
        raise _refusal("images", number, "has no id that is a whole number", path)
    name = entry.get("file_name")
    if not isinstance(name, str) or not name or "\0" in name or not is_whole_text(name):
        raise _refusal("images", number, "has no file_name", path)
    return CocoImage(image, name, stated_size(entry), as_id(entry.get("video_id")))


def _category(entry: Any, number: int, path: Path) -> tuple[int, str]:
    category = as_id(entry.get("id")) if isinstance(entry, dict) else None
    if category is None:
        raise _refusal("categories", number, "has no id that is a whole number", path)
    name = str(entry.get("name", category))
    if not is_whole_text(name):
        raise _refusal("categories", number, f"has a name that is no text: {shorten(name)}", path)
    return category, name


def _require_different_ids(section: str, ids: Sequence[int], path: Path) -> None:
    known: set[int] = set()
    for number, one in enumerate(ids):
        if one in known:
            raise _refusal(section, number, f"has the id {one}, which another entry has too", path)
        known.add(one)


def _refusal(section: str, number: int, what: str, path: Path) -> UserError:
    return UserError(f"{section}[{number}] {what}", where=path, fix="correct the entry, or export the file again")


def pixel_box(annotation: dict[str, Any]) -> tuple[float, float, float, float]:
    """x, y, width, height in pixels, finite and not negative in size."""
    box = annotation.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(_is_number(value) for value in box):
        raise BadEntryError(f"bbox is {shorten(box)}, not [x, y, width, height]")
    if box[2] < 0 or box[3] < 0:
        raise BadEntryError(f"bbox {shorten(box)} has a negative size")
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def polygon_points(annotation: dict[str, Any]) -> list[float]:
    """x1, y1, x2, y2, … of the outline; [] if there is none, or a run-length mask, which has no outline.

    The parts of an object that something else cuts in two are laid end to end: a box around the points then still holds
    all of it, which the largest part alone would not.
    """
    return [value for part in polygon_parts(annotation) for value in part]


def polygon_parts(annotation: dict[str, Any]) -> list[list[float]]:
    """The same, part by part."""
    parts = annotation.get("segmentation")
    if not isinstance(parts, list):
        return []
    whole = [part for part in parts if isinstance(part, list) and len(part) >= 6 and len(part) % 2 == 0]
    if not all(_is_number(value) for part in whole for value in part):
        raise BadEntryError("segmentation holds something that is not a number")
    return whole


def as_number(value: Any) -> float | None:
    """In pixels; None for anything that is no number, or none that pixels have."""
    return float(value) if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LONGEST_SIDE


def conventional_annotations(sources: Sequence[Path], split: str) -> Path | None:
    """The annotation file in its usual place relative to the folder or list file that names the images.

    For `images/val2017`: `images/val2017/_annotations.coco.json`, then one or two folders up `annotations/` or that
    folder itself, with `instances_val2017.json`, `val2017.json`, or the split's name in place of the folder's.
    """
    if len(sources) != 1:
        return None
    source = sources[0]
    names = dict.fromkeys((source.name if source.is_dir() else source.stem, split))
    folders = [root / below for root in (source.parent, source.parent.parent) for below in ("annotations", ".")]
    usual = [folder / f"{start}{name}.json" for folder in folders for name in names for start in ("instances_", "")]
    return next((path for path in (source / "_annotations.coco.json", *usual) if path.is_file()), None)


def image_folder(annotations: Path, file_names: Sequence[str]) -> Path:
    """The folder below which most of these images are, when only the annotation file was named.

    For `x/annotations/instances_val2017.json`: `x/annotations` and `x`, and below each `images`, `val2017` and
    `images/val2017`.
    """
    name = annotations.stem.removeprefix("instances_").removeprefix("image_info_")
    roots = (annotations.parent, annotations.parent.parent)
    folders = [root / below for root in roots for below in (".", "images", name, f"images/{name}")]
    tried = file_names[:_TRIED_NAMES]
    return max(folders, key=lambda folder: sum((folder / name).is_file() for name in tried))


def match_images(file_names: Sequence[str], images: Sequence[str]) -> list[str | None]:
    """The listed image each file name means: the one whose path ends in it, else the only one of the same last part."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for image in dict.fromkeys(images):
        by_name[os.path.basename(image)].append(image)
    return [_match(name.replace("\\", "/"), by_name) for name in file_names]


def _match(file_name: str, by_name: dict[str, list[str]]) -> str | None:
    same = by_name.get(os.path.basename(file_name), [])
    exact = [image for image in same if image.endswith(f"/{file_name.removeprefix('./')}")]
    if len(exact) == 1:
        return exact[0]
    return same[0] if len(same) == 1 else None
