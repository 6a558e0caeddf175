"""YOLO's own form, however it is described: by a data yaml, by Darknet's `obj.data` (CVAT), or only by its folders.

A data yaml may name COCO files for some of its splits; they are read too, so that any data set that can be trained on
can be converted, divided anew or repaired. Without a yaml, classes are in `classes.txt` or `obj.names`, and an image
without a label file shows nothing.
"""

import os
import re
from pathlib import Path

from yolofast.dataset.coco_document import conventional_annotations, open_coco, parse_coco
from yolofast.dataset.coco_labels import locate_images, match_classes
from yolofast.dataset.data_yaml import DataYaml, label_path, read_data_yaml
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.coco import add_document
from yolofast.dataset.formats.labelled import SHARES, Labelled, LabelledImage, LabelledObject
from yolofast.dataset.formats.places import ImagePlaces, files_ending, root_of, split_of, split_word
from yolofast.dataset.formats.recognise import Evidence
from yolofast.dataset.index_cache import ImageRows
from yolofast.dataset.listing import Listing, list_split
from yolofast.dataset.yolo_labels import NO_LABEL_FILE, parse_labels, read_label
from yolofast.errors import UserError
from yolofast.files.threads import in_threads
from yolofast.files.yaml_file import read_yaml

_LISTS = ("train", "val", "valid", "test")
_NAME_FILES = ("obj.names", "classes.txt", "_darknet.labels")
_ROW = re.compile(r"\d+(\.0*)?(\s+-?[0-9.]+(e-?\d+)?){4,}\s*", re.IGNORECASE)


def recognise(evidence: Evidence) -> str | None:
    if named := evidence.data_yamls():
        return named[0]
    if evidence.called("obj.data"):
        return "obj.data of Darknet"
    if evidence.place.suffix == ".data":
        return evidence.place.name if re.search(r"^\s*names\s*=", evidence.head(evidence.names[0]), re.M) else None
    files = [name for name in evidence.ending(".txt") if os.path.basename(name) not in _NAME_FILES]
    named = [name for name in files if "label" in name.lower()][:5] or files[:5]
    if any(rows and all(map(_ROW.fullmatch, rows[:3])) for rows in map(evidence.rows, named)):
        return evidence.counted(files, "label file")
    return None


def read(place: Path, images: ImagePlaces, found: Labelled) -> None:
    if (path := _yaml_of(place)) is not None:
        read_data_set(path, found)
    else:
        _read_folder(place, images, found)


def _yaml_of(place: Path) -> Path | None:
    """The file itself, or the only one in the folder that names splits."""
    if place.suffix.lower() in (".yaml", ".yml"):
        return place
    candidates = [] if place.is_file() else sorted((*place.glob("*.yaml"), *place.glob("*.yml")))
    if len(candidates) > 1 and place / "data.yaml" in candidates:
        return place / "data.yaml"
    return next((path for path in candidates if "train" in read_yaml(path).values), None)


def read_data_set(path: Path, found: Labelled) -> None:
    """All splits that a data yaml names; one that is not there is a fault."""
    data = read_data_yaml(path)
    if not data.splits():
        raise UserError("names no split", where=data.path, fix="add `train: images/train` and `val: images/val`")
    for split in data.splits():
        try:
            _read_split(data, split, found)
        except UserError as error:
            if error.where == str(data.path) and error.line is None:
                raise
            where, fix = error.where or str(data.path), error.fix or "check the entry in the data yaml"
            kind, fatal = FaultKind.EMPTY_SPLIT, split != "test"
            found.note(kind, where, error.what, fix, line=error.line, fatal=fatal)
    found.remarks += data.remarks()
    if not found.names and data.nc is not None:
        found.names += data.classes()
    if data.category_ids is not None:
        found.coco_ids = dict(zip(data.classes(), data.category_ids, strict=True))


