"""A YOLO data set's labels as arrays: data yaml -> images -> label files -> boxes.

The smallest reader that label statistics (`model.grouping`, `model.autoanchor`) need. It stops at the first fault,
naming file, line, value and fix: statistics of half-read labels would be silently wrong. A `download` entry is never
executed. Duplicate rows are kept.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yolofast.dataset.image_size import image_sizes
from yolofast.errors import UserError, nearest, shorten
from yolofast.yaml_file import YamlFile, read_yaml

IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"})
_BOX_COLUMNS = 5
_LONGEST_BOX_ROW = 8  # a file with a longer row holds polygons
_MAX_CLASSES = 100_000
_ONE = 1.0 + 2.0**-25  # what still rounds to 1 in single precision
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class LabelArrays:
    """Every image of a split and every box in them."""

    image_paths: tuple[Path, ...]
    image_index: npt.NDArray[np.int64]
    """[N] position of the box's image in `image_paths`."""
    class_id: npt.NDArray[np.int64]
    """[N]"""
    box: npt.NDArray[np.float32]
    """[N, 4] centre x, centre y, width, height, as fractions of the image."""
    nc: int
    names: tuple[str, ...]

    def box_wh_px(self) -> npt.NDArray[np.float64]:
        """[N, 2] width and height in pixels of the stored image; reads the headers of all images."""
        return self.box[:, 2:].astype(np.float64) * image_sizes(self.image_paths)[self.image_index]


def read_split(data_yaml: str | Path, split: str = "train") -> LabelArrays:
    """The labels of one split of a data yaml; an image without a label file is background."""
    data = read_yaml(Path(data_yaml))
    nc, names = _classes(data)
    image_paths = tuple(_split_images(data, split))
    rows, image_index = [], []
    labelled = 0
    for i, image in enumerate(image_paths):
        try:
            text = label_path(image).read_text(encoding="utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"not a readable text file: {error}", where=label_path(image)) from error
        labelled += 1
        boxes = parse_labels(text, nc, label_path(image))
        rows += boxes
        image_index += [i] * len(boxes)
    if not labelled:
        raise UserError(
            f"none of the {len(image_paths)} {split} images has a label file",
            where=data.where,
            line=data.line(split),
            fix=f"put the labels of {image_paths[0]} into {label_path(image_paths[0])}",
        )
    table = np.array(rows, dtype=np.float64).reshape(-1, _BOX_COLUMNS)
    return LabelArrays(
        image_paths=image_paths,
        image_index=np.array(image_index, dtype=np.int64),
        class_id=table[:, 0].astype(np.int64),
        box=table[:, 1:].astype(np.float32),
        nc=nc,
        names=names,
    )


def label_path(image: Path) -> Path:
    """The last folder `images` becomes `labels`, the suffix `.txt`; without such a folder labels lie beside images."""
    before, found, after = image.as_posix().rpartition("/images/")
    return Path(f"{before}/labels/{after}" if found else after).with_suffix(".txt")


def parse_labels(text: str, nc: int, where: str | Path | None = None) -> list[list[float]]:
    """Rows `class cx cy w h` of one label file; polygons (`class x1 y1 x2 y2 …`) become their bounding boxes."""
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    polygons = any(len(fields) > _LONGEST_BOX_ROW for _, fields in lines)
    boxes = []
    for number, fields in lines:
        _check_columns(len(fields), polygons, where, number)
        class_id, *coordinates = (_number(field, where, number) for field in fields)
        if not class_id.is_integer() or not 0 <= class_id < nc:
            raise UserError(
                f"class {fields[0][:40]} is not a whole number from 0 to {nc - 1}",
                where=where,
                line=number,
                fix="correct the label, or nc and names in the data yaml",
            )
        for field, value in zip(fields[1:], coordinates, strict=True):
            if not 0.0 <= value <= _ONE:
                fix = "divide x and width by the image's width, y and height by its height"
                raise UserError(f"{field[:40]} is outside 0 to 1", where=where, line=number, fix=fix)
        boxes.append([class_id, *(_bounding_box(coordinates) if polygons else coordinates)])
    return boxes


def _check_columns(count: int, polygons: bool, where: str | Path | None, line: int) -> None:
    if polygons and (count < 7 or count % 2 == 0):
        what = f"{count} values in a file of polygons (one of its rows has more than {_LONGEST_BOX_ROW})"
        fix = "write class x1 y1 x2 y2 x3 y3 … on every row: boxes and polygons do not mix in one file"
        raise UserError(what, where=where, line=line, fix=fix)
    if not polygons and count != _BOX_COLUMNS:
        raise UserError(f"{count} values instead of {_BOX_COLUMNS}", where=where, line=line, fix="class cx cy w h")


def _number(field: str, where: str | Path | None, line: int) -> float:
    try:
        return float(field)
    except ValueError:
        what = f"{shorten(field)} is not a number"
        raise UserError(what, where=where, line=line, fix="separate numbers by spaces, with . for decimals") from None


def _bounding_box(polygon: list[float]) -> tuple[float, float, float, float]:
    x, y = polygon[0::2], polygon[1::2]
    left, right, top, bottom = min(x), max(x), min(y), max(y)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def _classes(data: YamlFile) -> tuple[int, tuple[str, ...]]:
    nc, names = data.values.get("nc"), data.values.get("names")
    if nc is None and names is None:
        raise UserError("neither nc nor names is given", where=data.where, fix="names: [cat, dog]")
    if nc is not None and (not isinstance(nc, int) or isinstance(nc, bool) or not 1 <= nc <= _MAX_CLASSES):
        what = f"nc must be a whole number from 1 to {_MAX_CLASSES}, not {shorten(nc)}"
        raise UserError(what, where=data.where, line=data.line("nc"))
    texts = tuple(str(i) for i in range(nc or 0)) if names is None else _class_names(data, names)
    if nc is not None and nc != len(texts):
        what = f"nc is {nc} but names has {len(texts)} entries"
        raise UserError(what, where=data.where, line=data.line("names"), fix="make them agree, or remove nc")
    return len(texts), texts


def _class_names(data: YamlFile, names: Any) -> tuple[str, ...]:
    def fault(what: str, fix: str) -> UserError:
        return UserError(what, where=data.where, line=data.line("names"), fix=fix)

    if isinstance(names, dict):
        absent = [i for i in range(len(names)) if i not in names]
        if absent:
            raise fault(f"names has {len(names)} entries but none for class {absent[0]}", "number them from 0 on")
        names = [names[i] for i in range(len(names))]
    if not isinstance(names, list) or not names:
        raise fault(f"names must be a list or a mapping of class names, not {shorten(names)}", "names: [cat, dog]")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | float):
            raise fault(f"the class name {shorten(name)} is not text", "put it in quotes")
    return tuple(str(name) for name in names)


