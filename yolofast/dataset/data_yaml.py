"""A data yaml: its classes, and which images and annotations each split consists of.

A `download` entry is never executed. What a file says that means nothing here is reported: it may be a slip.
"""

import os
import re
import shlex
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, nearest, nearest_file, shorten
from yolofast.files.budget import is_whole_text
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.resources import ROOT, find_resource
from yolofast.words import own_command

SPLITS = ("train", "val", "test")
IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"})
_UNSUPPORTED_SUFFIXES = frozenset({".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm"})
_KEYS = ("path", *SPLITS, "nc", "names", "category_ids", "annotations", "builtin")
_OF_OTHERS = (
    "download", "roboflow", "kpt_shape", "kpt_names", "flip_idx", "channels", "license", "licenses", "info", "version",
    "description", "url", "author", "date", "stride", "task", "minival",
)  # fmt: skip
"""Keys that other programs write, and that need no word."""
_MAX_CLASSES = 100_000


@dataclass(frozen=True)
class DataYaml:
    file: YamlFile
    path: Path
    nc: int | None
    """None if neither nc nor names is given: then an annotation file's categories are the classes."""
    names: tuple[str, ...] | None
    category_ids: tuple[int, ...] | None

    def classes(self) -> tuple[str, ...]:
        """Class names; numbers where only nc is given."""
        if self.names is not None:
            return self.names
        if self.nc is None:
            raise UserError("neither nc nor names is given", where=self.path, fix="names: [cat, dog]")
        return tuple(str(i) for i in range(self.nc))

    def splits(self) -> list[str]:
        return [split for split in SPLITS if self.file.values.get(split) is not None]

    def lacks_val(self) -> bool:
        """There is something to train on, and nothing to measure on."""
        return "train" in self.splits() and "val" not in self.splits()

    def entries(self, split: str) -> list[str]:
        """What is written after `train:`; one entry or a list of them."""
        value = self.file.values.get(split)
        if value is None:
            what = f"there is no split {split!r}{nearest(split, [*self.splits(), *self.unknown_keys()])}"
            others = f", or divide the images: {command_to_divide(self.path)}" if self.lacks_val() else ""
            raise UserError(what, where=self.path, fix=f"add `{split}: images/{split}`{others}")
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            self._require_path(entry, split, "a folder, a list file, a COCO file or a list of these")
        return entries

    def annotations(self, split: str) -> str | None:
        """The entry `annotations: {split: …}`, if there is one."""
        value = self.file.values.get("annotations")
        if value is None:
            return None
        if not isinstance(value, dict):
            fix = "annotations: {train: annotations/train.json, val: annotations/val.json}"
            what = f"annotations must name a file for each split, not {shorten(value)}"
            raise UserError(what, where=self.path, line=self.file.line("annotations"), fix=fix)
        entry = value.get(split)
        if entry is not None:
            self._require_path(entry, "annotations", f"a COCO file for {split}")
        return entry

    def _require_path(self, entry: Any, key: str, kind: str) -> None:
        if not isinstance(entry, str) or not entry or "\0" in entry:
            what = f"{key} must be {kind}, not {shorten(entry)}"
            fix = f"write `{key}: ` and a path, in quotes if it looks like a number"
            raise UserError(what, where=self.path, line=self.file.line(key), fix=fix)

    def locate(self, entry: str) -> Path | None:
        """The file or folder an entry means, or None if there is no such thing."""
        return next((place for place in (*self.places(entry), *self._beside(entry)) if os.path.exists(place)), None)

    def require(self, entry: str, key: str) -> Path:
        """The same; raises `UserError` if there is no such thing."""
        if (found := self.locate(entry)) is None:
            what, fix = self.not_found(entry, nearest_file(self.places(entry)[0])), self.fix_of_entry(entry)
            raise UserError(what, where=self.path, line=self.file.line(key), fix=fix)
        return found

    def _beside(self, entry: str) -> list[Path]:
        """Where else it is looked for: without `../`, which exports of Roboflow have one too many of, first from the
        yaml's folder; beside the yaml if its `path`, of another machine, is not there; and the folder of images for a
        list that is not there, as in COCO without YOLOv7's labels. Windows divides folders by backslashes."""
        written, entry = entry, entry.replace("\\", "/")
        rest = entry
        if self.file.values.get("path") is not None and not any(os.path.exists(root) for root in self.places("")):
            beside = Path(os.path.normpath(self.path.absolute().parent / entry))
            return [] if os.path.isabs(entry) else [beside]
        if entry != written and (there := [place for place in self.places(entry) if os.path.exists(place)]):
            return there
        while rest.startswith("../"):
            rest = rest[3:]
        if rest != written and rest:
            return self.places(rest)[::-1]
        folder, name = os.path.split(entry)
        stem, suffix = os.path.splitext(name)
        return self.places(os.path.join(folder, "images", stem)) if suffix == ".txt" else []

    def unknown_keys(self) -> list[str]:
        return [key for key in self.file.values if isinstance(key, str) and key not in (*_KEYS, *_OF_OTHERS)]

    def slips(self) -> list[Fault]:
        """Keys that are nearly known ones: what they should say is missing."""
        faults = []
        for key in self.unknown_keys():
            if meant := nearest(key.lower(), _KEYS):
                what, fix = f"{key!r} means nothing here{meant}", "correct the key, or remove it"
                where, line = str(self.path), self.file.line_of_key(key)
                faults.append(
                    Fault(kind=FaultKind.UNKNOWN_KEY, where=where, line=line, what=what, fix=fix, fatal=False)
                )
        return faults

    def remarks(self) -> list[str]:
        """What was understood otherwise than written, and keys that are none of ours."""
        slips = {fault.line for fault in self.slips()}
        lines = {key: self.file.line_of_key(key) for key in self.unknown_keys()}
        said = [f"{self.path}:{lines[key]}: {key!r} means nothing here" for key in lines if lines[key] not in slips]
        for split in self.splits():
            value = self.file.values[split]
            for entry in (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)):
                if not any(os.path.exists(place) for place in self.places(entry)) and (found := self.locate(entry)):
                    where = f"{self.path}:{self.file.line(split)}"
                    below = "" if self.file.values.get("path") is None else f" below {self.file.values['path']}"
                    said.append(f"{where}: {entry} leads nowhere{below}, so {shorten(str(found))[1:-1]} is read")
        return said

    def places(self, entry: str) -> list[Path]:
        """Where an entry is looked for: below the yaml's `path` if given, else below the current folder or the yaml's.

        A relative `path` is tried from the yaml's folder first, where `path: .` points, then from the current one.
        """
        yaml_folder = self.path.absolute().parent
        root = self.file.values.get("path")
        if isinstance(root, float):  # a folder called 1e5
            root = self.file.as_name(root, "path")
        if root is not None and not isinstance(root, str):
            what = f"path must be a folder, not {shorten(root)}"
            raise UserError(what, where=self.path, line=self.file.line("path"), fix="path: .")
        roots = [Path.cwd(), yaml_folder] if root is None else [yaml_folder / root, Path.cwd() / root]
        return list(dict.fromkeys(Path(os.path.normpath(folder / entry)) for folder in roots))

    def not_found(self, entry: str, meant: str = "") -> str:
        tried = " or ".join(shorten(str(place)) for place in (*self.places(entry), *self._beside(entry)))
        return f"no such file or folder: {shorten(entry)}{meant} (tried {tried})"

    def fix_of_entry(self, entry: str) -> str:
        if self.path.resolve().is_relative_to(ROOT.resolve()):
            return f"go to the folder that has the data, or get them: {self._about()}"
        folder, parts = self.path.absolute().parent, [part for part in re.split(r"[/\\]", entry) if part]
        tails = ("/".join(parts[place:]) for place in range(1, len(parts)))
        there = next((tail for tail in tails if os.path.exists(folder / tail)), None)
        beside = "" if there is None else f"; {shorten(there)} is there, beside the yaml"
        return f"check the entry, and `path` in the data yaml{beside}"

    def _about(self) -> str:
        """The first lines of a packaged yaml say what the data are and how to get them."""
        lines = self.path.read_text("utf-8").splitlines()
        return " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))