def _read_split(data: DataYaml, split: str, found: Labelled) -> None:
    entries = data.entries(split)
    if len(entries) == 1 and entries[0].lower().endswith(".json"):
        _read_coco(data, split, data.require(entries[0], split), None, found)
        return
    listing = list_split(data, split)
    found.faults += listing.faults
    stated = data.annotations(split)
    if stated is not None:
        _read_coco(data, split, data.require(stated, "annotations"), listing, found)
        return
    has_labels = any(os.path.isfile(label_path(image)) for image in listing.images)
    if not has_labels and (usual := conventional_annotations(listing.sources, split)) is not None:
        _read_coco(data, split, usual, listing, found)
        return
    _add_images(list(dict.fromkeys(listing.images)), [split] * len(listing.images), list(data.classes()), found)


def _read_coco(data: DataYaml, split: str, path: Path, listing: Listing | None, found: Labelled) -> None:
    document = parse_coco(open_coco(path), path)
    class_of, classes = match_classes(document, data, path)
    names = {category: classes.names[place] for category, place in class_of.items()}
    add_document(document, str(path), split, names, locate_images(document, path, listing), found)
    found.names = list(dict.fromkeys([*found.names, *classes.names]))
    for name, category in zip(classes.names, classes.category_ids.tolist(), strict=True):
        found.coco_ids.setdefault(name, category)


def _add_images(images: list[str], splits: list[str], names: list[str] | None, found: Labelled) -> None:
    """`names` None: classes are called by their numbers."""
    nc = None if names is None else len(names)
    for split, (rows, stated) in zip(splits, in_threads(lambda image: _read_image(image, nc), images), strict=True):
        one = LabelledImage(rows.image, rows.where, SHARES, split=split)
        found.faults += rows.all_faults()
        if stated:
            for label, (cx, cy, w, h), polygon, (line, _) in zip(
                rows.labels, rows.boxes, rows.polygons, rows.places, strict=True
            ):
                name = str(label) if names is None else names[label]
                box = cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2
                one.objects.append(LabelledObject(name, box, [polygon] if polygon else [], line))
        found.images.append(one)


def _read_image(image: str, nc: int | None) -> tuple[ImageRows, bool]:
    """Its rows, and whether there is a text."""
    path = label_path(image)
    file = read_label(path)
    if file.text is not None:
        return parse_labels(file.text, nc, path, image), True
    rows = ImageRows(path, image)
    if file.digest == NO_LABEL_FILE:
        what, fix = f"missing, so {image} counts as background", "label it, or leave it"
        rows.note(FaultKind.NO_LABEL, what, fix, fatal=False)
    else:
        rows.note(FaultKind.UNREADABLE_LABEL, f"not a readable text file: {file.reason}", file.fix)
    return rows, False


def _read_folder(place: Path, images: ImagePlaces, found: Labelled) -> None:
    root = root_of(place)
    texts = files_ending(root, ".txt", ".names", ".data", ".labels")
    lists = {os.path.basename(path): path for path in texts if os.path.basename(path).removesuffix(".txt") in _LISTS}
    listed = {image: split_word(name) for name, path in lists.items() for image in _listed(path, images)}
    names = _class_names(texts)
    chosen = list(listed) if listed else [*images]
    splits = [listed.get(image) or split_of(image, root) for image in chosen]
    _add_images(chosen, splits, names, found)
    if names is not None:
        found.names += names
        return
    used = sorted({int(one.name) for image in found.images for one in image.objects})
    found.names += [str(number) for number in range(used[-1] + 1)] if used else []
    if used:
        found.remarks.append("nothing says what the classes are called: name them with --map 0=cat 1=dog")


def _listed(path: str, images: ImagePlaces) -> list[str]:
    """The images that a list names: `data/obj_train_data/1.jpg` may lie without the `data`."""
    text = read_label(path).text or ""
    found = (images.find(line.strip(), path) for line in text.splitlines() if line.strip())
    return [image for image in found if image is not None]


def _class_names(texts: list[str]) -> list[str] | None:
    for wanted in _NAME_FILES:
        for path in texts:
            if os.path.basename(path) == wanted or (wanted == _NAME_FILES[0] and path.endswith(".names")):
                lines = (read_label(path).text or "").splitlines()
                return [line.strip() for line in lines if line.strip()] or None
    return None
