"""What a data yaml says: classes, and where the images and annotations of each split are.

A `download` entry is never executed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, read_yaml
from yolofast.resources import find_resource

SPLITS = ("train", "val", "test")
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

    def entries(self, split: str) -> list[str]:
        """What stands after `train:`; one entry or a list of them."""
        value = self.file.values.get(split)
        if value is None:
            what = f"there is no split {split!r}{nearest(split, self.splits())}"
            raise UserError(what, where=self.path, fix=f"add `{split}: images/{split}`")
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
        for place in self.places(entry):
            try:
                if place.exists():
                    return place
            except (OSError, ValueError):  # a name too long, or with a null byte, is no file either
                continue
        return None

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

    def not_found(self, entry: str) -> str:
        tried = " or ".join(shorten(str(place)) for place in self.places(entry))
        return f"no such file or folder: {shorten(entry)} (tried {tried})"


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
        if isinstance(name, bool) or not isinstance(name, str | int | float):
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
