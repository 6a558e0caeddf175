"""A repaired copy of a data set: what `check` finds is put right where that is a matter of course, else left out.

Nothing is guessed: an image with a broken row is left out whole, as training does with `--skip-bad`. An image in two
splits stays where it is measured on, so that figures remain comparable. The source is not touched.
"""

import hashlib
import shlex
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.formats.convert import Conversion, ConvertRequest
from yolofast.dataset.formats.fit import Choice, choose, onto_images, without_bad_images, without_tiny_boxes
from yolofast.dataset.formats.labelled import Labelled, LabelledImage
from yolofast.dataset.formats.splits import divide
from yolofast.dataset.formats.write import copy_image
from yolofast.dataset.formats.yolo import read_data_set
from yolofast.dataset.image_facts import quiet_decoder
from yolofast.dataset.resize import QUALITY, write_pixels
from yolofast.errors import UserError
from yolofast.files.threads import in_threads
from yolofast.words import own_command

_LEFT_OUT = "leaves the image out"
_BROKEN_IMAGE = (
    FaultKind.MISSING_IMAGE, FaultKind.NOT_AN_IMAGE, FaultKind.UNSUPPORTED, FaultKind.EMPTY_FILE, FaultKind.TRUNCATED,
    FaultKind.UNREADABLE, FaultKind.TOO_SMALL, FaultKind.NOT_IN_ANNOTATIONS,
)  # fmt: skip
_BROKEN_LABEL = (
    FaultKind.UNREADABLE_LABEL, FaultKind.COLUMNS, FaultKind.NOT_A_NUMBER, FaultKind.UNKNOWN_CLASS,
    FaultKind.OUT_OF_RANGE, FaultKind.BAD_ANNOTATION,
)  # fmt: skip
_FATAL = dict.fromkeys((*_BROKEN_IMAGE, *_BROKEN_LABEL), _LEFT_OUT) | {
    FaultKind.LEAKAGE: "keeps the image where it is measured on",
    FaultKind.NO_IMAGE: "leaves such annotations out",
}
_WARNINGS = {
    FaultKind.OUT_OF_RANGE: "clips the box",
    FaultKind.DUPLICATE_ROW: "keeps one row",
    FaultKind.TINY_BOX: "leaves the box out",
    FaultKind.NO_LABEL: "writes an empty label file",
    FaultKind.NO_IMAGE: "leaves the labels out",
    FaultKind.NOT_IN_ANNOTATIONS: _LEFT_OUT,
    FaultKind.UNSUPPORTED: _LEFT_OUT,
    FaultKind.LISTED_TWICE: "keeps it once",
    FaultKind.ELSEWHERE: "names them where they are",
    FaultKind.ROTATED: "saves the image upright",
    FaultKind.BAD_ANNOTATION: "numbers annotations anew, states the image's own size",
    FaultKind.LEAKAGE: "divides the images into train and val",
}


def repair_of(fault: Fault) -> str | None:
    """What the copy does about it; None if nothing."""
    return (_FATAL if fault.fatal else _WARNINGS).get(fault.kind)


def command_for(fault: Fault, repair: str) -> str | None:
    """What to type to put a fault right, and what that does; `repair` is the `repair_command` of its data set."""
    if fault.command is not None:
        return fault.command
    does = repair_of(fault)
    return None if does is None else f"{repair}  ({does})"


def repair_command(data: str | Path) -> str:
    return f"{own_command()} check --data {shlex.quote(str(data))} --fix {shlex.quote(copy_of(data))}"


def copy_of(data: str | Path) -> str:
    """What the repaired copy is called where no name is given: `set-fixed`."""
    path = Path(data)
    name = path.stem if path.is_file() and path.name != "data.yaml" else path.resolve().parent.name
    return f"{path.resolve().name if path.is_dir() else name}-fixed"


class Repair(Conversion):
    def __init__(self, data_yaml: Path, say: Callable[[str], None]) -> None:
        super().__init__(ConvertRequest(data_yaml, "yolo", "yolo", skip_bad=True), say)

    def write(self, folder: Path) -> None:
        found = self.found
        read_data_set(self.request.source, found)
        if any(fault.kind is FaultKind.EMPTY_SPLIT and fault.fatal for fault in found.faults) and not found.images:
            raise UserError("no split can be read: there is nothing to repair", where=self.request.source, fix="check")
        self.to = "coco" if any(image.where.lower().endswith(".json") for image in found.images) else "yolo"
        onto_images(found, decode=True)
        turned = {fault.image for fault in found.faults if fault.kind is FaultKind.ROTATED}
        without_bad_images(found)
        without_tiny_boxes(found)
        _without_leaks(found)
        self.names = choose(found, Choice(), crowds=self.to == "coco")
        divide(found, (), "none", 0)
        size_of = {image.file: image.size for image in found.images}

        def place(file: str, target: Path) -> None:
            if file in turned:
                write_pixels(file, target, size_of[file], size_of[file], QUALITY)
            else:
                copy_image(file, target)

        with quiet_decoder():
            self.write_found(folder, place)


def _without_leaks(found: Labelled) -> None:
    """Images of the same content in two splits: test before val before train."""
    by_content: dict[bytes, list[LabelledImage]] = defaultdict(list)
    for image, digest in zip(found.images, in_threads(_digest, [one.file for one in found.images]), strict=True):
        by_content[digest].append(image)
    left: set[str] = set()
    for same in by_content.values():
        if len({image.split for image in same}) > 1:
            keeps = max((image.split for image in same), key=("train", "val", "test").index)
            left |= {image.file for image in same if image.split != keeps}
    if left:
        found.dropped["images that another split has too"] += len(left)
        found.images = [image for image in found.images if image.file not in left]


def _digest(file: str) -> bytes:
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=16).digest()