def _split_images(data: YamlFile, split: str) -> Iterator[Path]:
    entries = data.values.get(split)
    if entries is None:
        there = [name for name in _SPLITS if name in data.values]
        what = f"there is no split {split!r}{nearest(split, there)}"
        raise UserError(what, where=data.where, fix=f"add `{split}: images/{split}`")
    count = 0
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, str) or not entry or "\0" in entry:
            what = f"{split} must be a folder, a list file or a list of these, not {shorten(entry)}"
            raise UserError(what, where=data.where, line=data.line(split))
        path = _locate(entry, data, data.where, data.line(split))
        for image in _folder_images(path) if path.is_dir() else _listed_images(path, data):
            count += 1
            yield image
    if not count:
        raise UserError(
            f"the {split} split holds no image",
            where=data.where,
            line=data.line(split),
            fix=f"check the path; images end in {', '.join(sorted(IMAGE_SUFFIXES))}",
        )


def _folder_images(folder: Path) -> Iterator[Path]:
    """All images below `folder`, in one order on every machine."""
    for parent, subfolders, files in os.walk(folder):
        subfolders.sort()
        yield from (Path(parent, name) for name in sorted(files) if Path(name).suffix.lower() in IMAGE_SUFFIXES)


def _listed_images(list_file: Path, data: YamlFile) -> Iterator[Path]:
    try:
        lines = list_file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        what = f"not a list of images: {error}"
        raise UserError(what, where=list_file, fix="give a folder, or a text file of paths") from error
    for number, line in enumerate(lines, 1):
        if not (entry := line.strip()):
            continue
        if Path(entry).suffix.lower() not in IMAGE_SUFFIXES:
            raise UserError(f"{shorten(entry)} is not an image file name", where=list_file, line=number)
        if entry.startswith("./"):
            image = list_file.parent / entry
            if not image.is_file():
                raise UserError(f"no such image: {image}", where=list_file, line=number)
            yield image
        else:
            yield _locate(entry, data, list_file, number)


def _locate(entry: str, data: YamlFile, where: str | Path | None, line: int | None) -> Path:
    """The file or folder an entry means: below the yaml's `path` if given, else below the current folder or the yaml's.

    A relative `path` is tried from the yaml's folder first, which is where `path: .` points, then from the current one.
    """
    yaml_folder = Path(data.where or ".").absolute().parent
    root = data.values.get("path")
    if root is not None and not isinstance(root, str):
        raise UserError(f"path must be a folder, not {shorten(root)}", where=data.where, line=data.line("path"))
    roots = [Path.cwd(), yaml_folder] if root is None else [yaml_folder / root, Path.cwd() / root]
    places = list(dict.fromkeys(Path(os.path.normpath(folder / entry)) for folder in roots))
    for place in places:
        try:
            if place.exists():
                return place
        except (OSError, ValueError):  # a name too long, or with a null byte, is no file either
            continue
    tried = " or ".join(shorten(str(place)) for place in places)
    fix = "check the entry, and `path` in the data yaml"
    raise UserError(f"no such file or folder: {shorten(entry)} (tried {tried})", where=where, line=line, fix=fix)
