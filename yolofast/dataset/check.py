"""All that can be found wrong with a data set: what reading it finds, and what only decoding or comparing shows.

Decodes and hashes every image, so it takes as long as an epoch of loading; training relies on the headers, unless it is
to skip what is bad.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yolofast.dataset.coco_document import open_coco, parse_coco
from yolofast.dataset.data_yaml import (
    DataYaml,
    is_image_name,
    is_unsupported_image_name,
    label_path,
    read_data_yaml,
)
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.image_facts import image_fault, quiet_decoder, require_decodable, whole_image
from yolofast.dataset.image_header import BadImageError, read_image_header
from yolofast.dataset.listing import images_below
from yolofast.dataset.split import inspect_split
from yolofast.errors import UserError, nearest
from yolofast.files.threads import in_threads
from yolofast.image_index import ImageIndex


@dataclass(frozen=True)
class CheckedImage:
    digest: bytes
    """Of the file's bytes; empty if its header shows no image."""
    fault: Fault | None


def check_image(image: str) -> CheckedImage:
    digest, fault = b"", None
    try:
        header = read_image_header(image)
        with whole_image(image, header) as content:
            digest = hashlib.blake2b(content, digest_size=16).digest()
            require_decodable(content, header)
    except (OSError, BadImageError) as error:
        fault = image_fault(image, error)
    return CheckedImage(digest, fault)


@dataclass(frozen=True)
class CheckedSplit:
    name: str
    index: ImageIndex | None
    """None if there was nothing to read."""
    faults: tuple[Fault, ...]
    digests: tuple[bytes, ...] = ()

    def files(self) -> list[str]:
        return [] if self.index is None else [os.fsdecode(file) for file in self.index.files.tolist()]


def check_data(
    data_yaml: str | Path,
    splits: Sequence[str] | None = None,
    *,
    single_cls: bool = False,
    done: Callable[[int, int], None] | None = None,
) -> list[CheckedSplit]:
    """`done` is called with how many more images are decoded, and how many there are in all."""
    data = read_data_yaml(data_yaml)
    names = list(splits or data.splits())
    if not names:
        raise UserError("names no split", where=data.path, fix="add `train: images/train` and `val: images/val`")
    for name in names:
        if name not in data.splits():
            what = f"there is no split {name!r}{nearest(name, data.splits())}"
            raise UserError(what, where=data.path, fix=f"the splits are {', '.join(data.splits())}")
    checked = [_read(data, name, single_cls) for name in dict.fromkeys(names)]
    checked[0] = replace(checked[0], faults=(*data.slips(), *checked[0].faults))
    total = sum(len(split.files()) for split in checked)
    step = None if done is None else lambda more: done(more, total)
    checked = [_check_pixels(split, step) for split in checked]
    used = {file for split in checked for file in split.files()}
    checked = [replace(split, faults=(*split.faults, *_pairs(split, used))) for split in checked]
    return [
        replace(split, faults=(*split.faults, *_leakage(split, checked[:i], data))) for i, split in enumerate(checked)
    ]


def _read(data: DataYaml, name: str, single_cls: bool) -> CheckedSplit:
    try:
        report = inspect_split(data.path, name, single_cls=single_cls, cache=False)
    except UserError as error:
        if error.where == str(data.path) and error.line is None:
            raise  # the yaml itself: no split can be read
        # Many data sets name a test split that was not downloaded.
        where, fix = error.where or str(data.path), error.fix or "check the entry in the data yaml"
        kind, fatal = FaultKind.EMPTY_SPLIT, name != "test"
        fault = Fault(kind=kind, where=where, line=error.line, what=error.what, fix=fix, fatal=fatal)
        return CheckedSplit(name, None, (fault,))
    return CheckedSplit(name, report.index, report.faults)


def _check_pixels(split: CheckedSplit, done: Callable[[int], None] | None) -> CheckedSplit:
    with quiet_decoder():
        images: list[CheckedImage] = in_threads(check_image, split.files(), done)
    known = {(fault.kind, fault.image) for fault in split.faults}
    new = [one.fault for one in images if one.fault is not None and (one.fault.kind, one.fault.image) not in known]
    return replace(split, faults=(*split.faults, *new), digests=tuple(one.digest for one in images))


def _pairs(split: CheckedSplit, used: set[str]) -> list[Fault]:
    """Label files without image, and images that the annotations do not list, in the folders of the split."""
    if split.index is None or not len(split.index):
        return []
    folders = sorted({os.path.dirname(file) for file in split.files()})
    if split.index.annotations is not None:
        return _images_not_in_file(folders, used, split.index.annotations)
    return [fault for folder in folders for fault in _labels_without_image(folder)]


def _labels_without_image(image_folder: str) -> list[Fault]:
    """Only of separate label folders: text files next to images may be anything."""
    label_folder = os.path.dirname(label_path(os.path.join(image_folder, "x.jpg")))
    if label_folder == image_folder or not os.path.isdir(label_folder):
        return []
    names = os.listdir(image_folder)
    # An image of an unsupported format has its own fault.
    stems = {os.path.splitext(name)[0] for name in names if is_image_name(name) or is_unsupported_image_name(name)}
    kind, what = FaultKind.NO_IMAGE, f"there is no image for these labels in {image_folder}"
    fix = "add the image, or remove the label file"
    return [
        Fault(kind=kind, where=os.path.join(label_folder, name), what=what, fix=fix, fatal=False)
        for name in sorted(os.listdir(label_folder))
        if name.endswith(".txt") and os.path.splitext(name)[0] not in stems
    ]


def _images_not_in_file(folders: Sequence[str], used: set[str], annotations: Path) -> list[Fault]:
    below = dict.fromkeys(image for folder in folders for image in images_below(Path(folder)))
    unused = [image for image in below if image not in used]
    if not unused:
        return []
    # The split may be a part of what the file lists: that is a choice, not a fault.
    document = parse_coco(open_coco(annotations), annotations)
    listed = {os.path.basename(image.file_name) for image in document.images}
    kind, what = FaultKind.NOT_IN_ANNOTATIONS, f"is not listed in {annotations}, so it is not used"
    fix = "add it to the file, or remove it"
    return [
        Fault(kind=kind, where=image, what=what, fix=fix, fatal=False, image=image)
        for image in unused
        if os.path.basename(image) not in listed
    ]


def _leakage(split: CheckedSplit, earlier: Sequence[CheckedSplit], data: DataYaml) -> list[Fault]:
    """Images of this split that an earlier one has too, by content: what is measured on them means little.

    Naming the same entry twice in the data yaml is a choice, and one warning; anything else is a mistake.
    """
    faults = []
    for other in earlier:
        file_of = dict(zip(reversed(other.digests), reversed(other.files()), strict=True))
        shared = [
            (file, file_of[digest])
            for file, digest in zip(split.files(), split.digests, strict=True)
            if digest and digest in file_of
        ]
        if shared and data.entries(split.name) == data.entries(other.name):
            what = f"{split.name} and {other.name} are the same {len(shared)} images, so {split.name} measures memory"
            faults.append(_leak(str(data.path), data.file.line(split.name), what, fatal=False))
            continue
        for file, same in shared:
            as_what = "too" if file == same else f"as {same}"
            faults.append(_leak(file, None, f"is in {split.name}, and in {other.name} {as_what}", fatal=True))
    return faults


def _leak(where: str, line: int | None, what: str, *, fatal: bool) -> Fault:
    fix = "keep it in one split only" if fatal else "name other images"
    return Fault(kind=FaultKind.LEAKAGE, where=where, line=line, what=what, fix=fix, fatal=fatal)
