"""What `--data` means: a data yaml, a folder that holds one, or the built-in data set, which is made on first use.

Anything else is looked at. A folder of Pascal VOC, a zip of Roboflow or a COCO file is answered with what it is, and
the command that makes a data set of it. Nothing is converted unasked: how to divide it, which classes to take and
where to put it are choices.
"""

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Unpack

import numpy as np

from yolofast.dataset.data_yaml import command_to_divide, read_data_yaml
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.recognise import evidence_of, images_in, recognise, recognise_unread
from yolofast.dataset.shapes.made_once import is_made, shapes_data_yaml, shapes_folder
from yolofast.dataset.split import Reads, folder_of_voc, read_split_report
from yolofast.errors import UserError
from yolofast.files.archive import is_archive
from yolofast.image_index import ImageIndex
from yolofast.resources import BUILTIN_DATA, IN_FOLDER, builtin_data, data_yaml, short_names
from yolofast.words import counted, own_command

_YAML = (".yaml", ".yml")
_LABELS = (".json", ".xml", ".csv", ".data")
_PACKED = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".gz", ".7z", ".rar")
_PARTS = ("JPEGImages", "ImageSets", "Main", "images", "labels", "image_2", "img1", "train", "valid", "val", "test")
"""Folders that belong to what lies one or two above them."""


def data_file(data: str | Path, say: Callable[[str], None] | None = None) -> Path:
    """The data yaml to read. `say` hears when the built-in data set has to be made, and what a file may mean amiss."""

    def made() -> Path:
        if say is not None and not is_made(shapes_folder()):
            say("data: the built-in shapes are made, once")
        return shapes_data_yaml()

    refuse_foreign_data(data)
    path = data_yaml(data, made)
    if say is not None:
        for word in data_remarks(path):
            say(word)
    return path


def read_named_split(path: Path, split: str, say: Callable[[str], None], **how: Unpack[Reads]) -> ImageIndex:
    """The images of a split, with a warning if none of them has a label."""
    report = read_split_report(path, split, **how)
    for fault in report.faults:
        if fault.kind is FaultKind.EMPTY_SPLIT:
            say(f"warning: {fault}; all of them count as background, and nothing can be found\n  fix: {fault.fix}")
    return report.index


def shared_images(train: ImageIndex, val: ImageIndex, path: Path) -> str:
    """A warning if the same files are trained on and measured on; `check` also finds copies of another name."""
    shared = int(np.isin(val.files, train.files).sum())
    if not shared:
        return ""
    if shared == len(val):
        what = f"the {counted(shared, 'val image')} are train images too, so val measures memory"
    else:
        what = f"{shared:,} of the {len(val):,} val images are train images too, so val measures memory there"
    return f"warning: {what}\n  fix: name other images for val, or divide them: {command_to_divide(path)}"


def look_at_data(data: str | Path) -> None:
    """Raises what `data_file` would raise for a path, and makes nothing."""
    refuse_foreign_data(data)
    builtin_data(data)


def data_remarks(path: Path) -> list[str]:
    with suppress(UserError):  # a file that is wrong is refused where it is read
        data = read_data_yaml(path)
        slips = [f"warning: {fault}" for fault in data.slips()]
        return [*slips, *(f"data: {remark}" for remark in data.remarks())]
    return []


def refuse_foreign_data(data: str | Path) -> None:
    """Raises `UserError` for what is there and is no data set of ours, with the command that makes it one."""
    text = str(data)
    packaged = (*BUILTIN_DATA, *short_names("data"))  # which a folder of that name does not hide
    if not text or text in packaged or "\0" in text or not os.path.exists(text):
        return
    path = Path(text)
    if os.path.isfile(path / IN_FOLDER) or (path.is_file() and path.suffix.lower() in _YAML):
        return
    if path.is_file() and path.suffix.lower() == ".txt":
        folder = folder_of_voc(path)
        seen = None if folder is None else recognise(folder)
        if seen is not None:
            what = f"is a list of {folder}, which looks like {seen.title} ({seen.seen})"
            raise UserError(what, where=path, fix=seen.command)
        fix = f"write a data yaml with `train: {text}` and `names: [cat, dog]`, and name that"
        raise UserError("is a text file, not a data yaml", where=path, fix=fix)
    if path.is_file() and path.name.lower().endswith(_PACKED):
        fix = f"unpack it, and name the folder; {own_command()} import reads tar files of YOLO labels"
        raise UserError("is an archive, not a data yaml", where=path, fix=fix)
    if not path.is_dir() and not is_archive(path) and path.suffix.lower() not in _LABELS:
        return  # what cannot be read as YAML is refused as such
    own = _yamls(path) if path.is_dir() else []
    if len(own) == 1:
        fix = f"name the file: --data {shlex.quote(str(path / own[0]))}"
        raise UserError(f"is a folder without {IN_FOLDER}, but with {own[0]}", where=path, fix=fix)
    ending = path.suffix.lower()
    file = f"{'an' if ending == '.xml' else 'a'} {ending[1:]} file, not a data yaml"
    kind = "a folder without data.yaml" if path.is_dir() else file
    seen = recognise(path)
    if seen is None:
        raise _of_no_known_form(path, kind)
    readable = seen.format in ("coco", "roboflow") and ending == ".json"
    also = f"; or write a data yaml with `train: {text}`" if readable else ""
    raise UserError(f"is {kind}: it looks like {seen.title} ({seen.seen})", where=path, fix=f"{seen.command}{also}")


def _of_no_known_form(path: Path, kind: str) -> UserError:
    """What is known all the same: a form that nothing here reads, images alone, a part of a data set."""
    if title := recognise_unread(path):
        fix = "export it again as COCO or YOLO" + ("" if path.is_dir() else ", or unpack it and name the folder")
        return UserError(f"is {kind}: it looks like {title}, which cannot be converted", where=path, fix=fix)
    images = images_in(path)
    if images is None:
        return UserError(f"is {kind}, and holds no file", where=path, fix="name a data yaml (docs/data.md)")
    if path.is_dir() and path.name in _PARTS and (whole := _whole_of(path)) is not None:
        return UserError(f"is a part of {whole[0]}", where=path, fix=whole[1])
    if images:
        fix = f"label them; or see what a detector finds: {own_command()} predict --source {shlex.quote(str(path))}"
        what = f"is {kind}, with {counted(images, 'image')} and no labels of a form that is known"
        return UserError(what, where=path, fix=fix)
    fix = "name a data yaml; docs/data.md says what is in one, and which other forms are known"
    return UserError(f"is {kind}, and of no form that is known", where=path, fix=fix)


def _whole_of(part: Path) -> tuple[Path, str] | None:
    """The data set above such a folder, and what to do with it."""
    for folder in list(part.absolute().parents)[:2]:
        if os.path.isfile(folder / IN_FOLDER):
            return folder, f"--data {shlex.quote(str(folder))}"
        if (seen := recognise(folder)) is not None:
            return folder, seen.command
    return None


def _yamls(folder: Path) -> list[str]:
    """Those that name splits, in the folder itself."""
    with evidence_of(folder) as evidence:
        return [name for name in evidence.data_yamls() if "/" not in name]
