"""Labels brought onto their images: in pixels of the image as shown, within it, each once, of the classes asked for.

A box that reaches out by more than rounding is clipped, one without area in the image is left out; both are reported.
An image with a fault is left out whole, as in training: half of its boxes would teach the wrong thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yolofast.dataset.coco_labels import compare_shapes
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import MARKS, SHARES, Labelled, LabelledImage, LabelledObject, PixelBox
from yolofast.dataset.image_facts import Look, file_stamps, read_image_facts
from yolofast.dataset.index_cache import SMALLEST_BOX_PX, ImageRows
from yolofast.errors import UserError, nearest

_MEASURED = ("", "train", "val", "test")
"""An image of several splits stays in the last of these: figures remain comparable."""
_OVERSHOOT_PX = 1.0  # less is how annotation tools round
_LESS_THAN_A_SHARE = 1e-3  # of the image, for labels that are shares


@dataclass(frozen=True)
class Choice:
    """Which objects are kept, and what they are called."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old name -> new one; empty: left out."""
    names: tuple[str, ...] = ()
    """The classes in their order; empty: all, in the order of the source."""
    drop: tuple[str, ...] = ()
    """Marks of objects to leave out."""


def onto_images(found: Labelled, *, decode: bool = False) -> None:
    """Fills in the sizes of the images, and fits every object. `decode` looks at every pixel, to find damage."""
    found.images = _joined(found)
    files = [image.file for image in found.images]
    sizes, faults = read_image_facts(files, file_stamps(files), Look(decode))
    found.faults += faults
    for image, size in zip(found.images, sizes, strict=True):
        image.size = int(size[0]), int(size[1])
        if not all(image.size):
            continue
        rows = ImageRows(image.where, image.file)
        if image.stated not in (None, SHARES):
            compare_shapes(rows, image.stated, size)
        image.objects = _fitted(image, rows)
        found.faults += rows.all_faults()
        image.stated = image.size


def _joined(found: Labelled) -> list[LabelledImage]:
    """Each image once: what a second file says of it is added, and reported."""
    first: dict[str, LabelledImage] = {}
    for image in found.images:
        known = first.setdefault(image.file, image)
        if known is image:
            continue
        if (known.stated, known.split) == (image.stated, image.split):
            known.objects += image.objects
            found.changed["labels of one image out of several files, joined"] += 1
            continue
        if known.split == image.split:
            what, fix = f"{image.file} is labelled here too; only {known.where} counts", "keep one of them"
        else:
            stays = max(known.split, image.split, key=_MEASURED.index)
            what, fix = f"{image.file} is in {known.split} and {image.split}; it stays in {stays}", "name it once"
            known.split = stays
        found.note(FaultKind.LISTED_TWICE, image.where, what, fix, image=image.file, fatal=False)
    return list(first.values())


def _fitted(image: LabelledImage, rows: ImageRows) -> list[LabelledObject]:
    width, height = image.size
    stated = image.stated or image.size
    across, down = width / stated[0], height / stated[1]
    kept: dict[tuple[str, PixelBox], LabelledObject] = {}
    for one in image.objects:
        box = one.box[0] * across, one.box[1] * down, one.box[2] * across, one.box[3] * down
        inside = max(box[0], 0.0), max(box[1], 0.0), min(box[2], float(width)), min(box[3], float(height))
        out = max(inside[0] - box[0], inside[1] - box[1], box[2] - inside[2], box[3] - inside[3])
        slack = max(_OVERSHOOT_PX, _LESS_THAN_A_SHARE * max(image.size)) if stated == SHARES else _OVERSHOOT_PX
        if inside[2] <= inside[0] or inside[3] <= inside[1]:
            _note(
                rows, FaultKind.TINY_BOX, one, "has no area in the image; it is left out", "draw it again, or remove it"
            )
            continue
        if out > slack:
            what = f"reaches out of the image by {out:.3g} pixels; it is clipped"
            _note(rows, FaultKind.OUT_OF_RANGE, one, what, "check its corners, and the size that is stated")
        key = one.name, inside
        if key in kept and len(kept[key].parts) >= len(one.parts):
            _note(rows, FaultKind.DUPLICATE_ROW, one, "repeats another; it counts once", "remove one of them")
            continue
        one.box = inside
        one.parts = [_within(part, across, down, image.size) for part in one.parts]
        if one.area is not None:
            one.area *= across * down
        if one.mask is not None and (across, down) != (1.0, 1.0):
            one.mask = None  # its run lengths are those of another grid
        kept[key] = one
    return list(kept.values())


def _note(rows: ImageRows, kind: FaultKind, one: LabelledObject, what: str, fix: str) -> None:
    rows.note(kind, f"{one.describe()} {what}", fix, line=one.line, fatal=False)


def _within(part: list[float], across: float, down: float, size: tuple[int, int]) -> list[float]:
    factors = across, down
    return [min(max(value * factors[place % 2], 0.0), float(size[place % 2])) for place, value in enumerate(part)]


def without_bad_images(found: Labelled) -> None:
    """Images that a fatal fault names."""
    bad = {fault.image for fault in found.faults if fault.fatal and fault.image is not None}
    kept = [image for image in found.images if image.file not in bad and all(image.size)]
    if left := len(found.images) - len(kept):
        found.dropped["images with faults"] += left
    found.images = kept


def choose(found: Labelled, choice: Choice, *, crowds: bool) -> list[str]:
    """Renames, orders and leaves out; the classes that remain. Only where `crowds` can be written are they kept."""
    known = found.classes()
    for name in choice.renamed:
        if name not in known:
            what = f"--map names the class {name!r}, which there is not{nearest(name, known)}"
            raise UserError(what, fix=f"the classes are {', '.join(known) or 'none'}")
    named = [choice.renamed.get(name, name) for name in known]
    after = list(dict.fromkeys(name for name in named if name))
    for name in choice.names:
        if name not in after:
            what = f"--names has the class {name!r}, which there is not{nearest(name, after)}"
            raise UserError(what, fix=f"the classes are {', '.join(after) or 'none'}")
    classes = list(choice.names) or after
    for image in found.images:
        image.objects = [one for one in image.objects if _is_kept(one, choice, set(classes), crowds, found)]
    if choice.renamed:
        found.coco_ids = {}
    return classes


def _is_kept(one: LabelledObject, choice: Choice, classes: set[str], crowds: bool, found: Labelled) -> bool:
    if dropped := next((mark for mark in choice.drop if mark in one.marks), None):
        found.dropped[f"objects marked {dropped} (--drop)"] += 1
        return False
    if "crowd" in one.marks and not crowds:
        found.dropped["crowds, which YOLO labels cannot mark"] += 1
        return False
    one.name = choice.renamed.get(one.name, one.name)
    if not one.name or one.name not in classes:
        found.dropped["objects of classes that were not asked for"] += 1
        return False
    return True


def without_tiny_boxes(found: Labelled) -> None:
    """Nothing can be learnt from them."""
    for image in found.images:
        kept = [
            one for one in image.objects if min(one.box[2] - one.box[0], one.box[3] - one.box[1]) >= SMALLEST_BOX_PX
        ]
        if left := len(image.objects) - len(kept):
            found.dropped["boxes under 2 pixels"] += left
        image.objects = kept


def known_marks(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in MARKS:
            raise UserError(f"--drop is {name}{nearest(name, MARKS)}", fix=f"give some of {', '.join(MARKS)}")
    return tuple(names)
