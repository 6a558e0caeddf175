"""Which images a split consists of: folders and list files followed, nothing opened but the lists.

Order is that of the entries, and sorted within a folder: the same on every machine. Links to folders are followed; a
folder that is reached twice counts once, so that a link to a folder above does not loop.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from yolofast.dataset.data_yaml import DataYaml
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, shorten
from yolofast.files.plain_file import open_regular

IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"})

_UNSUPPORTED_SUFFIXES = frozenset({".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".pgm", ".ppm"})


@dataclass(frozen=True)
class Listing:
    images: list[str]
    """Absolute paths."""
    sources: list[Path]
    """The folders and list files they came from."""
    faults: list[Fault]
    places: list[tuple[str, int | None]] = field(default_factory=list)
    """File and line that name each image."""

    def add(self, image: str, where: str, line: int | None) -> None:
        self.images.append(image)
        self.places.append((where, line))


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
    _note_repeated(listing)
    return listing


def first_share(count: int, fraction: float) -> int:
    """How many of `count` images a fraction of them is: at least one, if there is one."""
    return min(count, max(1, round(count * fraction)))


def images_below(folder: Path) -> Iterator[str]:
    return (path for path in _files_below(folder) if is_image_name(path))


def _files_below(folder: Path) -> Iterator[str]:
    """Folder by folder, sorted. Links are followed last, so that what really lies below keeps its own name."""
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
    """The last folder `images` becomes `labels`, the suffix `.txt`; without such a folder labels lie next to images."""
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
            fix = "`./` means the list's own folder: mend or remove the line"
            fault(FaultKind.MISSING_IMAGE, f"no such image: {shorten(image)}", fix)
    elif (found := data.locate(entry)) is not None:
        listing.add(str(found), str(list_file), line)
    else:
        fix = "mend or remove the line, or mend `path` in the data yaml"
        fault(FaultKind.MISSING_IMAGE, data.not_found(entry), fix)


def _note_repeated(listing: Listing) -> None:
    first: dict[str, tuple[str, int | None]] = {}
    for image, (where, line) in zip(listing.images, listing.places, strict=True):
        if image in first:
            earlier = ":".join(str(part) for part in first[image] if part is not None)
            what, fix = f"{image} is listed twice, first in {earlier}", "remove one, unless it is meant to count twice"
            kind = FaultKind.LISTED_TWICE
            listing.faults.append(Fault(kind=kind, where=where, line=line, what=what, fix=fix, fatal=False))
        first.setdefault(image, (where, line))
