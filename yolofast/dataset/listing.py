"""Which images a split consists of: folders and list files followed, nothing opened but the lists.

Order is that of the entries, and sorted within a folder: the same on every machine.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from yolofast.dataset.data_yaml import DataYaml
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, shorten

IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"})


@dataclass(frozen=True)
class Listing:
    images: list[str]
    """Absolute paths."""
    sources: list[Path]
    """The folders and list files they came from."""
    faults: list[Fault]


def list_split(data: DataYaml, split: str) -> Listing:
    listing = Listing([], [], [])
    for entry in data.entries(split):
        path = data.locate(entry)
        if path is None:
            fix = "check the entry, and `path` in the data yaml"
            raise UserError(data.not_found(entry), where=data.path, line=data.file.line(split), fix=fix)
        listing.sources.append(path)
        if path.is_dir():
            listing.images.extend(images_below(path))
        else:
            _follow_list(path, data, listing)
    _note_repeated(listing, str(data.path), data.file.line(split))
    return listing


def first_share(count: int, fraction: float) -> int:
    """How many of `count` images a fraction of them is: at least one, if there is one."""
    return min(count, max(1, round(count * fraction)))


def images_below(folder: Path) -> Iterator[str]:
    for parent, subfolders, files in os.walk(folder):
        subfolders.sort()
        yield from (os.path.join(parent, name) for name in sorted(files) if is_image_name(name))


def is_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def label_path(image: str) -> str:
    """The last folder `images` becomes `labels`, the suffix `.txt`; without such a folder labels lie beside images."""
    before, found, after = image.replace(os.sep, "/").rpartition("/images/")
    return os.path.splitext(f"{before}/labels/{after}" if found else after)[0] + ".txt"


def _follow_list(list_file: Path, data: DataYaml, listing: Listing) -> None:
    try:
        lines = list_file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        what = f"not a list of images: {error}"
        raise UserError(what, where=list_file, fix="give a folder, or a text file of paths") from None
    for number, line in enumerate(lines, 1):
        if entry := line.strip():
            _follow_line(entry, list_file, number, data, listing)


def _follow_line(entry: str, list_file: Path, line: int, data: DataYaml, listing: Listing) -> None:
    def fault(kind: FaultKind, what: str, fix: str) -> None:
        listing.faults.append(Fault(kind=kind, where=str(list_file), line=line, what=what, fix=fix))

    if not is_image_name(entry):
        fix = f"list one image per line; images end in {', '.join(sorted(IMAGE_SUFFIXES))}"
        fault(FaultKind.NOT_AN_IMAGE, f"{shorten(entry)} is not an image file name", fix)
    elif entry.startswith("./"):
        image = os.path.normpath(list_file.parent / entry)
        if os.path.isfile(image):
            listing.images.append(image)
        else:
            fix = "`./` means the list's own folder: mend or remove the line"
            fault(FaultKind.MISSING_IMAGE, f"no such image: {shorten(image)}", fix)
    elif (found := data.locate(entry)) is not None:
        listing.images.append(str(found))
    else:
        fix = "mend or remove the line, or mend `path` in the data yaml"
        fault(FaultKind.MISSING_IMAGE, data.not_found(entry), fix)


def _note_repeated(listing: Listing, where: str, line: int | None) -> None:
    seen: set[str] = set()
    for image in listing.images:
        if image in seen:
            what = f"{image} is listed twice"
            fix = "remove one of them, unless it is meant to count twice"
            kind = FaultKind.LISTED_TWICE
            listing.faults.append(Fault(kind=kind, where=where, line=line, what=what, fix=fix, fatal=False))
        seen.add(image)
