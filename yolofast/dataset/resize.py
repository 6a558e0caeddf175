"""A data set with smaller images: `coco320` out of COCO. What is small enough is copied, nothing is enlarged.

    data.yaml                                the same classes, with the new folders
    images/train2017/1.jpg                   the long side at most the size, averaged over areas
    labels/train2017/1.txt                   as they were: they are shares of the image
    annotations/instances_train2017.json     boxes, outlines, masks, areas and sizes in the new pixels

Sizes are rounded as training rounds them, so at that size training finds nothing left to resize.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolofast.dataset.coco_document import (
    as_number,
    checked_coco,
    conventional_annotations,
    image_folder,
    load_json,
    match_images,
    parse_coco,
)
from yolofast.dataset.data_yaml import DataYaml, label_path, read_data_yaml
from yolofast.dataset.faults import refuse_fatal
from yolofast.dataset.formats.write import DATA_YAML, new_names
from yolofast.dataset.image_facts import Look, file_stamps, image_fault, quiet_decoder, read_image_facts
from yolofast.dataset.image_header import BadImageError
from yolofast.dataset.listing import list_split
from yolofast.dataset.run_lengths import resized_mask
from yolofast.dataset.shapes.made_once import make_once
from yolofast.errors import UserError
from yolofast.files.budget import DECODING
from yolofast.files.known_numbers import as_id
from yolofast.files.threads import in_threads
from yolofast.files.yaml_file import dump_yaml
from yolofast.image_bytes import TooCostlyError, decode_image
from yolofast.image_index import fitted_size

QUALITY = 95
_OTHER_SUFFIX = {".mpo": ".jpg", ".dng": ".png"}
"""Of what can be read but not written."""


@dataclass(frozen=True)
class _Split:
    name: str
    images: list[str]
    sizes: list[tuple[int, int]]
    targets: list[str]
    """Below `images/`."""
    annotations: Path | None
    """A COCO file that lists them."""
    labelled_by_it: bool
    """Else it only lies beside text files, which are the labels."""

    @property
    def top(self) -> str:
        """The folder below `images/` that holds all of them."""
        return os.path.commonpath([os.path.dirname(target) for target in self.targets])


@dataclass
class Resizing:
    """To be made once, by `make`."""

    data_yaml: str | Path
    longest: int
    skip_bad: bool = False
    quality: int = QUALITY
    done: Callable[[int, int], None] | None = None
    """Hears how many more images are written, and how many there are."""
    remarks: list[str] = field(default_factory=list)
    images: int = 0
    shrunk: int = 0
    _names: Counter[str] = field(default_factory=Counter)

    def make(self, folder: str | Path) -> Path:
        """The new data yaml, in a folder that must be new or empty. Raises `UserError`."""
        return make_once(folder, self) / DATA_YAML

    def is_complete(self, folder: Path) -> bool:
        return False

    def is_such(self, folder: Path) -> bool:
        return False

    def write(self, folder: Path) -> None:
        data = read_data_yaml(self.data_yaml)
        splits = [one for one in (self._read(data, name) for name in data.splits()) if one is not None]
        if not splits:
            raise UserError("names no split that is there", where=data.path, fix="check `train` and `val` in it")
        self.images = sum(len(split.images) for split in splits)
        self._names = Counter(split.annotations.name for split in splits if split.annotations is not None)
        for split in splits:
            self._write_split(folder, split)
        (folder / DATA_YAML).write_bytes(self._yaml(data, splits, folder).encode())

    def _read(self, data: DataYaml, name: str) -> _Split | None:
        try:
            images, annotations, labelled = _images_of(data, name)
        except UserError as error:
            if name != "test":
                raise
            self.remarks.append(f"test is left out: {error.what}")  # many name one that was not downloaded
            return None
        found, faults = read_image_facts(images, file_stamps(images), Look(decode=False))
        sizes = [(int(width), int(height)) for width, height in found]
        if not self.skip_bad:
            refuse_fatal(faults, name, str(data.path))
        usable = [place for place, size in enumerate(sizes) if all(size)]
        if left := len(images) - len(usable):
            self.remarks.append(f"{left:,} images of {name} cannot be read, and are left out")
        images, sizes = [images[place] for place in usable], [sizes[place] for place in usable]
        return _Split(name, images, sizes, _targets(images, name), annotations, labelled)

    def _size(self, size: tuple[int, int]) -> tuple[int, int]:
        if max(size) <= self.longest:
            return size
        width, height = fitted_size(np.array([size], np.int64), self.longest, self.longest)[0].tolist()
        return width, height

    def _write_split(self, folder: Path, split: _Split) -> None:
        for below in dict.fromkeys(os.path.dirname(target) for target in split.targets):
            (folder / "images" / below).mkdir(parents=True, exist_ok=True)
        work = list(zip(split.images, split.sizes, split.targets, strict=True))
        done, total = self.done, self.images
        step = None if done is None else lambda more: done(more, total)
        with quiet_decoder():
            shrunk = in_threads(lambda one: self._write_image(*one, folder), work, step)
        self.shrunk += sum(shrunk)
        if split.annotations is not None:
            (folder / "annotations").mkdir(exist_ok=True)
            (folder / self._file(split)).write_bytes(json.dumps(self._annotations(split)).encode())

    def _file(self, split: _Split) -> str:
        """The name it had, or that of the split where others have the same."""
        assert split.annotations is not None
        same = self._names[split.annotations.name] > 1
        return f"annotations/{split.name}.json" if same else f"annotations/{split.annotations.name}"

    def _write_image(self, file: str, size: tuple[int, int], target: str, folder: Path) -> bool:
        """Whether it was made smaller. Its label file goes along."""
        place = folder / "images" / target
        wanted = self._size(size)
        if wanted == size and os.path.splitext(file)[1].lower() == place.suffix.lower():
            shutil.copyfile(file, place)
        else:
            write_pixels(file, place, wanted, size, self.quality)
        labels = label_path(file)
        if os.path.isfile(labels):
            copy = Path(label_path(str(place)))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(labels, copy)
        return wanted != size

    def _annotations(self, split: _Split) -> dict[str, Any]:
        """The whole file, with other numbers; entries of images that are not here are left out."""
        assert split.annotations is not None
        document = load_json(split.annotations)
        names = [image.file_name for image in checked_coco(document, split.annotations).images]
        target_of = dict(zip(split.images, split.targets, strict=True))
        size_of = dict(zip(split.images, split.sizes, strict=True))
        scales: dict[int | None, tuple[float, float, int, int]] = {}
        images = []
        for image, file in zip(document["images"], match_images(names, split.images), strict=True):
            if file is None:
                continue
            width, height = self._size(size_of[file])
            own = image.get("width") or size_of[file][0], image.get("height") or size_of[file][1]
            scales[as_id(image.get("id"))] = width / own[0], height / own[1], width, height
            name = os.path.relpath(target_of[file], split.top)
            images.append({**image, "file_name": name, "width": width, "height": height})
        annotations = [
            _scaled(one, scales[as_id(one.get("image_id"))])
            for one in document.get("annotations", [])
            if as_id(one.get("image_id")) in scales
        ]
        return {**document, "images": images, "annotations": annotations}

    def _yaml(self, data: DataYaml, splits: list[_Split], folder: Path) -> str:
        values: dict[str, Any] = {"path": "."}
        tops = [split.top for split in splits]
        for split in splits:
            if split.top and sum(f"{other}/".startswith(f"{split.top}/") for other in tops) == 1:
                values[split.name] = f"images/{split.top}"
                continue
            lines = "".join(f"./images/{target}\n" for target in split.targets)  # a folder would hold others too
            (folder / f"{split.name}.txt").write_text(lines, "utf-8", "surrogateescape")
            values[split.name] = f"{split.name}.txt"
        for key in ("nc", "names", "category_ids"):
            if key in data.file.values:
                values[key] = data.file.values[key]
        if stated := {split.name: self._file(split) for split in splits if split.labelled_by_it}:
            values["annotations"] = stated
        what = f"{data.path.name} with long sides of at most {self.longest} pixels"
        about = f"# {what}, made by `yolofast dataset resize`.\n"
        return about + dump_yaml(values, default_flow_style=None, width=120, allow_unicode=True)


def _images_of(data: DataYaml, split: str) -> tuple[list[str], Path | None, bool]:
    """The images, a COCO file about them, and whether their labels come from it."""
    entries = data.entries(split)
    if len(entries) == 1 and entries[0].lower().endswith(".json"):
        path = data.require(entries[0], split)
        names = [image.file_name for image in parse_coco(path.read_bytes(), path).images]
        folder = image_folder(path, names)
        return [os.path.normpath(folder / name) for name in names], path, True
    listing = list_split(data, split)
    refuse_fatal(listing.faults, split, str(data.path))
    if not listing.images:
        raise UserError(f"the {split} split holds no image", where=data.path, fix="check the path")
    images = list(dict.fromkeys(listing.images))
    stated = data.annotations(split)
    if stated is not None:
        return images, data.require(stated, "annotations"), True
    usual = conventional_annotations(listing.sources, split)
    return images, usual, usual is not None and not any(os.path.isfile(label_path(image)) for image in images)


def _targets(images: list[str], split: str) -> list[str]:
    """`train2017/1.jpg`: what follows the last folder called images; else below a folder of the split's name."""
    after = [image.rpartition("/images/")[2] if "/images/" in image else "" for image in images]
    if not all("/" in name for name in after) or len({os.path.splitext(name)[0] for name in after}) < len(after):
        after = [f"{split}/{name}" for name in new_names(images)]
    pairs = (os.path.splitext(name) for name in after)
    return [stem + _OTHER_SUFFIX.get(suffix.lower(), suffix) for stem, suffix in pairs]


