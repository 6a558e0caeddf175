"""Which images a split consists of: its folders and list files followed, in the same order on every machine.

Order is that of the entries, and sorted within a folder. Links to folders are followed; a folder that is reached twice
counts once, so that a link to a folder above does not loop. Nothing is opened but the lists.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from yolofast.dataset.data_yaml import (
    IMAGE_SUFFIXES,
    DataYaml,
    is_image_name,
    is_unsupported_image_name,
    label_path,
)
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.errors import UserError, shorten
from yolofast.files.budget import TAR, Budget, files_below, open_regular
from yolofast.files.tar_file import names_in

_LONGEST_LINE = 2**16
_PREFIX = "data/"
"""Before every line of CVAT's exports for Ultralytics and Darknet; no such folder is in them."""
_MOST_FAULTS = 100_000


@dataclass(frozen=True)
class Listing:
    images: list[str]
    """Absolute paths."""
    sources: list[Path]
    """The folders and list files they came from."""
    faults: list[Fault]
    first: dict[str, str] = field(default_factory=dict)
    """File and line that first name each image."""
    prefixed: set[Path] = field(default_factory=set)
    """Lists of which it was said that their lines begin with a folder that is not there."""

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
        path = data.require(entry, split)
        listing.sources.append(path)
        if path.is_dir():
            _follow_files(_files_below(path), data, split, listing)
        elif path.suffix == TAR:
            _follow_files(names_in(path), data, split, listing)
        else:
            _follow_list(path, data, listing)
    return listing


def first_share(count: int, fraction: float) -> int:
    """How many of `count` images a fraction of them is: at least one, if there is one."""
    return min(count, max(1, round(count * fraction)))


def images_below(folder: Path) -> Iterator[str]:
    return (path for path in _files_below(folder) if is_image_name(path))


def _files_below(folder: Path) -> Iterator[str]:
    return files_below(folder, usual=(*IMAGE_SUFFIXES, ".txt"))


def _unsupported(name: str) -> tuple[str, str]:
    """What is wrong, and the fix."""
    return f"{os.path.splitext(name)[1][1:].upper()} is not supported", "convert it to JPEG or PNG"


def _follow_files(files: Iterable[str], data: DataYaml, split: str, listing: Listing) -> None:
    where, line = str(data.path), data.file.line(split)
    for file in files:
        if is_image_name(file):
            listing.add(file, where, line)
        elif is_unsupported_image_name(file) and os.path.isfile(label_path(file)):  # without labels it may be anything
            what, fix = _unsupported(file)
            kind, what = FaultKind.UNSUPPORTED, f"{what}, so it is not used"
            listing.faults.append(Fault(kind=kind, where=file, what=what, fix=fix, fatal=False))


def _follow_list(list_file: Path, data: DataYaml, listing: Listing) -> None:
    def refusal(why: object) -> UserError:
        what = f"not a list of images: {why}"
        return UserError(what, where=list_file, fix="give a folder, or a text file of paths")

    def too_many() -> UserError:
        last = listing.faults[-1].what
        return refusal(f"more than {_MOST_FAULTS:,} lines name no image that is there, the last: {last}")

    budget = Budget(_MOST_FAULTS, too_many)
    try:
        with open_regular(list_file) as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                if len(line) == _LONGEST_LINE:
                    raise refusal(f"line {number} does not end")
                faults = len(listing.faults)
                if entry := line.decode("utf-8-sig" if number == 1 else "utf-8").strip():
                    _follow_line(entry, list_file, number, data, listing)
                budget.spend(len(listing.faults) - faults)
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(error) from None


def _follow_line(entry: str, list_file: Path, line: int, data: DataYaml, listing: Listing) -> None:
    def fault(kind: FaultKind, what: str, fix: str) -> None:
        listing.faults.append(Fault(kind=kind, where=str(list_file), line=line, what=what, fix=fix))

    if is_unsupported_image_name(entry):
        what, fix = _unsupported(entry)
        fault(FaultKind.UNSUPPORTED, f"{shorten(entry)}: {what}", fix)
    elif not is_image_name(entry):
        fix = f"list one image per line; images end in {', '.join(sorted(IMAGE_SUFFIXES))}"
        fault(FaultKind.NOT_AN_IMAGE, f"{shorten(entry)} is not an image file name", fix)
    elif entry.startswith(("./", ".\\")):
        image = os.path.normpath(list_file.parent / entry)
        if not os.path.exists(image):
            image = os.path.normpath(list_file.parent / entry.replace("\\", "/"))  # of Windows
        if os.path.exists(image):
            listing.add(image, str(list_file), line)
        else:
            fix = "`./` means the list's own folder: correct or remove the line"
            fault(FaultKind.MISSING_IMAGE, f"no such image: {shorten(image)}", fix)
    elif (found := data.locate(entry)) is not None:
        listing.add(str(found), str(list_file), line)
    elif entry.startswith(_PREFIX) and os.path.exists(list_file.parent / entry.removeprefix(_PREFIX)):
        listing.add(os.path.normpath(list_file.parent / entry.removeprefix(_PREFIX)), str(list_file), line)
        if list_file not in listing.prefixed:
            listing.prefixed.add(list_file)
            what = f"{shorten(entry)} leads nowhere, so it is read without {_PREFIX}, and lines like it"
            one = Fault(
                kind=FaultKind.ELSEWHERE,
                where=str(list_file),
                line=line,
                what=what,
                fix="nothing is wrong",
                fatal=False,
            )
            listing.faults.append(one)
    else:
        fix = "correct or remove the line, or correct `path` in the data yaml"
        fault(FaultKind.MISSING_IMAGE, data.not_found(entry), fix)
