"""A split labelled by a COCO annotation file.

Boxes are shares of the size the file states for an image, so images shrunk after they were annotated need no new file.
"""

import hashlib
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from yolofast.dataset.coco_boxes import image_rows
from yolofast.dataset.coco_classes import match_classes
from yolofast.dataset.coco_document import CocoDocument, CocoImage, as_id, parse_coco
from yolofast.dataset.coco_files import image_folder, match_images
from yolofast.dataset.data_yaml import DataYaml
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import Look, file_stamps, read_image_facts
from yolofast.dataset.listing import Listing, first_share
from yolofast.dataset.reading import SINGLE_CLASS, Reading, build_index
from yolofast.errors import UserError, shorten

_SHOWN_IDS = 8
_Annotations = dict[int, list[dict[str, Any]]]


@dataclass(frozen=True)
class CocoFile:
    path: Path
    content: bytes
    digest: str


def open_coco(path: Path) -> CocoFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, fix="check the path") from None
    return CocoFile(path, content, hashlib.blake2b(content, digest_size=20).hexdigest())


def coco_key(file: CocoFile, listing: Listing | None, settings: str) -> str:
    """Names everything the labels depend on: the file, the images chosen from it, and how they are read."""
    key = hashlib.blake2b(f"{settings}\n{file.digest}\n".encode(), digest_size=20)
    key.update(os.fsencode(file.path))
    for image in [] if listing is None else listing.images:
        key.update(b"\0" + os.fsencode(image))
    return key.hexdigest()


def read_coco(
    file: CocoFile,
    listing: Listing | None,
    data: DataYaml,
    single_cls: bool,
    fraction: float,
    settings: str,
    look: Look,
) -> Reading:
    """`listing` are the images the data yaml names beside the file; without it they are looked for near the file."""
    document = parse_coco(file.content, file.path)
    class_of, classes = match_classes(document, data, file.path)
    if single_cls:
        class_of, classes = dict.fromkeys(class_of, 0), SINGLE_CLASS
    pairs = _locate_images(document, file.path, listing)
    pairs = pairs[: first_share(len(pairs), fraction)]
    paths = [path for _, path in pairs]
    stamps = file_stamps(paths)
    facts = read_image_facts(paths, stamps, look)
    by_image, strays = _annotations_by_image(document)
    rows = [
        image_rows(image, path, size, by_image[image.id], class_of, file.path)
        for (image, path), size in zip(pairs, facts.sizes, strict=True)
    ]
    ids = np.array([image.id for image, _ in pairs], dtype=np.int64)
    index = build_index(rows, facts.sizes, classes, ids, file.path)
    faults = [_name_the_file(fault, file.path) for fault in facts.faults]
    faults += _repeated_images(pairs, file.path) + _strays(strays, document, file.path)
    faults += _repeated_ids(document, file.path)
    faults += [fault for one in rows for fault in one.faults]
    return Reading(index, faults, stamps, coco_key(file, listing, settings))


def _locate_images(document: CocoDocument, path: Path, listing: Listing | None) -> list[tuple[CocoImage, str]]:
    """Entries of the file and the images they mean; one that a list file does not name is not part of the split."""
    names = [image.file_name for image in document.images]
    if listing is None:
        folder = image_folder(path, names)
        return [(image, os.path.normpath(folder / image.file_name)) for image in document.images]
    folder_of_missing = next((source for source in listing.sources if source.is_dir()), None)
    return [
        (image, found or os.path.normpath(f"{folder_of_missing}/{image.file_name}"))
        for image, found in zip(document.images, match_images(names, listing.images), strict=True)
        if found is not None or folder_of_missing is not None
    ]


def _annotations_by_image(document: CocoDocument) -> tuple[_Annotations, list[dict[str, Any]]]:
    """And those of images that the file does not list."""
    known = {image.id for image in document.images}
    by_image: _Annotations = defaultdict(list)
    strays = []
    for annotation in document.annotations:
        image = as_id(annotation.get("image_id"))
        if image is not None and image in known:
            by_image[image].append(annotation)
        else:
            strays.append(annotation)
    return by_image, strays


def _strays(strays: list[dict[str, Any]], document: CocoDocument, path: Path) -> list[Fault]:
    if not strays:
        return []
    ids = list(dict.fromkeys(shorten(stray.get("image_id")) for stray in strays))
    named = ", ".join(ids[:_SHOWN_IDS]) + (", …" if len(ids) > _SHOWN_IDS else "")
    listed = shorten([image.id for image in document.images])
    what = (
        f"{len(strays):,} of {len(document.annotations):,} annotations are of images that the file does not list; "
        f"their image_id is {named}, the images are {listed}"
    )
    fix = "correct image_id, or add the images, or remove these annotations"
    return [Fault(kind=FaultKind.NO_IMAGE, where=str(path), what=what, fix=fix)]


def _repeated_images(pairs: list[tuple[CocoImage, str]], path: Path) -> list[Fault]:
    """Two entries for one file: its boxes are spread over both, and each lacks the other's."""
    first: dict[str, CocoImage] = {}
    faults = []
    for image, found in pairs:
        if (earlier := first.setdefault(found, image)) is not image:
            what = f"the images {earlier.id} and {image.id} are both {found}; it counts twice"
            fix = "join the entries, and give all its annotations one image_id"
            kind = FaultKind.LISTED_TWICE
            faults.append(Fault(kind=kind, where=str(path), what=what, fix=fix, fatal=False, image=found))
    return faults


def _repeated_ids(document: CocoDocument, path: Path) -> list[Fault]:
    counts = Counter(as_id(annotation.get("id")) for annotation in document.annotations)
    repeated = [one for one, count in counts.items() if one is not None and count > 1]
    if not repeated:
        return []
    ids = "annotation id is" if len(repeated) == 1 else "annotation ids are"
    what = f"{len(repeated):,} {ids} used more than once: {shorten(repeated)}"
    fix = "number the annotations anew; evaluation tools take equal ids for one object"
    return [Fault(kind=FaultKind.BAD_ANNOTATION, where=str(path), what=what, fix=fix, fatal=False)]


def _name_the_file(fault: Fault, path: Path) -> Fault:
    """A missing image is a matter between the file and the folder; the message has to name both."""
    if fault.kind is not FaultKind.MISSING_IMAGE:
        return fault
    fix = "restore it; or name the images' folder as the split, and the COCO file under `annotations:`"
    return replace(fault, what=f"no such image, but {path} lists it", fix=fix)
