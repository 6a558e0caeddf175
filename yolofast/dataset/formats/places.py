"""Where things lie in a foreign data set: its annotation files, the image that a name means, the split of a folder."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from yolofast.dataset.data_yaml import IMAGE_SUFFIXES, is_image_name
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.labelled import Labelled
from yolofast.dataset.yolo_labels import read_label
from yolofast.errors import UserError, nearest_file
from yolofast.files.budget import files_below

ANNOTATIONS = (".xml", ".json", ".csv", ".txt", ".yaml", ".yml", ".names", ".data")
_USUAL = (*IMAGE_SUFFIXES, *ANNOTATIONS)
_SPLIT_WORDS = {
    "train": "train", "training": "train", "trainval": "train", "trainset": "train",
    "val": "val", "valid": "val", "validation": "val", "eval": "val", "dev": "val",
    "test": "test", "testing": "test", "testset": "test",
}  # fmt: skip
_OTHER_TEXTS = {"readme", "license", "classes", "notes", "readme.roboflow", "readme.dataset", "train", "val", "test"}
_WORDS = re.compile(r"[^a-z]+")


def split_word(name: str) -> str:
    """`valid` is val, `instances_train2017` train, `VisDrone2019-DET-test-dev` test; empty if it names no split."""
    found = [_SPLIT_WORDS[word] for word in _WORDS.split(name.lower()) if word in _SPLIT_WORDS]
    return "test" if "test" in found else found[-1] if found else ""


def split_of(path: str | Path, root: Path) -> str:
    """By the folders between the root and the file, the nearest first; empty if none of them names one."""
    try:
        folders = Path(path).parent.relative_to(root).parts
    except ValueError:
        return ""
    return next((word for folder in reversed(folders) if (word := split_word(folder))), "")


def root_of(place: Path) -> Path:
    """The folder that holds a data set which is named by it, or by a file in it."""
    if not place.exists():
        raise UserError(f"does not exist{nearest_file(place)}", where=place, fix="give a folder, a zip or a file")
    found = place if place.is_dir() else place.parent
    return found.resolve()


def files_ending(place: Path, *endings: str) -> list[str]:
    """Below a folder, sorted; a file is itself."""
    if place.is_file():
        return [str(place.resolve())]
    found = [file for file in files_below(place.resolve(), _USUAL) if file.lower().endswith(endings)]
    return [file for file in found if not os.path.basename(file).startswith("._")]  # macOS puts these into zips


class ImagePlaces:
    """The images below some folders, found by what annotations call them."""

    def __init__(self, folders: Collection[Path], aside: Path | None = None, guessed: bool = False) -> None:
        self.aside = aside
        """A new folder for pictures that stand in label files; None: they are not asked for."""
        self.guessed = guessed
        """Whether nobody named these folders, and they do not hold the labels either."""
        self.found: set[str] = set()
        """What annotations have named; the rest was not annotated."""
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        self._all: dict[str, None] = {}
        for folder in folders:
            for file in files_below(folder.resolve(), _USUAL):
                if is_image_name(file) and file not in self._all and not os.path.basename(file).startswith("._"):
                    self._all[file] = None
                    name = os.path.basename(file)
                    self._by_name.setdefault(name, []).append(file)
                    self._by_stem.setdefault(os.path.splitext(name)[0], []).append(file)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def find(self, name: str, near: str) -> str | None:
        """The image called `name`, which may be a path from somewhere else; of several the one nearest to `near`."""
        name = name.replace("\\", "/").rstrip("/")
        base = os.path.basename(name)
        found = self._by_name.get(base) or self._by_name.get(unquote(base))
        if found:
            return self._named(_longest_tail(found, name), near)
        stem = os.path.splitext(base)[0]
        return self.of_stem(stem, near) or self.of_stem(base, near)  # `a.b` may be a whole name without its suffix

    def of_stem(self, stem: str, near: str) -> str | None:
        found = self._by_stem.get(stem)
        return self._named(found, near) if found else None

    def _named(self, files: Sequence[str], near: str) -> str:
        file = _nearest(files, near)
        self.found.add(file)
        return file


def _longest_tail(files: Sequence[str], name: str) -> list[str]:
    """Those whose last folders are the same as the name's."""
    if len(files) == 1:
        return list(files)
    steps = [step for step in name.split("/") if step not in ("", ".", "..")]
    for count in range(len(steps), 1, -1):
        tail = "/" + "/".join(steps[-count:])
        if same := [file for file in files if file.endswith(tail)]:
            return same
    return list(files)


def _nearest(files: Sequence[str], near: str) -> str:
    if len(files) == 1:
        return files[0]
    return max(files, key=lambda file: len(os.path.commonpath((file, near))))


def label_files(place: Path, images: ImagePlaces, found: Labelled, folder: str) -> Iterator[tuple[str, str]]:
    """Text files that are named like an image, and that image; a text that no image is called like is noted.

    Where some lie in folders whose names hold the word `folder`, others are not labels, as KITTI's `calib`.
    """
    texts = files_ending(place, ".txt")
    inside = [path for path in texts if folder in os.path.basename(os.path.dirname(path)).lower()]
    for path in inside or texts:
        stem = os.path.splitext(os.path.basename(path))[0]
        image = images.of_stem(stem, path)
        if image is not None:
            yield path, image
        elif stem.lower() not in _OTHER_TEXTS:
            found.note_missing(stem, path)


def read_rows(path: str, image: str, found: Labelled, comma: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, with their numbers, in fields."""
    file = read_label(path)
    if file.text is None:
        what = f"not a readable text file: {file.reason}"
        found.note(FaultKind.UNREADABLE_LABEL, path, what, file.fix, image=image)
        return
    for number, line in enumerate(file.text.split("\n"), 1):
        if line.strip():
            yield number, [field.strip() for field in line.strip().rstrip(",").split(",")] if comma else line.split()