def write_pixels(file: str, target: Path, wanted: tuple[int, int], size: tuple[int, int], quality: int) -> None:
    """The image as it is shown, in another size, without EXIF; raises `UserError` if it cannot be decoded."""
    with DECODING.hold(size[0] * size[1]):
        try:
            pixels = decode_image(Path(file).read_bytes())
        except TooCostlyError as error:
            raise UserError(str(error), where=file, fix="save it anew, or remove it") from None
        if pixels is None or pixels.shape[1::-1] != size:
            fault = image_fault(file, BadImageError("is damaged: its pixels cannot be decoded"))
            raise UserError(fault.what, where=file, fix=fault.fix)
        if wanted != size:
            pixels = np.asarray(cv2.resize(pixels, wanted, interpolation=cv2.INTER_AREA), np.uint8)
        encoded = cv2.imencode(target.suffix, pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    target.write_bytes(encoded.tobytes())


def _scaled(annotation: dict[str, Any], scale: tuple[float, float, int, int]) -> dict[str, Any]:
    across, down, width, height = scale
    changed = dict(annotation)

    def points(values: list[Any]) -> list[Any]:
        numbers = [as_number(value) for value in values]
        if None in numbers:
            return values  # `check` names it
        return [round((value or 0) * (down if place % 2 else across), 3) for place, value in enumerate(numbers)]

    if isinstance(annotation.get("bbox"), list):
        changed["bbox"] = points(annotation["bbox"])
    if (area := as_number(annotation.get("area"))) is not None:
        changed["area"] = round(area * across * down, 4)
    outline = annotation.get("segmentation")
    if isinstance(outline, list):
        changed["segmentation"] = [points(part) for part in outline if isinstance(part, list)]
    elif isinstance(outline, dict) and (mask := resized_mask(outline, width, height)) is not None:
        changed["segmentation"] = mask
    return changed
