"""A data yaml: its classes, and which images and annotations each split consists of.

Folders and list files are followed; nothing is opened but the lists. A `download` entry is never executed.

Order is that of the entries, and sorted within a folder: the same on every machine. Links to folders are followed; a
folder that is reached twice counts once, so that a link to a folder above does not loop.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, nearest, shorten
from yolofast.files.yaml_file import YamlFile, open_regular, read_yaml
from yolofast.resources import find_resource

SPLITS = ("train", "val", "test")
IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"})
_UNSUPPORTED_SUFFIXES = frozenset({".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm"})
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
        """What is written after `train:`; one entry or a list of them."""
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
        return next((place for place in self.places(entry) if os.path.exists(place)), None)

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


@dataclass(frozen=True)
class Listing:
    images: list[str]
    """Absolute paths."""
    sources: list[Path]
    """The folders and list files they came from."""
    faults: list[Fault]
    first: dict[str, str] = field(default_factory=dict)
    """File and line that first name each image."""

    def add(self, image: str, where: str, line: int | None) -> None:
        if image in self.first:
            kind, what = FaultKind.LISTED_TWICE, f"{image} is listed twice, first in {self.first[image]}"
            fix = "remove one, unless it is meant to count twice"
            self.faults.append(Fault(kind=kind, where=where, line=line, what=what, fix=fix, fatal=False))
        self.first.setdefault(image, where if line is None else f"{where}:{line}")
        self.images.append(image)


def list_split(data: DataYaml, split: str) -> Listing:
    listing = Listing([], [], [])
    for entry in data.entries(split):
        path = data.locate(entry)
        if path is None:
            fix = "check the entry, and `path` in the data yaml"
            raise UserError(data.not_found(entry), where=data.path, line=data.file.line(split), fix=fix)
        listing.sources.append(path)
        if path.is_dir():
            _follow_folder(path, data, split, listing)
        else:
            _follow_list(path, data, listing)
    return listing


def first_share(count: int, fraction: float) -> int:
    """How many of `count` images a fraction of them is: at least one, if there is one."""
    return min(count, max(1, round(count * fraction)))


def images_below(folder: Path) -> Iterator[str]:
    return (path for path in _files_below(folder) if is_image_name(path))


def _files_below(folder: Path) -> Iterator[str]:
    """Folder by folder, sorted. Links are followed last, so that what is really below keeps its own name."""
    files_of: dict[str, list[str]] = {}
    reached: set[str] = set()
    starts = [str(folder)]
    while starts:
        links = []
        for parent, subfolders, files in (step for start in starts for step in os.walk(start)):
            real = os.path.realpath(parent)
            if real in reached:
                subfolders.clear()
                continue
            reached.add(real)
            files_of[parent] = sorted(files)
            links += [path for name in subfolders if os.path.islink(path := os.path.join(parent, name))]
        starts = sorted(links)
    for parent in sorted(files_of, key=lambda path: path.split(os.sep)):
        yield from (os.path.join(parent, name) for name in files_of[parent])


def is_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def is_unsupported_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _UNSUPPORTED_SUFFIXES


def _unsupported(name: str) -> tuple[str, str]:
    """What is wrong, and the fix."""
    return f"{os.path.splitext(name)[1][1:].upper()} is not supported", "convert it to JPEG or PNG"


def label_path(image: str) -> str:
    """The last folder `images` becomes `labels`, the suffix `.txt`; without such a folder labels are next to images."""
    before, found, after = image.replace(os.sep, "/").rpartition("/images/")
    return os.path.splitext(f"{before}/labels/{after}" if found else after)[0] + ".txt"


def _follow_folder(folder: Path, data: DataYaml, split: str, listing: Listing) -> None:
    where, line = str(data.path), data.file.line(split)
    for file in _files_below(folder):
        if is_image_name(file):
            listing.add(file, where, line)
        elif is_unsupported_image_name(file) and os.path.isfile(label_path(file)):  # without labels it may be anything
            what, fix = _unsupported(file)
            kind, what = FaultKind.UNSUPPORTED, f"{what}, so it is not used"
            listing.faults.append(Fault(kind=kind, where=file, what=what, fix=fix, fatal=False))


def _follow_list(list_file: Path, data: DataYaml, listing: Listing) -> None:
    try:
        with open_regular(list_file) as file:
            lines = file.read().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        what = f"not a list of images: {error}"
        raise UserError(what, where=list_file, fix="give a folder, or a text file of paths") from None
    for number, line in enumerate(lines, 1):
        if entry := line.strip():
            _follow_line(entry, list_file, number, data, listing)


def _follow_line(entry: str, list_file: Path, line: int, data: DataYaml, listing: Listing) -> None:
    def fault(kind: FaultKind, what: str, fix: str) -> None:
        listing.faults.append(Fault(kind=kind, where=str(list_file), line=line, what=what, fix=fix))

    if is_unsupported_image_name(entry):
        what, fix = _unsupported(entry)
        fault(FaultKind.UNSUPPORTED, f"{shorten(entry)}: {what}", fix)
    elif not is_image_name(entry):
        fix = f"list one image per line; images end in {', '.join(sorted(IMAGE_SUFFIXES))}"
        fault(FaultKind.NOT_AN_IMAGE, f"{shorten(entry)} is not an image file name", fix)
    elif entry.startswith("./"):
        image = os.path.normpath(list_file.parent / entry)
        if os.path.exists(image):
            listing.add(image, str(list_file), line)
        else:
            fix = "`./` means the list's own folder: correct or remove the line"
            fault(FaultKind.MISSING_IMAGE, f"no such image: {shorten(image)}", fix)
    elif (found := data.locate(entry)) is not None:
        listing.add(str(found), str(list_file), line)
    else:
        fix = "correct or remove the line, or correct `path` in the data yaml"
        fault(FaultKind.MISSING_IMAGE, data.not_found(entry), fix)
