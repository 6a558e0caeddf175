"""Labelled images written as a data set that can be trained on: YOLO's label files, or COCO's JSON.

    data.yaml                     names, splits
    images/train/a.jpg            links to the images, or copies
    labels/train/a.txt            class cx cy w h, or class x1 y1 x2 y2 … in files with outlines (YOLO)
    annotations/train.json        boxes, outlines with all their parts, masks, crowds (COCO)

A text file has boxes or outlines, not both: where one object has an outline, the others become four corners. The parts
of an outline are laid end to end there, as when COCO is read.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from yolofast.dataset.formats.labelled import LabelledImage, LabelledObject
from yolofast.files.atomic_file import opened_new
from yolofast.files.threads import in_threads
from yolofast.files.yaml_file import dump_yaml

DATA_YAML = "data.yaml"
Place = Callable[[str, Path], None]
"""Puts an image file to its new place."""


def link_image(file: str, target: Path) -> None:
    """Copied where links are not allowed, as for most users of Windows."""
    try:
        target.symlink_to(file)
    except (OSError, NotImplementedError):
        copy_image(file, target)


def copy_image(file: str, target: Path) -> None:
    shutil.copyfile(file, target)


def move_image(file: str, target: Path) -> None:
    """For what was only unpacked to be read."""
    try:
        os.replace(file, target)
    except OSError:
        copy_image(file, target)


def write_data_set(
    folder: Path,
    images: Sequence[LabelledImage],
    names: Sequence[str],
    form: str,
    place: Place,
    about: str,
    coco_ids: dict[str, int] | None = None,
) -> None:
    """Everything below `folder`, which is empty. `form` is yolo or coco, `about` the first lines of the yaml."""
    splits: dict[str, list[LabelledImage]] = {}
    for image in images:
        splits.setdefault(image.split, []).append(image)
    ids = [coco_ids.get(name, -1) for name in names] if coco_ids else []
    has_ids = bool(ids) and min(ids) >= 0 and len(set(ids)) == len(ids)
    category = dict(zip(names, ids if has_ids else range(1, len(names) + 1), strict=True))
    label = {name: number for number, name in enumerate(names)}
    for split, own in splits.items():
        paths, target = new_names([image.called for image in own]), folder / "images" / split
        _make_folders(target, paths)
        pairs = [(image.file, target / path) for image, path in zip(own, paths, strict=True)]
        in_threads(lambda pair: place(*pair), pairs)
        if form == "coco":
            (folder / "annotations").mkdir(exist_ok=True)
            _write_coco(folder / "annotations" / f"{split}.json", own, paths, category)
        else:
            _write_labels(folder / "labels" / split, own, paths, label)
    ordered = [split for split in ("train", "val", "test") if split in splits]
    values: dict[str, Any] = {"path": ".", **{split: f"images/{split}" for split in ordered}, "names": list(names)}
    if form == "coco":
        values["annotations"] = {split: f"annotations/{split}.json" for split in ordered}
    elif has_ids:
        values["category_ids"] = ids
    text = about + dump_yaml(values, default_flow_style=None, width=120, allow_unicode=True)
    (folder / DATA_YAML).write_bytes(text.encode("utf-8", "surrogateescape"))


def new_names(files: Sequence[str]) -> list[str]:
    """Paths below the folder of a split: those below the folder that all have in common.

    No two have one stem, since their labels would be one file. A folder called `images` is omitted: the last of that
    name is where the labels' folder takes its place.
    """
    common = os.path.commonpath([os.path.dirname(file) for file in files]) if files else ""
    taken: set[str] = set()
    found = []
    for file in files:
        steps = [step for step in os.path.relpath(file, common).split(os.sep) if step != "images"]
        stem, suffix = os.path.splitext("/".join(steps))
        name, number = stem, 1
        while name.lower() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name.lower())
        found.append(name + suffix)
    return found


def _make_folders(folder: Path, paths: Sequence[str]) -> None:
    for below in dict.fromkeys(os.path.dirname(path) for path in paths):
        (folder / below).mkdir(parents=True, exist_ok=True)


def _write_labels(folder: Path, images: Sequence[LabelledImage], paths: Sequence[str], label: dict[str, int]) -> None:
    _make_folders(folder, paths)
    for image, path in zip(images, paths, strict=True):
        text = "".join(label_rows(image, label))
        (folder / f"{os.path.splitext(path)[0]}.txt").write_bytes(text.encode("ascii"))


def label_rows(image: LabelledImage, label: dict[str, int]) -> Iterator[str]:
    """Ten digits are a millionth of a pixel."""
    outlines = any(one.parts for one in image.objects)
    for one in image.objects:
        values = _corners(one) if outlines else _middle(one)
        sides = image.size
        shares = (value / sides[place % 2] for place, value in enumerate(values))
        yield f"{label[one.name]} {' '.join(f'{share:.10g}' for share in shares)}\n"


def _middle(one: LabelledObject) -> list[float]:
    left, top, right, bottom = one.box
    return [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]


def _corners(one: LabelledObject) -> list[float]:
    """At least four points: a file is known as one of outlines by a row of more than eight values."""
    left, top, right, bottom = one.box
    points = [value for part in one.parts for value in part] or [left, top, right, top, right, bottom, left, bottom]
    return points if len(points) >= 8 else [*points, *points[:2]]


def _write_coco(path: Path, images: Sequence[LabelledImage], paths: Sequence[str], category: dict[str, int]) -> None:
    """Entry by entry: the text of a large file takes less memory than its values."""
    with opened_new(path) as file:

        def write(text: str) -> None:
            file.write(text.encode())

        write('{"images": [\n')
        for number, (image, name) in enumerate(zip(images, paths, strict=True), 1):
            width, height = image.size
            entry = {"id": number, "file_name": name, "width": width, "height": height}
            write(f"{',' * (number > 1)}{json.dumps(entry)}\n")
        write('], "annotations": [\n')
        count = 0
        for number, image in enumerate(images, 1):
            for one in image.objects:
                count += 1
                entry = {"id": count, "image_id": number, "category_id": category[one.name], **_annotation(one)}
                write(f"{',' * (count > 1)}{json.dumps(entry)}\n")
        listed = [{"id": number, "name": name} for name, number in category.items()]
        write(f'], "categories": {json.dumps(listed, ensure_ascii=False)}}}\n')


def _annotation(one: LabelledObject) -> dict[str, Any]:
    left, top, right, bottom = one.box
    own = sum(map(_area, one.parts)) if one.parts else (right - left) * (bottom - top)
    return {
        "bbox": [round(value, 6) for value in (left, top, right - left, bottom - top)],
        "area": round(own if one.area is None else one.area, 6),
        "iscrowd": int("crowd" in one.marks),
        "segmentation": one.mask or [[round(value, 6) for value in part] for part in one.parts],
    }


def _area(points: Sequence[float]) -> float:
    """Of an outline, by its corners."""
    x, y = points[0::2], points[1::2]
    return abs(sum(x[i - 1] * y[i] - x[i] * y[i - 1] for i in range(len(x)))) / 2