def command_to_divide(path: Path) -> str:
    """That makes a data set with images to validate on, of one whose images are all for training."""
    out = shlex.quote(f"{path.absolute().parent.name}-split")
    data = shlex.quote(str(path))
    return f"{own_command()} convert {data} --from yolo --to yolo --split train=0.8 val=0.2 --out {out}"


def read_data_yaml(data_yaml: str | Path) -> DataYaml:
    """Also finds the packaged ones: `data/coco320.yaml`, `coco`."""
    path = find_resource(data_yaml, "data")
    file = read_yaml(path)
    names = _names(file)
    nc = _nc(file, names)
    return DataYaml(file, path, nc, names, _category_ids(file, nc))


def _nc(data: YamlFile, names: tuple[str, ...] | None) -> int | None:
    nc = data.values.get("nc")
    if nc is None:
        return None if names is None else len(names)
    if not isinstance(nc, int) or isinstance(nc, bool) or not 1 <= nc <= _MAX_CLASSES:
        what = f"nc must be a whole number from 1 to {_MAX_CLASSES}, not {shorten(nc)}"
        raise UserError(what, where=data.where, line=data.line("nc"), fix="count the names, or omit nc")
    if names is not None and nc != len(names):
        what = f"nc is {nc} but names has {len(names)} entries"
        raise UserError(what, where=data.where, line=data.line("names"), fix="make them agree, or remove nc")
    return nc


def _names(data: YamlFile) -> tuple[str, ...] | None:
    def fault(what: str, fix: str) -> UserError:
        return UserError(what, where=data.where, line=data.line("names"), fix=fix)

    names = data.values.get("names")
    if names is None:
        return None
    if isinstance(names, dict):
        if absent := [i for i in range(len(names)) if i not in names]:
            raise fault(f"names has {len(names)} entries but none for class {absent[0]}", "number them from 0 on")
        names = [names[i] for i in range(len(names))]
    if not isinstance(names, list) or not names:
        raise fault(f"names must be a list or a mapping of class names, not {shorten(names)}", "names: [cat, dog]")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | float) or not is_whole_text(str(name)):
            raise fault(f"the class name {shorten(name)} is not text", "put it in quotes")
    return tuple(data.as_name(name, "names", i) for i, name in enumerate(names))


def _category_ids(data: YamlFile, nc: int | None) -> tuple[int, ...] | None:
    ids = data.values.get("category_ids")
    if ids is None:
        return None
    whole = isinstance(ids, list) and all(
        isinstance(i, int) and not isinstance(i, bool) and 0 <= i < 2**62 for i in ids
    )
    if not whole or len(ids) != nc or len(set(ids)) != len(ids):
        what = f"category_ids must be {nc} different whole numbers, one per class, not {shorten(ids)}"
        raise UserError(what, where=data.where, line=data.line("category_ids"), fix="omit it for 0, 1, 2, …")
    return tuple(ids)


def is_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def is_unsupported_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _UNSUPPORTED_SUFFIXES


def label_path(image: str) -> str:
    """The last folder `images` becomes `labels`, the suffix `.txt`; without such a folder labels are next to images."""
    before, found, after = image.replace(os.sep, "/").rpartition("/images/")
    return os.path.splitext(f"{before}/labels/{after}" if found else after)[0] + ".txt"
